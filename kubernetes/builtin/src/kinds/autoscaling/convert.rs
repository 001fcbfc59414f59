//! The first version of an autoscaler knows one metric, the processor. What only the second knows travels in annotations
//! of the first, so that a client that reads, changes and writes it loses nothing.

use schema::Schema;
use serde_json::{Map, Value, json};

use super::{STORED, UTILIZATION, processor};
use crate::text;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const OURS: [&str; 6] = [
    METRICS,
    CURRENT,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// From the second version to the first.
pub(super) fn to_first(value: &mut Value) {
    let spec = &mut value["spec"];
    let metrics = take(spec, "metrics");
    let behavior = take(spec, "behavior");
    let (known, others): (Vec<Value>, Vec<Value>) = list(metrics)
        .into_iter()
        .partition(|metric| is_processor(metric) && !metric["resource"]["target"]["averageUtilization"].is_null());
    if let Some(first) = known.first() {
        spec["targetCPUUtilizationPercentage"] = first["resource"]["target"]["averageUtilization"].clone();
    }
    let (current, conditions) = match value.get_mut("status") {
        Some(status) => (list(take(status, "currentMetrics")), list(take(status, "conditions"))),
        None => (Vec::new(), Vec::new()),
    };
    let used = current.iter().filter(|metric| is_processor(metric));
    let mut used = used.map(|metric| &metric["resource"]["current"]["averageUtilization"]);
    if let Some(used) = used.rfind(|used| !used.is_null()) {
        value["status"]["currentCPUUtilizationPercentage"] = used.clone();
    }
    if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentReplicas").or_insert(0.into());
    }
    forget(value);
    let mut say = |annotation: &str, content: String| value["metadata"]["annotations"][annotation] = content.into();
    if !others.is_empty() {
        say(METRICS, others.iter().map(first_spec).collect::<Value>().to_string());
    }
    if !current.is_empty() {
        say(CURRENT, current.iter().map(first_status).collect::<Value>().to_string());
    }
    if !behavior.is_null() {
        say(BEHAVIOR, internal(&behavior).to_string());
    }
    if !conditions.is_empty() {
        say(CONDITIONS, Value::Array(conditions).to_string());
    }
}

/// From the first version to the second. Annotations that hold nothing of the second are as if they were not there.
pub(super) fn stored(mut value: Value) -> Value {
    const SECOND: &str = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler";
    value["apiVersion"] = STORED.into();
    let mut converted = value.clone();
    from_first(&mut converted);
    if Schema::builtin(SECOND).is_some_and(|second| second.decode_error(&converted).is_none()) {
        return converted;
    }
    forget(&mut value);
    from_first(&mut value);
    value
}

fn from_first(value: &mut Value) {
    let said = |annotation: &str| -> Option<Value> {
        serde_json::from_str(value["metadata"]["annotations"][annotation].as_str()?).ok()
    };
    let others: Vec<Value> = said(METRICS).map(list).unwrap_or_default().iter().map(second_spec).collect();
    let current = said(CURRENT).map(|current| list(current).iter().map(second_status).collect::<Vec<_>>());
    let behavior = said(BEHAVIOR).filter(Value::is_object).map(|behavior| external(&behavior));
    let conditions = said(CONDITIONS).map(list);
    forget(value);
    let spec = &mut value["spec"];
    let mut metrics = others;
    if let Some(percent) = take(spec, "targetCPUUtilizationPercentage").as_i64() {
        metrics.push(processor(percent));
    }
    if metrics.is_empty() {
        metrics.push(processor(UTILIZATION));
    }
    spec["metrics"] = metrics.into();
    if let Some(behavior) = behavior.filter(|behavior| behavior.as_object().is_some_and(|map| !map.is_empty())) {
        spec["behavior"] = behavior;
    }
    let used = value.get_mut("status").map(|status| take(status, "currentCPUUtilizationPercentage"));
    if let Some(current) = current {
        value["status"]["currentMetrics"] = current.into();
    } else if let Some(used) = used.filter(|used| !used.is_null()) {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}});
        value["status"]["currentMetrics"] = json!([metric]);
    }
    if let Some(conditions) = conditions {
        value["status"]["conditions"] = conditions.into();
    }
    if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut) {
        // What the one always writes the other leaves out.
        if status.get("currentReplicas").is_some_and(|count| *count == 0) {
            status.remove("currentReplicas");
        }
        status.entry("currentMetrics").or_insert(Value::Null);
    }
}

