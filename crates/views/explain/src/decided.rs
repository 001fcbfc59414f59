//! Asks the planners what they would do, so that people read what the controllers will really do.
//!
//! Everything here is a reading of objects that were gathered before: nothing is decided anew.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use api::machineconfiguration::MachineConfigPool;
use drain::eviction::is_moved;
use drain::{DisruptionBudget, PodFacts};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use rollout::{Membership, NodeFacts, Pools, Waiting};

use crate::{Blocker, Input, Member, Objects, Standstill, Unread};

/// Asks the decisions that the controllers make too.
pub fn decide(objects: &mut Objects, drains: &Drains, now: Timestamp) {
    let pools = Pools::from_objects(&objects.pools);
    let members = objects.nodes.iter().map(|node| {
        let facts = NodeFacts::from_object(node);
        let member = match pools.of(&facts) {
            Membership::Unmanaged => match pools.birthplace(&facts) {
                Some((pool, _)) => Member::Born(pool.to_owned()),
                None => Member::Unmanaged,
            },
            Membership::Member { primary, .. } => Member::Pool(primary),
            Membership::Contested(contested) => Member::Contested(contested.pools),
        };
        (node.name_any(), member)
    });
    objects.members = members.collect();
    let (mut standstills, mut unfit) = (BTreeMap::new(), BTreeMap::new());
    for pool in &objects.pools {
        let snapshot = snapshot_of(objects, pool, now);
        let standstill = standstill(&rollout::plan(&snapshot).next);
        standstills.insert(pool.name_any(), as_far_as_read(standstill, &objects.unread));
        let (nodes, rules) = (&snapshot.nodes, snapshot.nodes.rules());
        let facts = nodes.index().unfit.iter().filter_map(|node| nodes.get(node));
        unfit.extend(facts.filter_map(|facts| Some((facts.name.clone(), rules.refusal(facts)?.to_owned()))));
    }
    (objects.standstills, objects.unfit) = (standstills, unfit);
    let draining = objects.nodes.iter().map(NodeFacts::from_object).filter(NodeFacts::is_draining);
    objects.blockers = draining.map(|node| (node.name.clone(), drains.blockers(&node.name, now))).collect();
}

/// What the rollout controller would do about a pool now.
#[must_use]
pub fn plan_of(objects: &Objects, pool: &MachineConfigPool, now: Timestamp) -> rollout::Plan {
    rollout::plan(&snapshot_of(objects, pool, now))
}

fn snapshot_of(objects: &Objects, pool: &MachineConfigPool, now: Timestamp) -> rollout::Snapshot {
    let ledger = objects.ledgers.iter().find(|ledger| ledger.name_any() == pool.name_any());
    let input = rollout::Objects {
        machine_config_nodes: &objects.machine_config_nodes,
        ledger,
        policy: objects.pool_policies.iter().find(|policy| policy.name_any() == pool.name_any()),
        configs: objects.configs.as_ref().map(Vec::as_slice),
        pods: objects.etcd.as_ref().map(Vec::as_slice),
        ..rollout::Objects::new(pool, &objects.pools, &objects.nodes)
    };
    // Without a policy, how long a target has to settle is the controller's own setting; a moment later it is over anyway.
    let settings = rollout::Settings {
        settle: SignedDuration::ZERO,
        leader_node: objects.leader_node.clone(),
        ..rollout::Settings::default()
    };
    let mut snapshot = rollout::Snapshot::from_objects(input, settings, now);
    if let Some(refusals) = objects.refusals.get(&pool.name_any()) {
        snapshot.observe_hosts(|current, word| refusals.get(&(current.to_owned(), word.to_owned())).cloned());
    }
    snapshot
}

fn standstill(next: &rollout::Next) -> Standstill {
    let (waiting, left) = match next {
        rollout::Next::OnChange(waiting) => (waiting, SignedDuration::ZERO),
        rollout::Next::After(left, waiting) => (waiting, *left),
    };
    match waiting {
        Waiting::Settled => Standstill::Settled,
        Waiting::Misconfigured(problem) => Standstill::Misconfigured(problem.clone()),
        Waiting::NoConfiguration => Standstill::NoConfiguration,
        Waiting::Paused => Standstill::Paused,
        Waiting::TrialReverted { config, node } => {
            Standstill::TrialReverted { config: config.clone(), node: node.clone() }
        }
        Waiting::Settling { .. } => Standstill::Settling { left },
        Waiting::Budget { limit, used } => Standstill::Budget { limit: *limit, used: *used },
        Waiting::Nodes { in_progress } => Standstill::Nodes { in_progress: *in_progress },
        Waiting::Held { nodes } => Standstill::Held { nodes: *nodes },
        other @ (Waiting::Deleting
        | Waiting::Image(_)
        | Waiting::NewerPool
        | Waiting::Quorum { .. }
        | Waiting::Peer { .. }
        | Waiting::Taints
        | Waiting::Unfit { .. }
        | Waiting::Unread(_)) => Standstill::Other(other.to_string()),
    }
}

