//! What the FeatureGate, the Node config and the APIServer ask of kubelets and do not get, told on these objects.
//!
//! They carry the sentence as an annotation: an APIServer has no conditions, and those of the others may be another operator's.

use std::collections::BTreeSet;

use api::machineconfiguration::TlsSecurityProfile;
use api::names::POOL_WORKER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cluster::refused_gates;
use super::{Snapshot, inherits, name_of, place, too_old};
use crate::inert::NOT_SUPPORTED;
use crate::kubelet::{self, tls};
use crate::plan::{Object, Plan};
use crate::templates::profile::Kubelet;

pub(super) fn tell(snapshot: &Snapshot, plan: &mut Plan) {
    if let Some(feature_gate) = &snapshot.feature_gate {
        say("FeatureGate", &feature_gate.metadata, &of_gates(snapshot), plan);
    }
    if let Some(node) = &snapshot.node {
        say("Node", &node.metadata, &of_node(snapshot), plan);
    }
    if let Some(api_server) = &snapshot.api_server {
        let problem = api_server.spec.tls_security_profile.as_ref().and_then(|profile| of_tls(snapshot, profile));
        say("APIServer", &api_server.metadata, &problem.into_iter().collect(), plan);
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

/// What is wrong with the profile of the APIServer, which comes to kubelets through the templates.
fn of_tls(snapshot: &Snapshot, profile: &TlsSecurityProfile) -> Option<String> {
    let unknown = tls::unknown_ciphers(profile).join(", ");
    match place(snapshot) {
        Err(why) => Some(format!("spec.tlsSecurityProfile reaches no kubelet: {why}")),
        Ok(Kubelet::Dropin { .. } | Kubelet::Unknown) => Some(format!(
            "spec.tlsSecurityProfile reaches no kubelet on hosts of profile {}, whose kubelets have a file of their own; set spec.tlsSecurityProfile of a KubeletConfig",
            snapshot.profile
        )),
        Ok(Kubelet::Whole) if tls::has_no_cipher(profile) => Some(format!(
            "spec.tlsSecurityProfile.custom.ciphers has none that a kubelet knows, so hosts keep what they have: {unknown}; write names such as ECDHE-ECDSA-AES128-GCM-SHA256"
        )),
        Ok(Kubelet::Whole) if !unknown.is_empty() => Some(format!(
            "spec.tlsSecurityProfile.custom.ciphers has some that no kubelet knows, which are left out: {unknown}; remove them, or write names such as ECDHE-ECDSA-AES128-GCM-SHA256"
        )),
        Ok(Kubelet::Whole) => None,
    }
}
