//! What the stand-ins do next. A function of what is there; everything is looked at each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::standins::kubelets::Daemon;
use crate::standins::template::{self, REVISION_HASH};

/// Everything there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) deployments: Vec<Arc<Deployment>>,
    pub(crate) replica_sets: Vec<Arc<ReplicaSet>>,
    pub(crate) daemon_sets: Vec<Arc<DaemonSet>>,
    /// Machines that are switched off.
    pub(crate) off: BTreeSet<String>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    CreateReplicaSet {
        namespace: String,
        object: Value,
    },
    ScaleReplicaSet {
        namespace: String,
        name: String,
        replicas: i32,
    },
    CreatePod {
        namespace: String,
        object: Value,
    },
    /// Asks a pod to stop.
    StopPod {
        namespace: String,
        name: String,
        uid: String,
    },
    /// A pod has stopped: its object goes.
    RemovePod {
        namespace: String,
        name: String,
        uid: String,
    },
    Bind {
        namespace: String,
        name: String,
        node: String,
    },
    /// Replaces the taints of a node, if it is still at this version.
    SetTaints {
        node: String,
        resource_version: Option<String>,
        taints: Vec<Taint>,
    },
    /// A kubelet says that the pod runs.
    RunPod {
        namespace: String,
        name: String,
        pod: Arc<Pod>,
    },
    Status {
        kind: &'static str,
        namespace: String,
        name: String,
        status: Value,
    },
}

pub(crate) fn plan(view: &View) -> Vec<Action> {
    let mut actions = Vec::new();
    let owned = pods_by_owner(&view.pods);
    let none = Vec::new();
    let of = |uid: Option<&String>| uid.and_then(|uid| owned.get(uid.as_str())).unwrap_or(&none);
    for deployment in &view.deployments {
        deploy(view, deployment, &mut actions);
    }
    for set in &view.replica_sets {
        replicate(set, of(set.metadata.uid.as_ref()), &mut actions);
    }
    for set in &view.daemon_sets {
        spread(view, set, of(set.metadata.uid.as_ref()), &mut actions);
    }
    welcome(view, &mut actions);
    schedule(view, &mut actions);
    run(view, &mut actions);
    actions
}

/// Node and identity of each pod that a DaemonSet made.
pub(crate) fn daemons(view: &View) -> BTreeMap<String, Daemon> {
    let is_daemon = |pod: &&Arc<Pod>| pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    let placed = view.pods.iter().filter(is_daemon).filter_map(|pod| {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        Some((pod.name_any(), Daemon { node, uid: pod.uid().unwrap_or_default() }))
    });
    placed.collect()
}

fn pods_by_owner(pods: &[Arc<Pod>]) -> BTreeMap<&str, Vec<&Arc<Pod>>> {
    let mut owned: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        let owners = pod.metadata.owner_references.iter().flatten();
        for owner in owners.filter(|owner| owner.controller == Some(true)) {
            owned.entry(owner.uid.as_str()).or_default().push(pod);
        }
    }
    owned
}

fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn is_over(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    !is_deleting(pod) && conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

fn place_of<K: Resource>(object: &K) -> (String, String) {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

/// A Deployment has one set for its template, scaled as it says; older ones go to nothing.
fn deploy(view: &View, deployment: &Deployment, actions: &mut Vec<Action>) {
    if is_deleting(deployment) {
        return;
    }
    let (Some((wanted, object)), Some(spec)) = (template::replica_set(deployment), &deployment.spec) else { return };
    let (namespace, name) = place_of(deployment);
    let replicas = spec.replicas.unwrap_or(1);
    let is_own = |set: &&Arc<ReplicaSet>| {
        let owners = set.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref())
    };
    let own: Vec<_> = view.replica_sets.iter().filter(is_own).collect();
    if !own.iter().any(|set| set.name_any() == wanted) {
        actions.push(Action::CreateReplicaSet { namespace: namespace.clone(), object });
    }
    for set in &own {
        let shall = if set.name_any() == wanted { replicas } else { 0 };
        if set.spec.as_ref().and_then(|spec| spec.replicas) != Some(shall) {
            let (namespace, name) = place_of(&***set);
            actions.push(Action::ScaleReplicaSet { namespace, name, replicas: shall });
        }
    }
    let sum = |of: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> i32| -> i32 {
        own.iter().filter_map(|set| set.status.as_ref()).map(of).sum()
    };
    let (all, ready) = (sum(|status| status.replicas), sum(|status| status.ready_replicas.unwrap_or(0)));
    let updated =
        own.iter().find(|set| set.name_any() == wanted).and_then(|set| set.status.as_ref()).map_or(0, |it| it.replicas);
    let available = if ready >= replicas { "True" } else { "False" };
    let before = deployment.status.as_ref();
    let same = before.is_some_and(|before| {
        let seen = |number: Option<i32>| number.unwrap_or(0);
        before.observed_generation == deployment.metadata.generation
            && (seen(before.replicas), seen(before.ready_replicas), seen(before.updated_replicas))
                == (all, ready, updated)
            && before.conditions.iter().flatten().any(|it| it.type_ == "Available" && it.status == available)
    });
    if !same {
        let status = json!({
            "observedGeneration": deployment.metadata.generation, "replicas": all, "readyReplicas": ready,
            "availableReplicas": ready, "updatedReplicas": updated, "unavailableReplicas": (replicas - ready).max(0),
            "conditions": [
                {"type": "Available", "status": available, "reason": if available == "True" { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" }},
                {"type": "Progressing", "status": "True", "reason": if updated == replicas && ready >= replicas { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" }},
            ],
        });
        actions.push(Action::Status { kind: "deployments", namespace, name, status });
    }
}

/// A replica set has as many pods as it says.
fn replicate(set: &ReplicaSet, pods: &[&Arc<Pod>], actions: &mut Vec<Action>) {
    if is_deleting(set) {
        return;
    }
    let (namespace, name) = place_of(set);
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).max(0);
    let living: Vec<_> = pods.iter().filter(|pod| !is_deleting(&****pod) && !is_over(pod)).collect();
    let missing = wanted - i32::try_from(living.len()).unwrap_or(i32::MAX);
    let taken: BTreeSet<String> = pods.iter().map(|pod| pod.name_any()).collect();
    let uid = set.uid().unwrap_or_default();
    // Names follow from the set and a number, so that a look at an old state cannot make a pod twice.
    let free = (0..).map(|number: u64| format!("{name}-{}", &template::hash(&[&uid, &number.to_string()])[..5]));
    for free in free.filter(|free| !taken.contains(free)).take(usize::try_from(missing).unwrap_or(0)) {
        if let Some(object) = template::replica(set, &free) {
            actions.push(Action::CreatePod { namespace: namespace.clone(), object });
        }
    }
    // Those that do not run yet go first.
    let mut going: Vec<_> = living.iter().collect();
    going.sort_by_key(|pod| (is_ready(pod), pod.name_any()));
    for pod in going.into_iter().take(usize::try_from(-missing).unwrap_or(0)) {
        actions.push(stop(pod));
    }
    let count = i32::try_from(living.len()).unwrap_or(0);
    let ready = i32::try_from(living.iter().filter(|pod| is_ready(pod)).count()).unwrap_or(0);
    let before = set.status.as_ref();
    let same = before.is_some_and(|before| {
        before.replicas == count
            && before.ready_replicas.unwrap_or(0) == ready
            && before.observed_generation == set.metadata.generation
    });
    if !same {
        let status = json!({
            "replicas": count, "readyReplicas": ready, "availableReplicas": ready, "fullyLabeledReplicas": count,
            "observedGeneration": set.metadata.generation,
        });
        actions.push(Action::Status { kind: "replicasets", namespace, name, status });
    }
}

fn stop(pod: &Pod) -> Action {
    let (namespace, name) = place_of(pod);
    Action::StopPod { namespace, name, uid: pod.uid().unwrap_or_default() }
}

/// A DaemonSet has one pod on each node that it fits.
fn spread(view: &View, set: &DaemonSet, pods: &[&Arc<Pod>], actions: &mut Vec<Action>) {
    if is_deleting(set) {
        return;
    }
    let Some(spec) = &set.spec else { return };
    let (namespace, name) = place_of(set);
    let (uid, revision) = (set.uid().unwrap_or_default(), template::hash_of(&spec.template));
    let pod_spec = spec.template.spec.clone().unwrap_or_default();
    let mut on: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        on.entry(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default())
            .or_default()
            .push(pod);
    }
    let fits: Vec<_> =
        view.nodes.iter().filter(|node| selects(&pod_spec, node) && tolerates_all(&pod_spec, node, true)).collect();
    let mut ready = 0;
    for node in &fits {
        let node_name = node.name_any();
        let here = on.remove(node_name.as_str()).unwrap_or_default();
        ready += i32::from(here.iter().any(|pod| is_ready(pod)));
        if here.is_empty() && is_up(node, view) {
            let pod_name = format!("{name}-{}", &template::hash(&[&uid, &node_name, &revision])[..5]);
            if let Some(object) = template::daemon(set, &pod_name, &node_name, &revision) {
                actions.push(Action::CreatePod { namespace: namespace.clone(), object });
            }
        }
        let old = |pod: &&&Arc<Pod>| !is_deleting(&****pod) && pod.labels().get(REVISION_HASH) != Some(&revision);
        actions.extend(here.iter().filter(old).map(|pod| stop(pod)));
    }
    actions.extend(on.into_values().flatten().filter(|pod| !is_deleting(&***pod)).map(|pod| stop(pod)));
    let desired = i32::try_from(fits.len()).unwrap_or(0);
    let same = set.status.as_ref().is_some_and(|before| {
        (before.desired_number_scheduled, before.number_ready) == (desired, ready)
            && before.observed_generation == set.metadata.generation
    });
    if !same {
        let status = json!({
            "desiredNumberScheduled": desired, "currentNumberScheduled": desired, "numberReady": ready, "numberAvailable": ready,
            "updatedNumberScheduled": desired, "numberMisscheduled": 0, "observedGeneration": set.metadata.generation,
        });
        actions.push(Action::Status { kind: "daemonsets", namespace, name, status });
    }
}

/// A node that is Ready loses the taints that kept pods off it until then.
fn welcome(view: &View, actions: &mut Vec<Action>) {
    const UNTIL_READY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    for node in view.nodes.iter().filter(|node| is_node_ready(node)) {
        let left: Vec<Taint> =
            taints(node).filter(|taint| !UNTIL_READY.contains(&taint.key.as_str())).cloned().collect();
        if left.len() != taints(node).count() {
            let resource_version = node.resource_version();
            actions.push(Action::SetTaints { node: node.name_any(), resource_version, taints: left });
        }
    }
}

/// Places pods that have no node: where nothing forbids it, rather where they would like to be, not where updates are due,
/// and where few are.
fn schedule(view: &View, actions: &mut Vec<Action>) {
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| !is_over(pod)) {
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
            *load.entry(node).or_default() += 1;
        }
    }
    for pod in view.pods.iter().filter(|pod| !is_deleting(&***pod) && !is_over(pod)) {
        let Some(spec) = pod.spec.as_ref().filter(|spec| spec.node_name.is_none()) else { continue };
        let fits = view.nodes.iter().filter(|node| is_schedulable(node) && is_up(node, view) && is_node_ready(node));
        let fits = fits.filter(|node| selects(spec, node) && tolerates_all(spec, node, false));
        let best = fits.min_by_key(|node| {
            let load = load.get(&node.name_any()).copied().unwrap_or(0);
            (Reverse(preference(spec, node)), avoided(spec, node), load, node.name_any())
        });
        if let Some(node) = best {
            *load.entry(node.name_any()).or_default() += 1;
            let (namespace, name) = place_of(&**pod);
            actions.push(Action::Bind { namespace, name, node: node.name_any() });
        }
    }
}

fn is_schedulable(node: &Node) -> bool {
    !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

fn is_up(node: &Node, view: &View) -> bool {
    !view.off.contains(&node.name_any())
}

fn selects(spec: &PodSpec, node: &Node) -> bool {
    let by_label = spec.node_selector.iter().flatten().all(|(key, value)| node.labels().get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    by_label && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| is_met(term, node)))
}

/// How much a pod would rather be on this node than on another.
fn preference(spec: &PodSpec, node: &Node) -> i32 {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred = affinity.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_deref());
    let met = preferred.unwrap_or_default().iter().filter(|term| is_met(&term.preference, node));
    met.map(|term| term.weight).sum()
}