/// A plan that was made without nodes or without the ledger holds only where it rests on the pool alone.
fn as_far_as_read(standstill: Standstill, unread: &Unread) -> Standstill {
    let Some(why) = unread.why(Input::Ledgers).or_else(|| unread.why(Input::Nodes)) else { return standstill };
    match standstill {
        Standstill::Misconfigured(_)
        | Standstill::NoConfiguration
        | Standstill::Paused
        | Standstill::TrialReverted { .. } => standstill,
        Standstill::Settled if unread.why(Input::Nodes).is_none() => standstill,
        Standstill::Settled
        | Standstill::Settling { .. }
        | Standstill::Budget { .. }
        | Standstill::Nodes { .. }
        | Standstill::Held { .. }
        | Standstill::Other(_)
        | Standstill::Unknown(_) => Standstill::Unknown(why.to_owned()),
    }
}

/// What drains are about: the pods on nodes, and what decides whether each of them goes.
#[derive(Clone, Default)]
pub struct Drains {
    pub pods: Vec<Pod>,
    pub budgets: Vec<PodDisruptionBudget>,
    pub daemon_sets: Reading<BTreeSet<String>>,
}

impl Drains {
    /// Pods of a node whose budget lets none go. One that is going already waits for no budget.
    fn blockers(&self, node: &str, now: Timestamp) -> Vec<Blocker> {
        let budgets: Vec<_> = self.budgets.iter().map(DisruptionBudget::from_object).collect();
        let is_here = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        let here = self.pods.iter().filter(is_here).map(PodFacts::from_object);
        let moving = here.filter(|pod| is_moved(pod, &self.daemon_sets, now) && pod.terminating.is_none());
        let held = moving.filter_map(|pod| {
            let protecting: Vec<_> = budgets.iter().filter(|budget| budget.protects(&pod)).collect();
            let blocks = protecting.len() > 1 || protecting.iter().any(|budget| budget.disruptions_allowed < 1);
            blocks.then(|| self.blocker(&pod, &protecting))
        });
        held.collect()
    }

    fn blocker(&self, pod: &PodFacts, protecting: &[&DisruptionBudget]) -> Blocker {
        let mut blocker = blocker(pod, protecting.iter().map(|budget| budget.name.clone()).collect());
        let [budget] = protecting else { return blocker };
        let is_it = |it: &&PodDisruptionBudget| {
            it.name_any() == budget.name && it.namespace().unwrap_or_default() == budget.namespace
        };
        let Some(object) = self.budgets.iter().find(is_it) else { return blocker };
        blocker.never = lets_none_go(object);
        // The budget counts the pods of everybody whom it protects.
        let protected = self.pods.iter().map(PodFacts::from_object).filter(|it| budget.protects(it));
        if protected.map(|it| it.owner).all(|owner| owner == pod.owner) {
            blocker.replicas = object.status.as_ref().map(|status| status.expected_pods).filter(|count| *count > 0);
        }
        blocker
    }
}

/// Whether a budget lets no pod go however many there are.
fn lets_none_go(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    let is = |value: Option<&IntOrString>, number: Option<i32>, percent: &str| match value {
        Some(IntOrString::Int(value)) => Some(*value) == number,
        Some(IntOrString::String(value)) => value == percent,
        None => false,
    };
    is(spec.max_unavailable.as_ref(), Some(0), "0%") || is(spec.min_available.as_ref(), None, "100%")
}

fn blocker(pod: &PodFacts, budgets: Vec<String>) -> Blocker {
    let owner = pod.owner.as_ref().map(|owner| match owner.kind.as_str() {
        // A ReplicaSet's name is its Deployment's and a hash; people scale Deployments.
        "ReplicaSet" => match owner.name.rsplit_once('-') {
            Some((deployment, _)) => format!("deploy/{deployment}"),
            None => format!("rs/{}", owner.name),
        },
        kind => format!("{}/{}", kind.to_lowercase(), owner.name),
    });
    let (namespace, pod) = (pod.namespace.clone(), pod.name.clone());
    Blocker { namespace, pod, owner, replicas: None, budgets, never: false }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_drain_moves_what_is_left_of_a_daemon_set_that_is_gone_and_waits_for_what_is_going() {
        let now = Timestamp::UNIX_EPOCH;
        let pod = |name: &str, owner: &str, set: &str| {
            let owners = json!([{"apiVersion": "apps/v1", "kind": owner, "name": set, "uid": "u", "controller": true}]);
            let metadata = json!({"name": name, "namespace": "shop", "ownerReferences": owners});
            PodFacts::from_object(&serde_json::from_value(json!({"metadata": metadata})).expect("it is valid"))
        };
        let sets = Reading::known(BTreeSet::from(["shop/agent".to_owned()]), now);
        assert!(!is_moved(&pod("agent-1", "DaemonSet", "agent"), &sets, now));
        assert!(is_moved(&pod("old-1", "DaemonSet", "old"), &sets, now), "nobody makes it again");
        assert!(is_moved(&pod("web-1", "ReplicaSet", "web"), &sets, now));
        let going = PodFacts { terminating: Some(now), ..pod("web-2", "ReplicaSet", "web") };
        assert!(is_moved(&going, &sets, now), "the drain waits for it");
        let unknown = Reading::Unknown("forbidden".to_owned());
        assert!(!is_moved(&pod("old-1", "DaemonSet", "old"), &unknown, now), "what is not known to be gone stays");
    }
}
