//! The conditions of signature policies.

use std::collections::BTreeMap;

use api::names::status::FALSE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::json;

use super::accept::Accepted;
use super::{Snapshot, object};
use crate::plan::{Object, Plan, Update};
use crate::registries::Conflict;

/// Says in their conditions what became of the policies.
pub(super) fn tell(snapshot: &Snapshot, accepted: &Accepted, plan: &mut Plan) {
    let built = accepted.build(snapshot, "").unwrap_or_default();
    let conflicts: BTreeMap<(&str, &str), &Conflict> = built
        .conflicts
        .iter()
        .map(|conflict| ((conflict.namespace.as_str(), conflict.name.as_str()), conflict))
        .collect();
    for one in &snapshot.cluster_policies {
        let object = object("ClusterImagePolicy", &one.metadata);
        let problem = accepted.refused.get(&object).map(|why| ("InvalidPolicy", why.clone()));
        let known = one.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(snapshot, object, one.metadata.generation, known, problem, plan);
    }
    for one in &snapshot.policies {
        let object = object("ImagePolicy", &one.metadata);
        let conflict = conflicts.get(&(object.namespace.as_deref().unwrap_or_default(), object.name.as_str()));
        let conflict = conflict.map(|conflict| {
            let scopes: Vec<_> = conflict.scopes.iter().map(|scope| format!("{scope:?}")).collect();
            let message = format!(
                "has conflicting scope(s) [{}] that equal to or nest inside existing clusterimagepolicy, only policy from clusterimagepolicy scope(s) will be applied",
                scopes.join(" ")
            );
            ("ConflictScopes", message)
        });
        let problem = accepted.refused.get(&object).map(|why| ("InvalidPolicy", why.clone())).or(conflict);
        let known = one.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(snapshot, object, one.metadata.generation, known, problem, plan);
    }
}

const PENDING: &str = "Pending";

fn condition(
    snapshot: &Snapshot,
    object: Object,
    generation: Option<i64>,
    known: &[Condition],
    problem: Option<(&str, String)>,
    plan: &mut Plan,
) {
    let (known, others): (Vec<&Condition>, Vec<&Condition>) = known.iter().partition(|it| it.type_ == PENDING);
    let known = known.first();
    // A policy that never had a problem needs no word about it.
    if known.is_none() && problem.is_none() {
        return;
    }
    let (reason, message) = problem.unwrap_or(("AsExpected", String::new()));
    if known.is_some_and(|known| known.reason == reason && known.message == message) {
        return;
    }
    let condition = Condition {
        type_: PENDING.to_owned(),
        status: FALSE.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(snapshot.now),
        observed_generation: generation,
    };
    // The list is written whole, so it has to keep what others wrote.
    let conditions: Vec<&Condition> = others.into_iter().chain([&condition]).collect();
    let status = Some(json!({"conditions": conditions}));
    plan.update(Update { object, annotations: BTreeMap::new(), finalizers: None, status });
}
