//! What the FeatureGate, the Node config and the APIServer ask of kubelets and do not get, told on these objects.
//!
//! They carry the sentence as an annotation: an APIServer has no conditions, and those of the others may be another operator's.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::refused_gates;
use super::{Snapshot, inherits, name_of, place, too_old};
use crate::inert::NOT_SUPPORTED;
use crate::kubelet;
use crate::plan::{Object, Plan};
use api::names::POOL_WORKER;

pub(super) fn tell(snapshot: &Snapshot, plan: &mut Plan) {
    if let Some(feature_gate) = &snapshot.feature_gate {
        say("FeatureGate", &feature_gate.metadata, &of_gates(snapshot), plan);
    }
    if let Some(node) = &snapshot.node {
        say("Node", &node.metadata, &of_node(snapshot), plan);
    }
}

fn say(kind: &'static str, metadata: &ObjectMeta, problems: &BTreeSet<String>, plan: &mut Plan) {
    let says = problems.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
    plan.remark(Object::new(kind, metadata.name.clone().unwrap_or_default()), metadata, NOT_SUPPORTED, &says);
}

fn of_gates(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut problems: BTreeSet<String> =
        snapshot.feature_gate.as_ref().and_then(kubelet::unresolved_set).into_iter().collect();
    let gates = snapshot.feature_gate.as_ref().map(kubelet::gates).unwrap_or_default();
    if gates.is_empty() {
        return problems;
    }
    if let Err(why) = place(snapshot) {
        return problems.into_iter().chain([format!("the gates reach no kubelet: {why}")]).collect();
    }
    for pool in snapshot.pools.iter().filter(|pool| !inherits(pool)) {
        let name = name_of(pool);
        problems.extend(too_old(snapshot, pool).map(|why| format!("the gates do not reach pool {name}: {why}")));
        let refused = refused_gates(snapshot, pool, &gates).into_iter();
        problems.extend(refused.map(|(gate, why)| format!("gate {gate} is left out for pool {name}: {why}")));
    }
    problems
}

fn of_node(snapshot: &Snapshot) -> BTreeSet<String> {
    let profile = snapshot.node.as_ref().and_then(|node| node.spec.worker_latency_profile.as_deref());
    if matches!(profile, None | Some("" | "Default")) {
        return BTreeSet::new();
    }
    let why = match place(snapshot) {
        Err(why) => Some(why),
        Ok(_) => {
            let workers = snapshot.pools.iter().find(|pool| name_of(pool) == POOL_WORKER);
            workers.and_then(|workers| too_old(snapshot, workers))
        }
    };
    why.map(|why| format!("spec.workerLatencyProfile reaches no kubelet: {why}")).into_iter().collect()
}
