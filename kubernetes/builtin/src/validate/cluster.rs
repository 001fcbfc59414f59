//! Nodes, budgets, priorities and leases.

use schema::names;
use serde_json::{Value, json};

use super::place::{Find, Findings, Place};
use super::pods::quantity;
use super::rules;

pub(crate) fn node(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let metadata = object.field("metadata");
    // The real server tells about taints below metadata.
    let taints = spec.field("taints").known_as(metadata.child("taints"));
    self::taints(&taints, findings);
    for field in ["capacity", "allocatable"] {
        let list = status.field(field);
        for (name, value) in list.entries() {
            quantity(&value.known_as(list.child(name)), name, findings);
        }
    }
    let ranges = spec.field("podCIDRs");
    for range in ranges.items() {
        rules::legacy_network(&range, findings);
    }
    let families: Vec<bool> =
        ranges.texts().filter_map(rules::sloppy_network).map(|(address, _)| address.is_ipv4()).collect();
    let both = families.contains(&true) && families.contains(&false);
    if ranges.count() > 1 && (!both || ranges.count() > 2) {
        findings.invalid(&ranges, "may specify no more than one CIDR for each IP family");
    }
    let Some(old) = old else { return };
    let mut seen = Vec::new();
    for address in status.field("addresses").items() {
        if seen.contains(&address.value) {
            let text = |field: &str| address.field(field).text().to_owned();
            findings.duplicate_as(&address, json!({"Type": text("type"), "Address": text("address")}));
        }
        seen.push(address.value);
    }
    let before = &old["spec"];
    if before["podCIDRs"].as_array().is_some_and(|old| !old.is_empty()) && before["podCIDRs"] != *ranges.value {
        findings.forbidden(&ranges, "node updates may not change podCIDR except from \"\" to valid");
    }
    let provider = spec.field("providerID");
    if before["providerID"].as_str().is_some_and(|old| !old.is_empty() && old != provider.text()) {
        findings.forbidden(&provider, "node updates may not change providerID except from \"\" to valid");
    }
}

fn taints(list: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for taint in list.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        rules::qualified_name(&key, findings);
        let problems = names::is_label_value(value.text());
        if !problems.is_empty() {
            findings.invalid_as(&value, value.text(), problems.join(";"));
        }
        findings.required_one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        let pair = (key.text(), effect.text());
        if seen.contains(&pair) {
            let shown = json!({"Key": key.text(), "Value": value.text(), "Effect": effect.text(), "TimeAdded": null});
            let kind = schema::ErrorKind::Duplicate;
            let detail = "taints must be unique by key and effect pair";
            findings.push(schema::FieldError::new(kind, &taint.path, Some(shown), detail));
        }
        seen.push(pair);
    }
}

pub(crate) fn budget(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    let policy = spec.field("unhealthyPodEvictionPolicy");
    if least.is_set() && most.is_set() {
        let shown = json!({"MinAvailable": least.value, "Selector": spec.value["selector"], "MaxUnavailable": most.value,
            "UnhealthyPodEvictionPolicy": policy.value});
        findings.invalid_as(&spec, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for count in [least, most].into_iter().filter(Place::is_set) {
        rules::count_or_percent(&count, findings);
        rules::not_more_than_all(&count, findings);
    }
    rules::label_selector(&spec.field("selector"), findings);
    if policy.is_set() {
        findings.one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

pub(crate) fn priority_class(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    const HIGHEST: i64 = 1_000_000_000;
    const SYSTEM: [(&str, i64); 2] =
        [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let (name, value) = (object.field("metadata").field("name"), object.field("value"));
    let policy = object.field("preemptionPolicy");
    if let Some(old) = old {
        if old["value"].as_i64().unwrap_or(0) != value.number() {
            findings.forbidden(&value, "may not be changed in an update.");
        }
        rules::immutable(&policy, &old["preemptionPolicy"], findings);
        return;
    }
    if name.text().starts_with("system-") {
        let known = SYSTEM.iter().find(|(own, _)| *own == name.text());
        let problem = match known {
            None => Some(format!("{} is not a known system priority class", name.text())),
            Some((own, fixed)) if *fixed != value.number() => {
                Some(format!("value of {own} PriorityClass must be {fixed}"))
            }
            Some((own, _)) if object.field("globalDefault").is_true() => {
                Some(format!("globalDefault of {own} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            );
            findings.forbidden(&name, detail);
        }
    } else if value.number() > HIGHEST {
        findings.forbidden(&value, format!("maximum allowed value of a user defined priority is {HIGHEST}"));
    }
    if policy.is_set() {
        findings.required_one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

pub(crate) fn lease(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    let (duration, transitions) = (spec.field("leaseDurationSeconds"), spec.field("leaseTransitions"));
    if duration.is_set() && duration.number() <= 0 {
        findings.invalid(&duration, "must be greater than 0");
    }
    findings.non_negative(&transitions);
}
