//! The cells of built-in resources; the core group, workloads, autoscalers and infrastructure have files of their own.

use serde_json::{Value, json};

use super::{
    autoscaling, core, infrastructure,
    print::{NONE, age_of, first_three, number, or, size, text},
    workloads,
};

/// The cells of an object, one per column; `now` is RFC 3339.
#[must_use]
pub fn cells(group: &str, plural: &str, object: &Value, now: &str) -> Vec<Value> {
    let age = age_of(&object["metadata"]["creationTimestamp"], now);
    let list = core::cells(group, plural, object, &age, now)
        .or_else(|| workloads::cells(group, plural, object, &age, now))
        .or_else(|| infrastructure::cells(group, plural, object, &age))
        .unwrap_or_else(|| other(group, plural, object, &age));
    match list {
        Value::Array(cells) => cells,
        _ => Vec::new(),
    }
}

/// The state of an APIService, with the reason where it is not available.
fn availability(status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.into_iter().find(|condition| condition["type"] == "Available");
    match condition.map(|condition| (text(&condition["status"]), text(&condition["reason"]))) {
        None => "Unknown".to_string(),
        Some((state, reason)) if state == "True" || reason.is_empty() => state.to_string(),
        Some((state, reason)) => format!("{state} ({reason})"),
    }
}

fn other(group: &str, plural: &str, object: &Value, age: &str) -> Value {
    let name = &object["metadata"]["name"];
    let (spec, status) = (&object["spec"], &object["status"]);
    match (group, plural) {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            json!([name, size(&object["webhooks"]), age])
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies" | "validatingadmissionpolicies") => {
            let what = if plural.starts_with("mutating") { "mutations" } else { "validations" };
            let kind = &spec["paramKind"];
            let shown = match kind.is_object() {
                true => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
                false => "<unset>".to_string(),
            };
            json!([name, size(&spec[what]), shown, age])
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings" | "validatingadmissionpolicybindings") => {
            let reference = &spec["paramRef"];
            let shown = match (text(&reference["namespace"]), text(&reference["name"])) {
                (_, "") => "<unset>".to_string(),
                ("", name) => format!("*/{name}"),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            json!([name, text(&spec["policyName"]), shown, age])
        }
        ("apiregistration.k8s.io", "apiservices") => {
            let service = match &spec["service"] {
                Value::Object(service) => {
                    let part = |key: &str| service.get(key).map(text).unwrap_or_default();
                    format!("{}/{}", part("namespace"), part("name"))
                }
                _ => "Local".to_string(),
            };
            json!([name, service, availability(status), age])
        }
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::cells(object, age),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            let duration = spec["expirationSeconds"].as_i64().map_or(NONE.to_string(), super::human);
            let signer = or(text(&spec["signerName"]), NONE);
            json!([name, age, signer, text(&spec["username"]), duration, request_condition(status)])
        }
        ("coordination.k8s.io", "leases") => json!([name, text(&spec["holderIdentity"]), age]),
        ("discovery.k8s.io", "endpointslices") => {
            let ports = object["ports"].as_array().into_iter().flatten().map(|port| match &port["port"] {
                Value::Number(number) => number.to_string(),
                _ => or(text(&port["name"]), "*").to_string(),
            });
            let addresses = object["endpoints"].as_array().into_iter().flatten();
            let addresses = addresses.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
            let addresses: Vec<String> = addresses.map(|a| text(a).to_string()).collect();
            let kind = text(&object["addressType"]);
            json!([
                name,
                kind,
                first_three(&ports.collect::<Vec<_>>(), "<unset>"),
                first_three(&addresses, "<unset>"),
                age
            ])
        }
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let dangling = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
            let dangling = dangling.map_or("?", |condition| text(&condition["status"]));
            let level = text(&spec["priorityLevelConfiguration"]["name"]);
            let method = or(text(&spec["distinguisherMethod"]["type"]), NONE);
            json!([name, level, number(&spec["matchingPrecedence"]), method, age, dangling])
        }
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            let limited = &spec["limited"];
            let queuing = &limited["limitResponse"]["queuing"];
            let shown = |value: &Value| if value.is_null() { json!(NONE) } else { value.clone() };
            let [shares, queues, hand, length] = [
                &limited["nominalConcurrencyShares"],
                &queuing["queues"],
                &queuing["handSize"],
                &queuing["queueLengthLimit"],
            ]
            .map(shown);
            json!([name, text(&spec["type"]), shares, queues, hand, length, age])
        }
        ("policy", "poddisruptionbudgets") => {
            let limit = |value: &Value| match value {
                Value::Null => "N/A".to_string(),
                other => crate::error::go_plain(other),
            };
            let allowed = number(&status["disruptionsAllowed"]);
            json!([name, limit(&spec["minAvailable"]), limit(&spec["maxUnavailable"]), allowed, age])
        }
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => {
            let role = format!("{}/{}", text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
            let of = |kind: &str| subjects(&object["subjects"], kind);
            json!([name, role, age, of("User"), of("Group"), of("ServiceAccount")])
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            let default = object["globalDefault"] == true;
            json!([name, number(&object["value"]), default, age, text(&object["preemptionPolicy"])])
        }
        _ => json!([name, object["metadata"]["creationTimestamp"]]),
    }
}

fn request_condition(status: &Value) -> String {
    let has = |kind: &str| status["conditions"].as_array().is_some_and(|l| l.iter().any(|c| c["type"] == kind));
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_string();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

fn subjects(list: &Value, kind: &str) -> String {
    let matching = list.as_array().into_iter().flatten().filter(|s| s["kind"] == kind);
    let shown = matching.map(|s| match kind {
        "ServiceAccount" => format!("{}/{}", text(&s["namespace"]), text(&s["name"])),
        _ => text(&s["name"]).to_string(),
    });
    shown.collect::<Vec<_>>().join(", ")
}
