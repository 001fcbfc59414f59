//! Where a pod may run: affinity, tolerations and how pods spread.

use schema::names;

use super::super::place::{Find, Findings, Place};
use super::super::rules;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Place<'_>, findings: &mut Findings) {
    let node = affinity.field("nodeAffinity");
    if node.field(REQUIRED).is_set() {
        node_selector(&node.field(REQUIRED), findings);
    }
    for term in node.field(PREFERRED).items() {
        weight(&term, findings);
        node_term(&term.field("preference"), true, findings);
    }
    for pods in ["podAffinity", "podAntiAffinity"].map(|name| affinity.field(name)) {
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, findings);
        }
        for term in pods.field(PREFERRED).items() {
            weight(&term, findings);
            pod_term(&term.field("podAffinityTerm"), findings);
        }
    }
}

fn weight(term: &Place<'_>, findings: &mut Findings) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.number()) {
        findings.invalid_as(&weight, weight.number(), "must be in the range 1-100");
    }
}

pub(crate) fn node_selector(selector: &Place<'_>, findings: &mut Findings) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        return findings.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_term(&term, false, findings);
    }
}

/// A term about nodes; what is only preferred may compare with what no label can be.
fn node_term(term: &Place<'_>, preferred: bool, findings: &mut Findings) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "Gt" | "Lt" if values.count() != 1 => {
                findings.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "Gt" | "Lt" => {}
            _ if rules::values_fit(&operator, &values, findings) => {}
            text => findings.invalid_as(&operator, text, "not a valid selector operator"),
        }
        rules::qualified_name(&requirement.field("key"), findings);
        if !preferred {
            for value in values.items() {
                findings.problems(&value, names::is_label_value(value.text()));
            }
        }
    }
    for requirement in term.field("matchFields").items() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        match requirement.field("operator").text() {
            "In" | "NotIn" if values.count() != 1 => {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                findings.required(&values, detail);
            }
            "In" | "NotIn" => {}
            operator => findings.invalid_as(&requirement.field("operator"), operator, "not a valid selector operator"),
        }
        if key.text() != "metadata.name" {
            findings.invalid_as(&key, key.text(), "not a valid field selector key");
            continue;
        }
        for value in values.items() {
            rules::subdomain(&value, findings);
        }
    }
}

fn pod_term(term: &Place<'_>, findings: &mut Findings) {
    let selector = term.field("labelSelector");
    rules::label_selector(&selector, findings);
    rules::label_selector(&term.field("namespaceSelector"), findings);
    for name in term.field("namespaces").texts() {
        for problem in names::is_label(name) {
            findings.push(schema::FieldError::invalid(term.child("namespace"), name, problem));
        }
    }
    label_keys(term, findings);
    let key = term.field("topologyKey");
    if key.is_empty() {
        findings.required(&key, "can not be empty");
    }
    rules::qualified_name(&key, findings);
}

/// Keys whose values the scheduler takes from the pod itself.
fn label_keys(term: &Place<'_>, findings: &mut Findings) {
    let selector = term.field("labelSelector");
    let (matched, mismatched) = (term.field("matchLabelKeys"), term.field("mismatchLabelKeys"));
    for keys in [&matched, &mismatched] {
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            findings.forbidden(keys, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.items() {
            rules::qualified_name(&key, findings);
        }
    }
    if selector.is_set() {
        let keys: Vec<&str> = matched.texts().collect();
        let mut known: Vec<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
        for expression in selector.field("matchExpressions").items() {
            let key = expression.field("key").text();
            if let Some(at) = keys.iter().rposition(|own| *own == key).filter(|_| known.contains(&key)) {
                let place = expression.known_as(format!("{}[{at}]", term.path));
                findings.invalid_as(&place, key, "exists in both matchLabelKeys and labelSelector");
            }
            known.push(key);
        }
    }
    for key in matched.items() {
        if mismatched.texts().any(|own| own == key.text()) {
            findings.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

pub(super) fn topology_spread(list: &Place<'_>, findings: &mut Findings) {
    let all: Vec<Place<'_>> = list.items().collect();
    for (at, own) in all.iter().enumerate() {
        let field = |name: &str| own.field(name);
        positive(&field("maxSkew"), findings);
        let (key, action) = (field("topologyKey"), field("whenUnsatisfiable"));
        if key.is_empty() {
            findings.required(&key, "can not be empty");
        }
        findings.one_of(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        let is_same = |other: &Place<'_>| {
            other.field("topologyKey").text() == key.text() && other.field("whenUnsatisfiable").text() == action.text()
        };
        if all[at + 1..].iter().any(is_same) {
            let place = own.field("{topologyKey, whenUnsatisfiable}");
            findings.duplicate_as(&place, format!("{{{}, {}}}", key.text(), action.text()));
        }
        let least = field("minDomains");
        if least.is_set() {
            positive(&least, findings);
            if action.text() != "DoNotSchedule" {
                let told = action.text();
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {told}");
                findings.invalid(&least, detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"].map(field) {
            if policy.is_set() {
                findings.one_of(&policy, &["Honor", "Ignore"]);
            }
        }
        label_keys(own, findings);
        rules::label_selector(&field("labelSelector"), findings);
    }
}

fn positive(place: &Place<'_>, findings: &mut Findings) {
    if place.number() <= 0 {
        findings.invalid_as(place, place.number(), "must be greater than zero");
    }
}

pub(crate) fn tolerations(list: &Place<'_>, findings: &mut Findings) {
    for own in list.items() {
        let field = |name: &str| own.field(name);
        let (key, operator, value, effect) = (field("key"), field("operator"), field("value"), field("effect"));
        if !key.is_empty() {
            rules::qualified_name(&key, findings);
        }
        if key.is_empty() && operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            findings.invalid_as(&operator, operator.text(), detail);
        }
        if field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            findings.invalid_as(&effect, effect.text(), detail);
        }
        match operator.text() {
            "Equal" | "" => {
                let problems = names::is_label_value(value.text());
                if !problems.is_empty() {
                    findings.invalid_as(&operator, value.text(), problems.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                findings.invalid_as(&operator, value.text(), "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" => findings.unsupported(&operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => findings.unsupported(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            findings.one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}
