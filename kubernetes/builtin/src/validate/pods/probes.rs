//! What the kubelet asks a container, and what it tells one.

use super::super::place::{Find, Findings, Place};
use super::super::rules;

pub(super) fn all(container: &Place<'_>, findings: &mut Findings) {
    for (field, once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        let probe = container.field(field);
        if probe.is_set() {
            check(&probe, once, findings);
        }
    }
}

fn check(probe: &Place<'_>, once: bool, findings: &mut Findings) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, findings);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        findings.non_negative(&probe.field(field));
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        findings.invalid(&grace, "must be greater than 0");
    }
    let successes = probe.field("successThreshold");
    if once && successes.number() != 1 {
        findings.invalid_as(&successes, successes.number(), "must be 1");
    }
    if !once && grace.is_set() {
        findings.invalid(&grace, "must not be set for readinessProbes");
    }
}

pub(super) fn lifecycle(container: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    let lifecycle = container.field("lifecycle");
    let grace = spec.field("terminationGracePeriodSeconds").value.as_i64();
    for hook in ["postStart", "preStop"].map(|name| lifecycle.field(name)) {
        if hook.is_set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, findings);
        }
    }
}

fn handler(place: &Place<'_>, kinds: &[&str], grace: Option<i64>, findings: &mut Findings) {
    let mut found = false;
    for (kind, own) in kinds.iter().map(|kind| (*kind, place.field(kind))).filter(|(_, own)| own.is_set()) {
        if found {
            findings.forbidden(&own, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" if own.field("command").is_empty() => findings.required(&own.field("command"), ""),
            "exec" => {}
            "httpGet" => http(&own, findings),
            "sleep" => {
                let seconds = own.field("seconds").number();
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    findings.invalid_as(&own, seconds, detail);
                }
            }
            _ => rules::port(&own.field("port"), findings),
        }
    }
    if !found {
        findings.required(place, "must specify a handler type");
    }
}

fn http(get: &Place<'_>, findings: &mut Findings) {
    if get.field("path").is_empty() {
        findings.required(&get.field("path"), "");
    }
    rules::port(&get.field("port"), findings);
    findings.one_of(&get.field("scheme"), &["HTTP", "HTTPS"]);
    for header in get.field("httpHeaders").items() {
        const RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
        let name = header.field("name").text();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            findings.invalid_as(&get.field("httpHeaders"), name, RULE);
        }
    }
}
