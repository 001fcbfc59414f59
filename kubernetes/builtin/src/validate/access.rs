//! Roles and who they are bound to.

use schema::{FieldError, names};
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::rules;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn role(object: &Place<'_>, namespaced: bool, findings: &mut Findings) {
    for rule in object.field("rules").items() {
        policy_rule(&rule, namespaced, findings);
    }
    let aggregation = object.field("aggregationRule");
    if namespaced || !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        findings.required(&selectors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        rules::label_selector(&selector, findings);
        if schema::selector::from_object(selector.value).is_err() {
            findings.invalid_as(&selector, Value::Null, "invalid label selector.");
        }
    }
}

fn policy_rule(rule: &Place<'_>, namespaced: bool, findings: &mut Findings) {
    let field = |name: &str| rule.field(name);
    if field("verbs").is_empty() {
        findings.required(&field("verbs"), "verbs must contain at least one value");
    }
    let urls = field("nonResourceURLs");
    if !urls.is_empty() {
        if namespaced {
            findings.invalid(&urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !field(name).is_empty()) {
            findings.invalid(&urls, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if field("apiGroups").is_empty() {
        findings.required(&field("apiGroups"), "resource rules must supply at least one api group");
    }
    if field("resources").is_empty() {
        findings.required(&field("resources"), "resource rules must supply at least one resource");
    }
}

pub(crate) fn binding(object: &Place<'_>, namespaced: bool, old: Option<&Value>, findings: &mut Findings) {
    let role = object.field("roleRef");
    findings.one_of(&role.field("apiGroup"), &[GROUP]);
    findings.one_of(&role.field("kind"), if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] });
    let name = role.field("name");
    match name.is_empty() {
        true => findings.required(&name, ""),
        false => findings.problems(&name, names::is_path_segment(name.text(), false)),
    }
    for own in object.field("subjects").items() {
        subject(&own, namespaced, findings);
    }
    if let Some(old) = old
        && old["roleRef"] != *role.value
    {
        let text = |field: &str| role.field(field).text().to_owned();
        let shown = serde_json::json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        findings.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
    }
}

fn subject(own: &Place<'_>, namespaced: bool, findings: &mut Findings) {
    let (name, kind, group) = (own.field("name"), own.field("kind"), own.field("apiGroup"));
    if name.is_empty() {
        findings.required(&name, "");
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                rules::subdomain(&name, findings);
            }
            if !group.is_empty() {
                findings.unsupported(&group, &[""]);
            }
            if !namespaced && own.field("namespace").is_empty() {
                findings.required(&own.field("namespace"), "");
            }
        }
        "User" | "Group" => findings.one_of(&group, &[GROUP]),
        _ => findings.unsupported(&kind, &["ServiceAccount", "User", "Group"]),
    }
}
