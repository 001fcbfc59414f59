//! Who owns which field: the bridge between requests and the rules of managed fields in `schema`.

use serde_json::Value;

use crate::{
    status::{Answer, Failure},
    verbs::{Request, now},
};

/// Records ownership after any write but an apply.
pub fn update(request: &Request<'_>, manager: &str, live: Option<&Value>, object: &mut Value) {
    let time = now();
    schema::apply::update(&write(request, manager, &request.resource.api_version(), &time), live, object);
}

/// Merges an applied configuration into the live object.
pub fn apply(
    request: &Request<'_>,
    manager: &str,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Answer<Value> {
    let time = now();
    let version = request.resource.api_version();
    let write = write(request, manager, &version, &time);
    schema::apply::apply(&write, live, applied, force).map_err(|error| failure(request, &error))
}

fn write<'a>(
    request: &'a Request<'_>,
    manager: &'a str,
    api_version: &'a str,
    now: &'a str,
) -> schema::apply::Write<'a> {
    let resource = request.resource;
    let reset: &[&[&str]] = match request.subresource {
        "status" if resource.custom.is_some() => &[&["spec"], &["metadata"]],
        "status" => &[&["spec"]],
        "" if resource.has_status() => &[&["status"]],
        _ => &[],
    };
    schema::apply::Write {
        schema: &resource.schema,
        api_version,
        manager,
        subresource: request.subresource,
        now,
        reset,
    }
}

fn failure(request: &Request<'_>, error: &schema::apply::Error) -> Box<Failure> {
    let _ = request;
    match error {
        schema::apply::Error::Conflicts(conflicts) => {
            let causes: Vec<Value> = conflicts
                .iter()
                .map(|conflict| {
                    serde_json::json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", conflict.manager),
                        "field": conflict.field,
                    })
                })
                .collect();
            let mut failure = Failure::new(409, "Conflict", error.to_string());
            failure.details = Some(serde_json::json!({"causes": causes}));
            failure
        }
        schema::apply::Error::Invalid(text) => Failure::untyped(text.clone()),
    }
}

/// Equality of managed fields without the times, which alone are no reason to write.
pub fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    let entries = |value: Option<&Value>| -> Vec<Value> {
        let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .map(|entry| {
                let mut entry = entry.clone();
                if let Some(entry) = entry.as_object_mut() {
                    entry.remove("time");
                }
                entry
            })
            .collect()
    };
    old == new || entries(old) == entries(new)
}
