//! Flow schemas and priority levels, and those of them that every server needs as they are.

use serde_json::json;

use super::place::{Find, Findings, Place};
use super::rules;
use crate::flow;

const EXEMPT: &str = "exempt";

pub(crate) fn schema(object: &Place<'_>, findings: &mut Findings) {
    let (name, spec) = (object.field("metadata").field("name").text(), object.field("spec"));
    precedence(&spec.field("matchingPrecedence"), name, findings);
    let method = spec.field("distinguisherMethod");
    let kind = method.field("type");
    if method.is_set() && !matches!(kind.text(), "ByNamespace" | "ByUser") {
        let supported = ["ByNamespace", "ByUser"].map(str::to_owned);
        findings.push(schema::FieldError::not_supported(&kind.path, json!({"Type": kind.text()}), &supported));
    }
    let level = spec.field("priorityLevelConfiguration").field("name");
    match level.is_empty() {
        true => findings.required(&level, "must reference a priority level"),
        false => rules::subdomain(&level, findings),
    }
    for rule in spec.field("rules").items() {
        rule_of(&rule, findings);
    }
    if let Some(fixed) = flow::mandatory_schema(name)
        && !rules::same(spec.value, &fixed)
    {
        findings.invalid(&spec, format!("spec of '{name}' must equal the fixed value"));
    }
    conditions(object, findings);
}

fn precedence(place: &Place<'_>, name: &str, findings: &mut Findings) {
    const MOST: i64 = 10000;
    let number = place.number();
    if number <= 0 {
        findings.invalid_as(place, number, "must be a positive value");
    }
    if number > MOST {
        findings.invalid_as(place, number, format!("must not be greater than {MOST}"));
    }
    if number == 1 && name != EXEMPT {
        findings.invalid_as(place, number, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

fn rule_of(rule: &Place<'_>, findings: &mut Findings) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        findings.required(&subjects, "subjects must contain at least one value");
    }
    for own in subjects.items() {
        subject(&own, findings);
    }
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        findings.required(rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for own in resources.items() {
        resource_rule(&own, findings);
    }
    for own in others.items() {
        other_rule(&own, findings);
    }
}

/// A subject is of one kind, and says nothing about the others.
fn subject(own: &Place<'_>, findings: &mut Findings) {
    const KINDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = own.field("kind");
    let Some((_, field)) = KINDS.iter().find(|(known, _)| *known == kind.text()) else {
        return findings.unsupported(&kind, &["Group", "ServiceAccount", "User"]);
    };
    let told = own.field(field);
    if told.is_set() {
        let name = told.field("name");
        if name.is_empty() {
            findings.required(&name, "");
        } else if *field == "serviceAccount" && name.text() != "*" {
            rules::subdomain(&name, findings);
        }
        if *field == "serviceAccount" {
            let namespace = told.field("namespace");
            match namespace.is_empty() {
                true => findings.required(&namespace, "must specify namespace for service account"),
                false => rules::label(&namespace, findings),
            }
        }
    } else {
        findings.required(&told, &format!("{field} is required when subject kind is '{}'", kind.text()));
    }
    for (other, field) in KINDS.iter().filter(|(known, _)| *known != kind.text()) {
        if own.field(field).is_set() {
            findings.forbidden(&own.field(field), format!("{field} is forbidden when subject kind is not '{other}'"));
        }
    }
}

/// Tells of what stands beside a star, and says whether there is one.
fn is_all(list: &Place<'_>, what: &str, findings: &mut Findings) -> bool {
    let all = list.texts().any(|text| text == "*");
    if all && list.count() > 1 {
        findings.invalid(list, format!("if '*' is present, must not specify other {what}"));
    }
    all
}

fn verbs(list: &Place<'_>, findings: &mut Findings) {
    const VERBS: [&str; 9] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
    if list.is_empty() {
        findings.required(list, "verbs must contain at least one value");
    } else if !is_all(list, "verbs", findings) && list.texts().any(|verb| !VERBS.contains(&verb)) {
        let supported = VERBS.map(str::to_owned);
        findings.push(schema::FieldError::not_supported(&list.path, list.value.clone(), &supported));
    }
}

fn resource_rule(rule: &Place<'_>, findings: &mut Findings) {
    verbs(&rule.field("verbs"), findings);
    for (field, one, several) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let list = rule.field(field);
        match list.is_empty() {
            true => findings.required(&list, &format!("resource rules must supply at least one {one}")),
            false => drop(is_all(&list, several, findings)),
        }
    }
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").is_true() {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        findings.required(&namespaces, detail);
    } else if !is_all(&namespaces, "namespaces", findings) {
        for namespace in namespaces.items() {
            for problem in schema::names::is_label(namespace.text()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                findings.invalid(&namespace, detail);
            }
        }
    }
}

fn other_rule(rule: &Place<'_>, findings: &mut Findings) {
    verbs(&rule.field("verbs"), findings);
    let paths = rule.field("nonResourceURLs");
    if paths.is_empty() {
        findings.required(&paths, "nonResourceURLs must contain at least one value");
    } else if !is_all(&paths, "non-resource URLs", findings) {
        for path in paths.items() {
            if let Some(problem) = problem_of_path(path.text()) {
                findings.invalid(&path, problem);
            }
        }
    }
}

fn problem_of_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || stars == 1 && !path.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

pub(crate) fn level(object: &Place<'_>, findings: &mut Findings) {
    const PRESERVED: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (name, annotations) = (metadata.field("name").text(), metadata.field("annotations"));
    if annotations.entries().any(|(key, _)| key == PRESERVED) {
        findings.forbidden(&annotations, format!("annotation '{PRESERVED}' is forbidden"));
    }
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    if (name == EXEMPT) != (kind.text() == "Exempt") {
        findings.invalid_as(&kind, kind.text(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                findings.forbidden(&limited, "must be nil if the type is not Limited");
            }
            shares(&exempt, findings);
        }
        "Limited" => {
            if exempt.is_set() {
                findings.forbidden(&exempt, "must be nil if the type is Limited");
            }
            match limited.is_set() {
                true => limits(&limited, findings),
                false => findings.required(&limited, "must not be empty when type is Limited"),
            }
        }
        _ => findings.required_one_of(&kind, &["Exempt", "Limited"]),
    }
    fixed_level(&spec, name, findings);
    conditions(object, findings);
}

/// Of the level that nothing waits in, only the shares may change; the other that must be there never changes.
fn fixed_level(spec: &Place<'_>, name: &str, findings: &mut Findings) {
    let Some(fixed) = flow::mandatory_level(name) else { return };
    let mut own = spec.value.clone();
    let mut exception = "";
    if name == EXEMPT {
        exception = " except the 'spec.exempt' field";
        own["exempt"] = fixed["exempt"].clone();
    }
    if !rules::same(&own, &fixed) {
        findings.invalid(spec, format!("spec of '{name}'{exception} must equal the fixed value"));
    }
}

fn shares(own: &Place<'_>, findings: &mut Findings) {
    let (shares, lendable) = (own.field("nominalConcurrencyShares"), own.field("lendablePercent"));
    if shares.number() < 0 {
        findings.invalid(&shares, "must be a non-negative integer");
    }
    if lendable.is_set() {
        rules::in_range(&lendable, 0..=100, findings);
    }
}

fn limits(own: &Place<'_>, findings: &mut Findings) {
    shares(own, findings);
    let borrowing = own.field("borrowingLimitPercent");
    if borrowing.number() < 0 {
        findings.invalid(&borrowing, "if specified, must be a non-negative integer");
    }
    let response = own.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" if queuing.is_set() => {
            findings.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        "Reject" => {}
        "Queue" if queuing.is_set() => queues(&queuing, findings),
        "Queue" => findings.required(&queuing, "must not be empty if limited.limitResponse.type is Limited"),
        _ => findings.required_one_of(&kind, &["Queue", "Reject"]),
    }
}

