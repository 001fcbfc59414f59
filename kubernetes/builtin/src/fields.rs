//! Which fields of built-in kinds can be selected on, and their values.
//!
//! `metadata.name` and `metadata.namespace` are selectable everywhere and are not stored again here; the selectable
//! fields of custom resources are read from the object when a selector asks for them.

use serde_json::Value;

/// The selectable fields of a collection beyond name and namespace, in the order `extract` returns their values.
pub(crate) fn selectable(collection: &str) -> &'static [&'static str] {
    match collection {
        "/pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "/nodes" => &["spec.unschedulable"],
        "/events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "/secrets" => &["type"],
        "/namespaces" => &["status.phase", "name"],
        "/services" => &["spec.clusterIP", "spec.type"],
        "/replicationcontrollers" | "apps/replicasets" => &["status.replicas"],
        "batch/jobs" => &["status.successful"],
        "certificates.k8s.io/certificatesigningrequests" => &["spec.signerName"],
        _ => &[],
    }
}

pub(crate) fn extract(collection: &str, object: &Value) -> Box<[Box<str>]> {
    selectable(collection).iter().map(|path| read(collection, object, path).into()).collect()
}

fn read(collection: &str, object: &Value, path: &str) -> String {
    match (collection, path) {
        ("/events", "source") => {
            let component = &object["source"]["component"];
            if component.as_str().is_none_or(str::is_empty) { &object["reportingComponent"] } else { component }
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }
        ("/namespaces", "name") => at(object, "metadata.name"),
        ("/nodes", _) | ("/pods", "spec.hostNetwork") => match at(object, path) {
            value if value.is_empty() => "false".to_owned(),
            value => value,
        },
        ("/pods", "status.podIPs") => {
            let addresses = object["status"]["podIPs"].as_array().map(Vec::as_slice).unwrap_or_default();
            addresses.iter().filter_map(|address| address["ip"].as_str()).collect::<Vec<_>>().join(",")
        }
        ("/replicationcontrollers" | "apps/replicasets" | "batch/jobs", _) => match at(object, path) {
            value if value.is_empty() => "0".to_owned(),
            value => value,
        },
        _ => at(object, path),
    }
}

/// The value at a dotted path as a selector compares it: strings as they are, numbers and booleans printed.
pub(crate) fn at(object: &Value, path: &str) -> String {
    let mut value = object;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        value = &value[step];
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
