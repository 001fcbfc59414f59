//! Autoscalers: what they scale, by which metrics, and how fast. Both versions are judged in the terms of the second.

use schema::names;
use serde_json::Value;

use super::{
    place::{Find, Findings, Place},
    pods::{amount_of, container_resource},
    rules,
};

/// The ways in which a metric is named, in the order in which they are looked at.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

pub(crate) fn check(autoscaler: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = autoscaler.field("spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let lowest = i64::from(old.is_none_or(|old| old["spec"]["minReplicas"] != 0));
    if least.is_set() && least.number() < lowest {
        findings.invalid(&least, format!("must be greater than or equal to {lowest}"));
    }
    match most.number() {
        0 => findings.required(&most, "must be set and greater than 0"),
        number if number < 0 => findings.invalid(&most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_set() && most.number() < least.number() {
        findings.invalid_as(&most, most.number(), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    // What was let in once is not asked for its version again.
    let known = old.is_some_and(|old| {
        let before = &old["spec"]["scaleTargetRef"];
        ["apiVersion", "kind"].iter().all(|field| before[*field] == target.value[*field])
    });
    let version = match target.field("kind").text() {
        _ if known => Version::Any,
        "ReplicationController" => Version::Core,
        _ => Version::Grouped,
    };
    reference(&target, version, findings);
    metrics(&spec, old, findings);
    for direction in ["scaleUp", "scaleDown"] {
        scaling(&spec.field("behavior").field(direction), findings);
    }
}

/// What a reference may say about its version.
#[derive(Clone, Copy)]
enum Version {
    Any,
    /// Also none at all, or one without a group.
    Core,
    Grouped,
}

fn reference(place: &Place<'_>, version: Version, findings: &mut Findings) {
    for field in ["kind", "name"] {
        let field = place.field(field);
        match field.text() {
            "" => findings.required(&field, ""),
            text => findings.problems(&field, names::is_path_segment(text, false)),
        }
    }
    if let Some(problem) = version_problem(place.value, version) {
        let field = place.field("apiVersion");
        findings.invalid_as(&field, field.text(), problem);
    }
}

fn version_problem(reference: &Value, version: Version) -> Option<String> {
    let text = reference["apiVersion"].as_str().unwrap_or_default();
    match (version, text.matches('/').count()) {
        (Version::Any, _) => None,
        (_, 2..) => Some(format!("unexpected GroupVersion string: {text}")),
        (Version::Grouped, _) if !text.contains('/') || text.starts_with('/') => {
            Some("apiVersion must specify API group".to_owned())
        }
        _ => None,
    }
}

fn metrics(spec: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let before = old.and_then(|old| old["spec"]["metrics"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let wrong = |metric: &&Value| version_problem(&metric["object"]["describedObject"], Version::Core).is_some();
    let version = if before.iter().any(|metric| wrong(&metric)) { Version::Any } else { Version::Core };
    let list = spec.field("metrics");
    for item in list.items() {
        metric(&item, version, findings);
    }
    let outside = |item: Place<'_>| matches!(item.field("type").text(), "Object" | "External");
    let least = spec.field("minReplicas");
    if least.is_set() && least.number() == 0 && !list.items().any(outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        findings.forbidden(&list, detail);
    }
}

fn metric(place: &Place<'_>, version: Version, findings: &mut Findings) {
    const KINDS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = place.field("type");
    if kind.is_empty() {
        findings.required(&kind, "must specify a metric source type");
    }
    findings.one_of(&kind, &KINDS);
    let present: Vec<Place<'_>> = SOURCES.iter().map(|(field, _)| place.field(field)).filter(Place::is_set).collect();
    if let Some(first) = present.first() {
        source(first, version, findings);
    }
    let expected = SOURCES.iter().find(|(_, own)| *own == kind.text()).map(|(field, _)| place.field(field));
    if let Some(expected) = expected.as_ref().filter(|expected| !expected.is_set()) {
        findings.required(expected, "must populate information for the given metric source");
    }
    if present.len() != 1 {
        let others = present.iter().filter(|own| expected.as_ref().is_none_or(|expected| expected.path != own.path));
        others.for_each(|other| findings.forbidden(other, "must populate the given metric source only"));
    }
}

fn source(place: &Place<'_>, version: Version, findings: &mut Findings) {
    let target = place.field("target");
    let [value, average, percent] = ["value", "averageValue", "averageUtilization"].map(|field| target.field(field));
    let kind = place.path.rsplit('.').next().unwrap_or_default();
    match kind {
        "object" => reference(&place.field("describedObject"), version, findings),
        "containerResource" => {
            let (name, container) = (place.field("name"), place.field("container"));
            if name.is_empty() {
                findings.required(&name, "must specify a resource name");
            } else {
                container_resource(&name, name.text(), findings);
            }
            if container.is_empty() {
                findings.required(&container, "must specify a container");
            } else {
                rules::label(&container, findings);
            }
        }
        "resource" if place.field("name").is_empty() => {
            findings.required(&place.field("name"), "must specify a resource name");
        }
        _ => {}
    }
    if matches!(kind, "object" | "external" | "pods") {
        let name = place.field("metric").field("name");
        match name.text() {
            "" => findings.required(&name, "must specify a metric name"),
            text => findings.problems(&name, names::is_path_segment(text, false)),
        }
    }
    aim(&target, findings);
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            findings.required(&average, "must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => {
            findings.required(&average, "must set either a target value for metric or a per-pod target");
        }
        "external" if value.is_set() && average.is_set() => {
            findings.forbidden(&value, "may not set both a target value for metric and a per-pod target");
        }
        "pods" if !average.is_set() => findings.required(&average, "must specify a positive target averageValue"),
        "resource" | "containerResource" if !percent.is_set() && !average.is_set() => {
            findings.required(&percent, "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if percent.is_set() && average.is_set() => {
            findings.forbidden(&average, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

fn aim(target: &Place<'_>, findings: &mut Findings) {
    let kind = target.field("type");
    if kind.is_empty() {
        findings.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        findings.invalid_as(&kind, kind.text(), "must be either Utilization, Value, or AverageValue");
    }
    for amount in ["value", "averageValue"].map(|field| target.field(field)) {
        if amount.is_set() && amount_of(amount.value).0 <= 0 {
            findings.invalid(&amount, "must be positive");
        }
    }
    let percent = target.field("averageUtilization");
    if percent.is_set() && percent.number() < 1 {
        findings.invalid(&percent, "must be greater than 0");
    }
}

fn scaling(place: &Place<'_>, findings: &mut Findings) {
    const LONGEST_WINDOW: i64 = 3600;
    const LONGEST_PERIOD: i64 = 1800;
    if !place.is_set() {
        return;
    }
    let window = place.field("stabilizationWindowSeconds");
    if window.number() < 0 {
        findings.invalid(&window, "must be greater than or equal to zero");
    }
    if window.number() > LONGEST_WINDOW {
        findings.invalid(&window, format!("must be less than or equal to {LONGEST_WINDOW}"));
    }
    let select = place.field("selectPolicy");
    if select.is_set() {
        findings.one_of(&select, &["Disabled", "Max", "Min"]);
    }
    let policies = place.field("policies");
    if policies.is_empty() {
        findings.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        findings.one_of(&policy.field("type"), &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"].map(|field| policy.field(field)) {
            if field.number() <= 0 {
                findings.invalid_as(&field, field.number(), "must be greater than zero");
            }
        }
        let period = policy.field("periodSeconds");
        if period.number() > LONGEST_PERIOD {
            findings.invalid(&period, format!("must be less than or equal to {LONGEST_PERIOD}"));
        }
    }
    let tolerance = place.field("tolerance");
    if tolerance.is_set() && amount_of(tolerance.value).0 < 0 {
        findings.invalid(&tolerance, rules::NEGATIVE);
    }
}
