//! Classes of ingresses, runtimes and volumes.

use schema::names;
use serde_json::{Value, json};

use super::{
    place::{Find, Findings, Place},
    pods, rules,
};

pub(crate) fn ingress(class: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    const LONGEST: u64 = 250;
    let controller = class.field("spec").field("controller");
    if old.is_some_and(|old| old["spec"]["controller"] != *controller.value) {
        findings.invalid_as(&controller, controller.text(), rules::IMMUTABLE);
    }
    if controller.text().len() as u64 > LONGEST {
        findings.too_long(&controller, LONGEST);
    }
    prefixed_path(&controller, findings);
    let parameters = class.field("spec").field("parameters");
    if parameters.is_set() {
        ingress_parameters(&parameters, findings);
    }
}

/// A domain and a path behind it.
fn prefixed_path(place: &Place<'_>, findings: &mut Findings) {
    const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    let Some((domain, path)) =
        place.text().split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        match place.text() {
            "" => findings.required(place, ""),
            _ => findings.invalid(place, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        }
        return;
    };
    for problem in names::is_subdomain(domain) {
        findings.invalid_as(place, domain, problem);
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        findings.invalid_as(place, path, PATH);
    }
}

fn ingress_parameters(place: &Place<'_>, findings: &mut Findings) {
    let group = place.field("apiGroup");
    if group.is_set() {
        rules::subdomain(&group, findings);
    }
    rules::path_segments(place, &["kind", "name"], findings);
    let (scope, namespace) = (place.field("scope"), place.field("namespace"));
    match scope.text() {
        _ if !scope.is_set() => findings.required(&scope, ""),
        "Namespace" if !namespace.is_set() => {
            findings.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => rules::label(&namespace, findings),
        "Cluster" if namespace.is_set() => findings.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'"),
        "Cluster" => {}
        _ => findings.unsupported(&scope, &["Cluster", "Namespace"]),
    }
}

pub(crate) fn runtime(class: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let handler = class.field("handler");
    if old.is_some_and(|old| old["handler"] != *handler.value) {
        findings.invalid_as(&handler, handler.text(), rules::IMMUTABLE);
    }
    match handler.text() {
        "" => findings.required(&handler, ""),
        _ => rules::label(&handler, findings),
    }
    let scheduling = class.field("scheduling");
    rules::labels(&scheduling.field("nodeSelector"), findings);
    let tolerations = scheduling.field("tolerations");
    pods::tolerations(&tolerations, findings);
    let mut seen = Vec::new();
    for toleration in tolerations.items() {
        let key = ["key", "operator", "value", "effect"].map(|field| toleration.field(field).text());
        if seen.contains(&key) {
            let [own, operator, value, effect] = key;
            let seconds = toleration.field("tolerationSeconds").value;
            let shown = json!({
                "Key": own, "Operator": operator, "Value": value, "Effect": effect, "TolerationSeconds": seconds,
            });
            findings.duplicate_as(&toleration, shown);
        }
        seen.push(key);
    }
}

pub(crate) fn volume_attributes(class: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    for field in ["driverName", "parameters"].map(|field| class.field(field)) {
        if old.is_some_and(|old| old[field.path.as_str()] != *field.value) {
            findings.forbidden(&field, format!("updates to {} are forbidden.", field.path));
        }
    }
    let driver = class.field("driverName");
    match driver.text() {
        "" => findings.required(&driver, ""),
        text => {
            let lower = text.to_lowercase();
            for problem in names::is_qualified_name(&lower) {
                findings.invalid_as(&driver, lower.as_str(), problem);
            }
        }
    }
    let parameters = class.field("parameters");
    if parameters.entries().any(|(key, _)| key.is_empty()) {
        findings.invalid_as(&parameters, "", "field can not be empty.");
    }
    if parameters.count() == 0 {
        findings.required(&parameters, "must contain at least one key/value pair");
    }
}
