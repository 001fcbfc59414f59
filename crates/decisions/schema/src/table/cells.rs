//! The cells of built-in resources; the core group and workloads have files of their own.

use serde_json::{Value, json};

use super::{
    core,
    print::{NONE, age_of, first_three, number, or, selector, size, text},
    workloads,
};

/// The cells of an object, one per column; `now` is RFC 3339.
#[must_use]
pub fn cells(group: &str, plural: &str, object: &Value, now: &str) -> Vec<Value> {
    let age = age_of(&object["metadata"]["creationTimestamp"], now);
    let list = core::cells(group, plural, object, &age, now)
        .or_else(|| workloads::cells(group, plural, object, &age, now))
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
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            let kind = &spec["paramKind"];
            let shown = match kind.is_object() {
                true => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
                false => "<unset>".to_string(),
            };
            json!([name, size(&spec["validations"]), shown, age])
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
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
        ("networking.k8s.io", "networkpolicies") => json!([name, selector(&spec["podSelector"]), age]),
        ("networking.k8s.io", "ingresses") => ingress(object, age),
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
        ("storage.k8s.io", "csinodes") => json!([name, size(&spec["drivers"]), age]),
        ("storage.k8s.io", "csidrivers") => {
            let flag = |key: &str, default: bool| spec[key].as_bool().unwrap_or(default);
            let audiences = spec["tokenRequests"].as_array().into_iter().flatten().map(|t| text(&t["audience"]));
            let audiences = audiences.collect::<Vec<_>>().join(",");
            let modes: Vec<&str> = match spec["volumeLifecycleModes"].as_array() {
                Some(modes) => modes.iter().map(text).collect(),
                None => vec!["<unset>"],
            };
            json!([
                name,
                flag("attachRequired", true),
                flag("podInfoOnMount", false),
                flag("storageCapacity", false),
                or(&audiences, "<unset>"),
                flag("requiresRepublish", false),
                modes.join(","),
                age
            ])
        }
        ("storage.k8s.io", "storageclasses") => {
            let default = object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
            let shown = format!("{}{}", text(name), if default { " (default)" } else { "" });
            json!([
                shown,
                text(&object["provisioner"]),
                or(text(&object["reclaimPolicy"]), "Delete"),
                or(text(&object["volumeBindingMode"]), "Immediate"),
                object["allowVolumeExpansion"] == true,
                age
            ])
        }
        ("storage.k8s.io", "volumeattachments") => {
            let volume = text(&spec["source"]["persistentVolumeName"]);
            json!([name, text(&spec["attacher"]), volume, text(&spec["nodeName"]), status["attached"] == true, age])
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

fn ingress(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let hosts: Vec<&str> =
        spec["rules"].as_array().into_iter().flatten().map(|r| text(&r["host"])).filter(|h| !h.is_empty()).collect();
    let addresses = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.map(|i| or(text(&i["ip"]), text(&i["hostname"]))).collect();
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    let class = or(text(&spec["ingressClassName"]), NONE);
    json!([object["metadata"]["name"], class, or(&hosts.join(","), "*"), addresses.join(","), ports, age])
}