fn take(parent: &mut Value, field: &str) -> Value {
    parent.as_object_mut().and_then(|parent| parent.remove(field)).unwrap_or_default()
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

/// These annotations only carry what a version lacks, and mean nothing in any other place.
fn forget(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !OURS.contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Where the two versions name the parts of a metric differently: its field, then pairs of paths. A path is a field, or
/// a field of `metric`, `target` or `current` behind a dot.
const SPECS: [(&str, &[(&str, &str)]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("targetValue", "target.value"),
            ("averageValue", "target.averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name"),
            ("container", "container"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("targetValue", "target.value"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
];

const STATUSES: [(&str, &[(&str, &str)]); 5] = [
    (
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("currentValue", "current.value"),
            ("averageValue", "current.averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("currentAverageValue", "current.averageValue"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name"),
            ("currentAverageUtilization", "current.averageUtilization"),
            ("currentAverageValue", "current.averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name"),
            ("container", "container"),
            ("currentAverageUtilization", "current.averageUtilization"),
            ("currentAverageValue", "current.averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("currentValue", "current.value"),
            ("currentAverageValue", "current.averageValue"),
        ],
    ),
];

/// Quantities that the first version cannot leave out.
const NEVER_ABSENT: [(&str, &str); 7] = [
    ("object", "targetValue"),
    ("object", "currentValue"),
    ("pods", "targetAverageValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
    ("external", "currentValue"),
];

type Names = [(&'static str, &'static [(&'static str, &'static str)]); 5];

fn first_spec(metric: &Value) -> Value {
    to_first_names(&SPECS, metric)
}

fn first_status(metric: &Value) -> Value {
    to_first_names(&STATUSES, metric)
}

fn to_first_names(names: &Names, metric: &Value) -> Value {
    let mut first = json!({"type": metric["type"]});
    for (field, pairs) in names.iter().filter(|(field, _)| metric[*field].is_object()) {
        let mut own = Map::new();
        for (name, path) in pairs.iter() {
            let found = match path.split_once('.') {
                Some((parent, child)) => &metric[*field][parent][child],
                None => &metric[*field][*path],
            };
            if !found.is_null() {
                own.insert((*name).to_owned(), found.clone());
            } else if NEVER_ABSENT.contains(&(field, name)) {
                own.insert((*name).to_owned(), "0".into());
            }
        }
        first[*field] = own.into();
    }
    first
}

fn second_status(metric: &Value) -> Value {
    to_second_names(&STATUSES, metric)
}

fn second_spec(metric: &Value) -> Value {
    let mut second = to_second_names(&SPECS, metric);
    for (field, _) in SPECS {
        let Some(own) = second.get_mut(field).filter(|own| own.is_object()) else { continue };
        let target = &own["target"];
        let kind = match field {
            "resource" | "containerResource" if !target["averageUtilization"].is_null() => "Utilization",
            "resource" | "containerResource" | "pods" => "AverageValue",
            "external" if target["value"].is_null() => "AverageValue",
            "object" if !target["averageValue"].is_null() => "AverageValue",
            _ => "Value",
        };
        if field == "object" && kind == "AverageValue" && text(&target["value"]) == "0" {
            take(&mut own["target"], "value");
        }
        own["target"]["type"] = kind.into();
    }
    second
}

fn to_second_names(names: &Names, metric: &Value) -> Value {
    // What is no metric stays what it is, and is then refused as a whole.
    if !metric.is_object() {
        return metric.clone();
    }
    let mut second = json!({"type": metric["type"]});
    for (field, pairs) in names.iter().filter(|(field, _)| metric[*field].is_object()) {
        let mut own = json!({});
        for (name, path) in pairs.iter() {
            let found = &metric[*field][*name];
            if found.is_null() {
                continue;
            }
            match path.split_once('.') {
                Some((parent, child)) => own[parent][child] = found.clone(),
                None => own[*path] = found.clone(),
            }
        }
        second[*field] = own;
    }
    second
}

/// The rules of speed are written with the names of Go's fields, and with those that are not set.
fn internal(behavior: &Value) -> Value {
    let policy = |policy: &Value| json!({"Type": policy["type"], "Value": policy["value"], "PeriodSeconds": policy["periodSeconds"]});
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        let policies: Value = rules["policies"].as_array().into_iter().flatten().map(policy).collect();
        json!({
            "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"], "SelectPolicy": rules["selectPolicy"],
            "Policies": policies, "Tolerance": rules["tolerance"],
        })
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

fn external(value: &Value) -> Value {
    let lower = |key: &str| {
        let mut letters = key.chars();
        letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, field)| !field.is_null());
            Value::Object(fields.map(|(key, field)| (lower(key), external(field))).collect())
        }
        Value::Array(items) => items.iter().map(external).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(annotations: Value) -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "maxReplicas": 3},
        })
    }

    #[test]
    fn annotations_that_make_no_sense_are_left_out() {
        for (annotation, nonsense) in [
            (METRICS, "[5]"),
            (METRICS, "{"),
            (METRICS, r#"[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":{}}}]"#),
            (BEHAVIOR, r#"{"ScaleUp":7}"#),
            (CURRENT, r#"["x"]"#),
            (CONDITIONS, "[[]]"),
        ] {
            let stored = stored(first(json!({annotation: nonsense, "own": "kept"})));
            assert_eq!(stored["spec"]["metrics"], json!([processor(UTILIZATION)]), "{annotation} {nonsense}");
            assert_eq!(stored["metadata"]["annotations"], json!({"own": "kept"}));
            assert_eq!(stored["status"]["conditions"], Value::Null, "{annotation} {nonsense}");
        }
    }

    #[test]
    fn what_only_the_second_version_knows_survives_the_first() {
        let metric = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1k"}}});
        let mut value = first(json!({}));
        value["spec"]["metrics"] = json!([metric]);
        value["spec"]["behavior"] = json!({"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
        let mut seen = value.clone();
        to_first(&mut seen);
        assert!(seen["spec"]["metrics"].is_null() && seen["spec"]["behavior"].is_null());
        let again = stored(seen);
        assert_eq!(again["spec"], value["spec"]);
    }
}
