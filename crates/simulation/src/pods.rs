//! Workloads and their pods, with minimal stand-ins for the scheduler, workload controllers, kubelets and disruption
//! budgets.

use std::collections::{BTreeMap, BTreeSet};

use drain::{DisruptionBudget, Owner, PodFacts};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::random::Random;
use crate::world::{Node, World, is_ready};

#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) kind: WorkloadKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    /// A number of pods on any nodes; with a disruption budget if guarded.
    Deployment { replicas: usize, guarded: bool },
    /// One pod on each node, even if cordoned.
    DaemonSet,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: u64,
    /// Index into the world's workloads.
    pub(crate) workload: usize,
    pub(crate) created: Timestamp,
    pub(crate) terminating: Option<Timestamp>,
}

const NAMESPACE: &str = "shop";

/// A kubelet kills pods that take longer than this to stop.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

impl Node {
    /// Pods that are not terminating and do not belong to a DaemonSet.
    pub(crate) fn serving_pods<'a>(&'a self, workloads: &'a [Workload]) -> impl Iterator<Item = &'a Pod> {
        let serves = |pod: &&Pod| !is_of_daemon_set(workloads, pod.workload) && pod.terminating.is_none();
        self.pods.iter().filter(serves)
    }
}

pub(crate) fn is_of_daemon_set(workloads: &[Workload], workload: usize) -> bool {
    workloads.get(workload).is_some_and(|workload| workload.kind == WorkloadKind::DaemonSet)
}

/// Removes terminated pods and creates missing ones.
pub(crate) fn live(world: &mut World, random: &mut Random) {
    let now = world.now;
    for node in world.nodes.values_mut().filter(|node| node.host.is_up()) {
        // Only a reachable kubelet can confirm that a pod has stopped.
        let mut stays = |since| random.once_in(2) && now.duration_since(since) < GRACE;
        node.pods.retain(|pod| pod.terminating.is_none_or(&mut stays));
    }
    for workload in 0..world.workloads.len() {
        match world.workloads[workload].kind {
            WorkloadKind::DaemonSet => spread(world, workload),
            WorkloadKind::Deployment { replicas, .. } => schedule(world, workload, replicas, random),
        }
    }
}

fn spread(world: &mut World, workload: usize) {
    for node in world.nodes.values_mut() {
        if !node.pods.iter().any(|pod| pod.workload == workload) {
            world.uids += 1;
            node.pods.push(Pod { uid: world.uids, workload, created: world.now, terminating: None });
        }
    }
}

fn schedule(world: &mut World, workload: usize, replicas: usize, random: &mut Random) {
    let pods = world.nodes.values().flat_map(|node| &node.pods);
    let there = pods.filter(|pod| pod.workload == workload && pod.terminating.is_none()).count();
    if there >= replicas {
        return;
    }
    let takes_pods = |node: &&Node| !node.facts.unschedulable && is_ready(&node.facts);
    let open: Vec<String> = world.nodes.values().filter(takes_pods).map(|node| node.facts.name.clone()).collect();
    if let Some(node) = random.pick(&open).and_then(|name| world.nodes.get_mut(name)) {
        world.uids += 1;
        node.pods.push(Pod { uid: world.uids, workload, created: world.now, terminating: None });
    }
}

/// The pods of a node as a watch returns them.
pub(crate) fn facts(workloads: &[Workload], node: &Node) -> Vec<PodFacts> {
    let mut all: Vec<PodFacts> = node.pods.iter().map(|pod| facts_of(workloads, pod)).collect();
    if node.host.etcd.is_some() {
        let name = format!("etcd-{}", node.facts.name);
        all.push(PodFacts {
            namespace: "kube-system".to_owned(),
            uid: name.clone(),
            name,
            mirror: true,
            ..Default::default()
        });
    }
    all
}

fn facts_of(workloads: &[Workload], pod: &Pod) -> PodFacts {
    let workload = &workloads[pod.workload];
    let kind = if workload.kind == WorkloadKind::DaemonSet { "DaemonSet" } else { "ReplicaSet" };
    PodFacts {
        namespace: NAMESPACE.to_owned(),
        name: format!("{}-{}", workload.name, pod.uid),
        uid: pod.uid.to_string(),
        labels: BTreeMap::from([("app".to_owned(), workload.name.clone())]),
        owner: Some(Owner { kind: kind.to_owned(), name: workload.name.clone() }),
        created: Some(pod.created),
        terminating: pod.terminating,
        ..PodFacts::default()
    }
}

/// Existing DaemonSets as `namespace/name`.
pub(crate) fn daemon_sets(world: &World) -> BTreeSet<String> {
    let sets = world.workloads.iter().filter(|workload| workload.kind == WorkloadKind::DaemonSet);
    sets.map(|workload| format!("{NAMESPACE}/{}", workload.name)).collect()
}

/// The disruption budgets of guarded workloads.
pub(crate) fn budgets(world: &World) -> Vec<DisruptionBudget> {
    let is_guarded = |workload: &&Workload| matches!(workload.kind, WorkloadKind::Deployment { guarded: true, .. });
    world.workloads.iter().filter(is_guarded).map(|workload| budget(&workload.name, world.budget_open)).collect()
}

fn budget(app: &str, open: bool) -> DisruptionBudget {
    let labels = BTreeMap::from([("app".to_owned(), app.to_owned())]);
    DisruptionBudget::from_object(&PodDisruptionBudget {
        metadata: ObjectMeta {
            name: Some(app.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            selector: Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: Some(PodDisruptionBudgetStatus {
            disruptions_allowed: i32::from(open),
            ..PodDisruptionBudgetStatus::default()
        }),
    })
}

/// Evicts a pod unless its disruption budget forbids it. `None` if there is no such pod.
pub(crate) fn evict(world: &mut World, node: &str, uid: &str) -> Option<Evicted> {
    let (now, open) = (world.now, world.budget_open);
    let found = world.nodes.get_mut(node)?.pods.iter_mut().find(|pod| pod.uid.to_string() == uid)?;
    match world.workloads.get(found.workload)?.kind {
        WorkloadKind::Deployment { guarded: true, .. } if !open => Some(Evicted::Refused),
        WorkloadKind::Deployment { .. } => {
            found.terminating.get_or_insert(now);
            Some(Evicted::Leaving)
        }
        WorkloadKind::DaemonSet => {
            found.terminating.get_or_insert(now);
            Some(Evicted::OfDaemonSet(world.workloads[found.workload].name.clone()))
        }
    }
}

/// The result of an eviction.
pub(crate) enum Evicted {
    Leaving,
    Refused,
    /// The pod terminates; it belongs to this DaemonSet.
    OfDaemonSet(String),
}
