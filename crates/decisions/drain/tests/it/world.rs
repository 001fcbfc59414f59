//! Pods and budgets for the tests.

use drain::eviction::{Cause, Refusal};
use drain::pod::{DisruptionBudget, PodFacts};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000 + seconds)
}

pub(crate) fn pod(name: &str, more: Value) -> PodFacts {
    let mut pod =
        json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": {"app": name}}});
    json_merge(&mut pod, more);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    PodFacts::from_object(&pod)
}

pub(crate) fn owned(name: &str, kind: &str) -> PodFacts {
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o", "controller": true});
    pod(name, json!({"metadata": {"ownerReferences": [owner]}}))
}

pub(crate) fn budget(app: &str, allowed: i32) -> DisruptionBudget {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": format!("keep-{app}")},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": allowed},
    }))
    .unwrap();
    DisruptionBudget::from_object(&budget)
}

pub(crate) fn refused(seconds: i64) -> Refusal {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = Cause::of_answer(
        429,
        message,
        &["The disruption budget keep-db needs 1 healthy pods and has 1 currently".to_owned()],
    );
    Refusal { at: at(seconds), cause: cause.unwrap() }
}

fn json_merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                json_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