/// Whether a node has all that one term asks of its labels. What cannot be read is not met.
fn is_met(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let met = |it: &NodeSelectorRequirement| {
        let (label, values) = (node.labels().get(&it.key), it.values.as_deref().unwrap_or_default());
        match it.operator.as_str() {
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            "In" => label.is_some_and(|label| values.contains(label)),
            "NotIn" => label.is_none_or(|label| !values.contains(label)),
            _ => false,
        }
    };
    !expressions.is_empty() && expressions.iter().all(met)
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten())
}

fn tolerates_all(spec: &PodSpec, node: &Node, is_daemon: bool) -> bool {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let hard = taints(node).filter(|taint| taint.effect != "PreferNoSchedule");
    let mut counted = hard.filter(|taint| !(is_daemon && taint.key.starts_with("node.kubernetes.io/")));
    counted.all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn avoided(spec: &PodSpec, node: &Node) -> bool {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut soft = taints(node).filter(|taint| taint.effect == "PreferNoSchedule");
    soft.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || (key.is_empty() && exists))
        && (exists || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
}

/// The kubelets: what is bound to a machine that is on runs, and what is asked to stop stops.
fn run(view: &View, actions: &mut Vec<Action>) {
    let machines: BTreeMap<String, &Arc<Node>> = view.nodes.iter().map(|node| (node.name_any(), node)).collect();
    for pod in &view.pods {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else { continue };
        let (namespace, name) = place_of(&**pod);
        let machine = machines.get(node);
        let is_on = machine.is_some_and(|node| is_up(node, view));
        if is_deleting(&**pod) && (is_on || machine.is_none()) || machine.is_none() {
            actions.push(Action::RemovePod { namespace, name, uid: pod.uid().unwrap_or_default() });
        } else if is_on && !is_deleting(&**pod) && !is_over(pod) && !is_ready(pod) {
            actions.push(Action::RunPod { namespace, name, pod: pod.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, more: &Value) -> Arc<Node> {
        let mut value = json!({
            "metadata": {"name": name},
            "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (key, spec) in more.as_object().into_iter().flatten() {
            value["spec"][key] = spec.clone();
        }
        Arc::new(serde_json::from_value(value).expect("a node"))
    }

    fn pod(name: &str, node: Option<&str>, ready: bool) -> Arc<Pod> {
        let conditions = if ready { json!([{"type": "Ready", "status": "True"}]) } else { json!([]) };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"nodeName": node, "containers": []}, "status": {"conditions": conditions},
            }))
            .expect("a pod"),
        )
    }

    fn said(actions: &[Action]) -> Vec<String> {
        let one = |action: &Action| match action {
            Action::Bind { name, node, .. } => format!("bind {name} to {node}"),
            Action::RunPod { name, .. } => format!("run {name}"),
            Action::RemovePod { name, .. } => format!("remove {name}"),
            Action::CreatePod { object, .. } => format!("create {}", object["metadata"]["name"]),
            other => format!("{other:?}"),
        };
        actions.iter().map(one).collect()
    }

    #[test]
    fn a_pod_goes_where_it_may_and_rather_not_where_an_update_is_due() {
        let due = json!({"taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]});
        let view = View {
            nodes: vec![node("a", &json!({"unschedulable": true})), node("b", &due), node("c", &json!({}))],
            pods: vec![pod("one", None, false), pod("busy", Some("c"), true)],
            ..View::default()
        };
        assert_eq!(said(&plan(&view)), ["bind one to c"]);
        let only = View { nodes: view.nodes[..2].to_vec(), pods: vec![pod("one", None, false)], ..View::default() };
        assert_eq!(said(&plan(&only)), ["bind one to b"]);
    }

    #[test]
    fn a_pod_goes_only_where_its_affinity_allows() {
        let term = json!([{"matchExpressions": [{"key": "role", "operator": "Exists"}]}]);
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}});
        let spec: PodSpec = serde_json::from_value(json!({"containers": [], "affinity": affinity})).expect("a spec");
        let mut chosen = Node::clone(&node("a", &json!({})));
        assert!(!selects(&spec, &chosen));
        chosen.metadata.labels = Some([("role".to_owned(), String::new())].into());
        assert!(selects(&spec, &chosen));
    }

    #[test]
    fn a_pod_goes_where_its_affinity_prefers_if_that_node_takes_pods() {
        let term = json!({"matchExpressions": [{"key": "role", "operator": "Exists"}]});
        let preferred = json!([{"weight": 100, "preference": term}]);
        let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
        let mut wishful = Pod::clone(&pod("one", None, false));
        wishful.spec = Some(serde_json::from_value(json!({"containers": [], "affinity": affinity})).expect("a spec"));
        let mut chosen = Node::clone(&node("z", &json!({})));
        chosen.metadata.labels = Some([("role".to_owned(), String::new())].into());
        let mut view = View {
            nodes: vec![node("a", &json!({})), Arc::new(chosen.clone())],
            pods: vec![Arc::new(wishful), pod("busy", Some("z"), true)],
            ..View::default()
        };
        assert_eq!(said(&plan(&view)), ["bind one to z"]);
        chosen.spec = Some(serde_json::from_value(json!({"unschedulable": true})).expect("a spec"));
        view.nodes[1] = Arc::new(chosen);
        assert_eq!(said(&plan(&view)), ["bind one to a"]);
    }

    #[test]
    fn a_machine_that_is_off_neither_starts_nor_stops_a_pod() {
        let mut view = View {
            nodes: vec![node("a", &json!({}))],
            pods: vec![pod("one", Some("a"), false)],
            off: ["a".to_owned()].into(),
            ..View::default()
        };
        assert!(plan(&view).is_empty());
        view.off.clear();
        assert_eq!(said(&plan(&view)), ["run one"]);
        view.nodes.clear();
        assert_eq!(said(&plan(&view)), ["remove one"], "its machine is gone");
    }

    #[test]
    fn a_set_makes_the_same_names_when_it_looks_at_an_old_state() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "1"},
            "spec": {"replicas": 2, "selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            "status": {"replicas": 0},
        }))
        .expect("a set");
        let view = View { replica_sets: vec![Arc::new(set)], ..View::default() };
        let first = said(&plan(&view));
        assert_eq!(first.iter().filter(|line| line.starts_with("create")).count(), 2, "{first:?}");
        assert_eq!(first, said(&plan(&view)));
    }
}
