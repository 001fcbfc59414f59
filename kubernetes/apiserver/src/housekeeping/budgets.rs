//! PodDisruptionBudgets: their status is kept as the pods are, so that evictions can trust it.

use std::{collections::BTreeMap, sync::Arc};

use builtin::conditions::set_condition;
use serde_json::{Value, json};

use crate::{
    object::{Draft, Name, Object, text},
    ownership,
    server::Api,
    store::{Error, Expect, Write},
};

const COLLECTION: &str = "policy/poddisruptionbudgets";
/// An eviction whose pod does not disappear stops counting after this.
const DISRUPTED_FOR: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

/// The budgets that select a pod.
pub(crate) fn of(api: &Api, pod: &Object) -> Vec<Arc<Object>> {
    let index = api.store.read();
    let Some(budgets) = index.collection(COLLECTION) else { return Vec::new() };
    budgets
        .iter(Some(pod.namespace()), None)
        .filter(|budget| selects(&budget.value()["spec"]["selector"], pod))
        .cloned()
        .collect()
}

fn selects(selector: &Value, pod: &Object) -> bool {
    schema::selector::from_object(selector).is_ok_and(|selector| selector.matches_by(|key| pod.labels.get(key)))
}

pub(crate) fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Brings the status of every budget in the namespace up to date.
pub(crate) async fn settle(api: &Arc<Api>, namespace: &str) {
    let budgets: Vec<Arc<Object>> = match api.store.read().collection(COLLECTION) {
        Some(found) => found.iter(Some(namespace), None).cloned().collect(),
        None => return,
    };
    for budget in budgets {
        let mut budget = Some(budget);
        while let Some(stored) = budget.take() {
            let old = stored.value();
            let mut new = observed(api, &old);
            if old == new {
                break;
            }
            if let Some(resource) = api.registry.load().of_collection(COLLECTION) {
                ownership::report(resource, "kube-controller-manager", &old, &mut new);
            }
            let draft = Draft::new(stored.key.clone(), &new);
            match api.store.commit(Write::Put(Box::new(draft), Expect::Version(stored.version))).await {
                Err(Error::Stale) => budget = api.store.get(COLLECTION, &stored.key.name),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot write the status of a budget");
                }
                Ok(_) => {}
            }
        }
    }
}

fn observed(api: &Api, budget: &Value) -> Value {
    let spec = &budget["spec"];
    let now = jiff::Timestamp::now();
    let namespace = text(&budget["metadata"]["namespace"]);
    let pods = pods(api, namespace, &spec["selector"]);
    let mut disrupted: BTreeMap<String, Value> = BTreeMap::new();
    for (name, since) in budget["status"]["disruptedPods"].as_object().into_iter().flatten() {
        let recent = text(since).parse::<jiff::Timestamp>().is_ok_and(|since| now - DISRUPTED_FOR < since);
        let waits = pods.iter().any(|pod| pod["metadata"]["name"] == *name && !is_deleting(pod));
        if recent && waits {
            disrupted.insert(name.clone(), since.clone());
        }
    }
    let healthy = pods
        .iter()
        .filter(|pod| !is_deleting(pod) && is_healthy(pod))
        .filter(|pod| !disrupted.contains_key(text(&pod["metadata"]["name"])))
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let (expected, desired) = expectation(api, spec, namespace, &pods);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let mut new = budget.clone();
    let status = &mut new["status"];
    status["currentHealthy"] = healthy.into();
    status["desiredHealthy"] = desired.into();
    status["disruptionsAllowed"] = allowed.into();
    status["expectedPods"] = expected.into();
    status["observedGeneration"] = budget["metadata"]["generation"].clone();
    if let Some(status) = status.as_object_mut() {
        if disrupted.is_empty() {
            status.remove("disruptedPods");
        } else {
            status.insert("disruptedPods".into(), json!(disrupted));
        }
    }
    let (state, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(status, "DisruptionAllowed", state, reason, "", &crate::verbs::now);
    if let Some(conditions) = status["conditions"].as_array_mut() {
        for condition in conditions.iter_mut().filter(|condition| condition["type"] == "DisruptionAllowed") {
            condition["observedGeneration"] = budget["metadata"]["generation"].clone();
        }
    }
    new
}

fn is_deleting(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn pods(api: &Api, namespace: &str, selector: &Value) -> Vec<Value> {
    let index = api.store.read();
    let Some(pods) = index.collection("/pods") else { return Vec::new() };
    pods.iter(Some(namespace), None).filter(|pod| selects(selector, pod)).map(|pod| pod.value()).collect()
}

/// How many pods there should be, and how many of them must be healthy.
fn expectation(api: &Api, spec: &Value, namespace: &str, pods: &[Value]) -> (i64, i64) {
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let (least, most) = (&spec["minAvailable"], &spec["maxUnavailable"]);
    if !most.is_null() {
        let expected = scale(api, namespace, pods);
        return (expected, (expected - portion(most, expected)).max(0));
    }
    match least {
        Value::Number(number) => (count, number.as_i64().unwrap_or(0)),
        Value::String(_) => {
            let expected = scale(api, namespace, pods);
            (expected, portion(least, expected))
        }
        _ => (count, 1.min(count)),
    }
}

/// A number, or a percentage of `whole` rounded up.
fn portion(value: &Value, whole: i64) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (whole * percent + 99) / 100
        }
        _ => 0,
    }
}

/// The replicas that the controllers of the pods want, each controller once. Pods without one do not count.
fn scale(api: &Api, namespace: &str, pods: &[Value]) -> i64 {
    let mut controllers: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some((uid, replicas)) = controller(api, namespace, pod, 0) else { continue };
        controllers.insert(uid, replicas);
    }
    controllers.values().sum()
}

fn controller(api: &Api, namespace: &str, object: &Value, depth: usize) -> Option<(String, i64)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let reference = references.iter().find(|reference| reference["controller"] == true)?;
    let (group, version) =
        text(&reference["apiVersion"]).split_once('/').unwrap_or(("", text(&reference["apiVersion"])));
    let registry = api.registry.load();
    let resource = registry.by_kind(group, version, text(&reference["kind"]))?;
    let found = api.store.get(&resource.collection, &Name::new(namespace, text(&reference["name"])))?;
    let value = found.value();
    // A ReplicaSet of a Deployment is counted as the Deployment.
    if depth == 0
        && resource.is("apps/replicasets")
        && let Some(above) = controller(api, namespace, &value, 1)
    {
        return Some(above);
    }
    let replicas = value["spec"]["replicas"].as_i64()?;
    Some((found.uid.to_string(), replicas))
}
