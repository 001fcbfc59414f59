//! APIServices.

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::{FieldError, names};
use serde_json::{Value, json};

use crate::{
    Kind, Now, Strategy,
    conditions::available,
    defaults::set,
    kind::Check,
    table::Row,
    text,
    validate::{Findings, Place},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, status_only: true, ..Strategy::PLAIN },
    columns: "Name, Service, Available, Age",
    cells,
    default: |value, _| {
        if value["spec"]["service"].is_object() {
            set(&mut value["spec"]["service"], "port", 443);
        }
    },
    create: |value, now| value["status"] = first_status(value, now),
    validate: Check::Object(validate),
    ..Kind::plain(API_SERVICES)
};

pub const API_SERVICES: &str = "apiregistration.k8s.io/apiservices";

/// What a new APIService says about itself: what is served here is always available.
fn first_status(service: &Value, now: Now<'_>) -> Value {
    if service["spec"]["service"].is_object() {
        return json!({});
    }
    let message = "Local APIServices are always available";
    json!({"conditions": [available("True", "Local", message, now)]})
}

/// An APIService is named by what it stands for, and says in which order it is listed.
fn validate(object: &Place<'_>, errors: &mut Findings) {
    let value = object.value;
    let (name, spec) = (text(&value["metadata"]["name"]), &value["spec"]);
    let (group, version) = (text(&spec["group"]), text(&spec["version"]));
    let required = format!("{version}.{group}");
    if name != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", detail));
    }
    if !group.is_empty() {
        errors.extend(names::is_subdomain(group).into_iter().map(|why| FieldError::invalid("spec.group", group, why)));
    }
    let wrong = names::is_label_1035(version).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid("spec.version", version, why)));
    for (field, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let number = spec[field].as_i64().unwrap_or(0);
        if !(1..=most).contains(&number) {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(format!("spec.{field}"), number, detail));
        }
    }
    let bundle = text(&spec["caBundle"]);
    let skips = spec["insecureSkipTLSVerify"] == true;
    let service = &spec["service"];
    if service.is_null() {
        if !bundle.is_empty() {
            let size = STANDARD.decode(bundle).map_or(bundle.len(), |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid("spec.caBundle", format!("{size} bytes"), detail));
        }
        if skips {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
        }
        return;
    }
    for field in ["namespace", "name"] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", port, detail));
    }
    if skips && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
}

fn cells(row: &Row<'_>) -> Value {
    let service = match &row.spec["service"] {
        Value::Object(service) => {
            let part = |key: &str| service.get(key).map(text).unwrap_or_default();
            format!("{}/{}", part("namespace"), part("name"))
        }
        _ => "Local".to_string(),
    };
    json!([row.name, service, availability(row.status), row.age])
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
