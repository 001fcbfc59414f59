//! Annotations of pods that mean something to the server.

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::containers;

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn check(annotations: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    for (key, own) in annotations.entries() {
        if key == MIRROR && spec.field("nodeName").is_empty() {
            findings.invalid(&own, "must set spec.nodeName if mirror pod annotation is set");
        }
        if key == COST && !is_cost(own.text()) {
            findings.invalid(&own, "must be a 32bit integer");
        }
        if key == SECCOMP || key.starts_with(SECCOMP_OF) {
            seccomp(&own.known_as(annotations.child(key)), findings);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            if !containers::visited(spec).any(|own| own.field("name").text() == container) {
                findings.invalid_as(&own, container, "container not found");
            }
            let profile = own.text();
            if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
                findings.invalid(&own, format!("invalid AppArmor profile name: {profile:?}"));
            }
        }
    }
}

/// A number as it is usually written, without signs and zeros before it.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.parse::<i32>().is_ok() && !text.starts_with('+') && (digits == "0" || !digits.starts_with('0'))
}

fn seccomp(profile: &Place<'_>, findings: &mut Findings) {
    match profile.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text if text.starts_with("localhost/") => {
            let path = serde_json::Value::from(&text["localhost/".len()..]);
            rules::descending_path(&Place { value: &path, path: profile.path.clone() }, findings);
        }
        _ => findings.invalid(profile, "must be a valid seccomp profile"),
    }
}

/// Where both annotations and fields choose a profile, they choose the same.
pub(super) fn match_fields(annotations: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    let whole = spec.field("securityContext");
    let own = annotations.value[SECCOMP].as_str();
    profile(own, &whole.field("seccompProfile"), "seccomp", findings);
    for container in containers::visited(spec) {
        let key = format!("{SECCOMP_OF}{}", container.field("name").text());
        let context = container.field("securityContext");
        profile(annotations.value[&key].as_str(), &context.field("seccompProfile"), "seccomp", findings);
    }
    if spec.field("os").field("name").text() == "windows" {
        return;
    }
    for container in containers::visited(spec) {
        let key = format!("{APP_ARMOR}{}", container.field("name").text());
        let own = container.field("securityContext").field("appArmorProfile");
        let chosen = if own.is_set() { own.clone() } else { whole.field("appArmorProfile").known_as(own.path) };
        profile(annotations.value[&key].as_str(), &chosen, "apparmor", findings);
    }
}

fn profile(annotation: Option<&str>, field: &Place<'_>, what: &str, findings: &mut Findings) {
    let Some(annotation) = annotation.filter(|_| field.is_set()) else { return };
    let fits = match field.field("type").text() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default"),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(path) if path == field.field("localhostProfile").text() => true,
            Some(_) => {
                let detail = format!("{what} profile in annotation and field must match");
                return findings.forbidden(&field.field("localhostProfile"), detail);
            }
            None => false,
        },
        _ => true,
    };
    if !fits {
        findings.forbidden(&field.field("type"), format!("{what} type in annotation and field must match"));
    }
}
