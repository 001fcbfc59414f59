//! The cells of what a cluster stands on: networking, runtimes, devices and storage.

use serde_json::{Value, json};

use super::print::{NONE, or, selector, size, text};

pub(super) fn cells(group: &str, plural: &str, object: &Value, age: &str) -> Option<Value> {
    let name = &object["metadata"]["name"];
    let (spec, status) = (&object["spec"], &object["status"]);
    let cells = match (group, plural) {
        ("networking.k8s.io", "networkpolicies") => json!([name, selector(&spec["podSelector"]), age]),
        ("networking.k8s.io", "ingresses") => ingress(object, age),
        ("networking.k8s.io", "ingressclasses") => {
            let parameters = &spec["parameters"];
            let shown = match (text(&parameters["kind"]), text(&parameters["apiGroup"]), text(&parameters["name"])) {
                _ if parameters.is_null() => NONE.to_string(),
                (kind, "", name) => format!("{kind}/{name}"),
                (kind, group, name) => format!("{kind}.{group}/{name}"),
            };
            json!([
                marked(object, "ingressclass.kubernetes.io/is-default-class"),
                text(&spec["controller"]),
                shown,
                age
            ])
        }
        ("networking.k8s.io", "ipaddresses") => json!([name, parent(&spec["parentRef"]), age]),
        ("networking.k8s.io", "servicecidrs") => {
            let ranges: Vec<&str> = spec["cidrs"].as_array().into_iter().flatten().map(text).collect();
            json!([name, ranges.join(","), age])
        }
        ("node.k8s.io", "runtimeclasses") => json!([name, text(&object["handler"]), age]),
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => json!([name, age]),
        ("resource.k8s.io", "resourceclaims") => json!([name, claim(object), age]),
        ("resource.k8s.io", "resourceslices") => {
            json!([name, text(&spec["nodeName"]), text(&spec["driver"]), text(&spec["pool"]["name"]), age])
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
            json!([
                marked(object, "storageclass.kubernetes.io/is-default-class"),
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
        ("storage.k8s.io", "volumeattributesclasses") => json!([name, text(&object["driverName"]), age]),
        _ => return None,
    };
    Some(cells)
}

/// The name of an object, and whether an annotation makes it the default of its kind.
fn marked(object: &Value, annotation: &str) -> String {
    let default = object["metadata"]["annotations"][annotation] == "true";
    format!("{}{}", text(&object["metadata"]["name"]), if default { " (default)" } else { "" })
}

/// What an address belongs to.
fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return NONE.to_string();
    }
    let part = |field: &str| text(&reference[field]);
    let resource = match part("group") {
        "" => part("resource").to_lowercase(),
        group => format!("{}.{group}", part("resource")).to_lowercase(),
    };
    let owner = [part("namespace"), part("name")].into_iter().filter(|part| !part.is_empty());
    owner.fold(resource, |all, part| format!("{all}/{part}"))
}

/// How far a claim for devices is.
fn claim(object: &Value) -> String {
    let (deleted, status) = (!object["metadata"]["deletionTimestamp"].is_null(), &object["status"]);
    let allocated = !status["allocation"].is_null();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && size(&status["reservedFor"]) > 0, "reserved"),
    ];
    let shown: Vec<&str> = states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect();
    shown.join(",")
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