fn queues(queuing: &Place<'_>, findings: &mut Findings) {
    const MOST: i64 = 10_000_000;
    /// The bits of a hash that a hand of queues is dealt by.
    const BITS: f64 = 60.0;
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.field(field));
    for count in [&length, &queues, &hand] {
        if count.number() <= 0 {
            findings.invalid_as(count, count.number(), "must be positive");
        }
    }
    let (all, dealt) = (queues.number(), hand.number());
    if all > MOST {
        findings.invalid(&queues, format!("must not be greater than {MOST}"));
    }
    if dealt > 0 && dealt > all {
        findings.invalid(&hand, format!("should not be greater than queues ({all})"));
    } else if dealt > 0 && ((all as f64).log2() * dealt as f64).ceil() > BITS {
        let detail =
            format!("required entropy bits of deckSize {all} and handSize {dealt} should not be greater than {BITS}");
        findings.invalid(&hand, detail);
    }
}

fn conditions(object: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for condition in object.field("status").field("conditions").items() {
        let kind = condition.field("type");
        match seen.contains(&kind.text()) {
            true => findings.duplicate_as(&kind, kind.text()),
            false => seen.push(kind.text()),
        }
        if kind.is_empty() {
            findings.required(&kind, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hand_of_queues_never_needs_more_than_there_is_to_deal_by() {
        for (queues_, hand, fits) in [(64, 8, true), (128, 9, false), (2, 61, false), (i64::MAX, i64::MAX, false)] {
            let value = json!({"queueLengthLimit": 1, "queues": queues_, "handSize": hand});
            let mut findings = Findings::new();
            queues(&Place::root(&value), &mut findings);
            assert_eq!(findings.is_empty(), fits, "{queues_} {hand}: {findings:?}");
        }
    }

    #[test]
    fn what_every_server_needs_is_valid() {
        for name in ["exempt", "catch-all"] {
            let mut findings = Findings::new();
            let value = json!({"metadata": {"name": name}, "spec": flow::mandatory_schema(name)});
            schema(&Place::root(&value), &mut findings);
            let value = json!({"metadata": {"name": name}, "spec": flow::mandatory_level(name)});
            level(&Place::root(&value), &mut findings);
            assert!(findings.is_empty(), "{findings:?}");
        }
    }
}
