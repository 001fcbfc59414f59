//! Who owns which field: the bridge between requests and the rules of managed fields in `schema`.

use serde_json::Value;

use schema::managed::{self, ApplyError, Writer};

use crate::{
    registry::Resource,
    status::{Answer, Failure},
    verbs::{Request, now, patch},
};

/// Records ownership after any write but an apply.
pub(crate) fn update(request: &Request<'_>, manager: &str, live: Option<&Value>, object: &mut Value) {
    let (version, time) = (request.resource.api_version(), now());
    let writer = Writer { manager, api_version: &version, subresource: request.subresource, time: &time };
    managed::update(&request.resource.schema, live, object, &writer, reset(request));
}

/// Records ownership after the control plane itself wrote a status.
pub(crate) fn report(resource: &Resource, manager: &str, live: &Value, object: &mut Value) {
    let (version, time) = (resource.api_version(), now());
    let writer = Writer { manager, api_version: &version, subresource: "status", time: &time };
    managed::update(&resource.schema, Some(live), object, &writer, &["spec"]);
}

/// Merges an applied configuration into the live object.
pub(crate) fn apply(
    request: &Request<'_>,
    manager: &str,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Answer<Value> {
    let (version, time) = (request.resource.api_version(), now());
    let writer = Writer { manager, api_version: &version, subresource: request.subresource, time: &time };
    let object = managed::apply(&request.resource.schema, live, applied, &writer, force, reset(request))
        .map(|applied| applied.object)
        .map_err(|error| failure(request, applied, &error))?;
    let resource = request.resource;
    match resource.schema.decode_error(&object).filter(|_| resource.custom.is_none()) {
        None => Ok(object),
        Some(error) => {
            let place = format!("{}/{}", applied["metadata"]["namespace"].as_str().unwrap_or_default(), request.name);
            let full = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
            let error = patch::from_json(error);
            Err(Failure::untyped(format!(
                "failed to convert new object ({place}; {full}) to proper version: unable to convert unstructured object to {full}: {error}"
            )))
        }
    }
}

/// The fields this endpoint does not write, so that nobody comes to own them through it.
fn reset(request: &Request<'_>) -> &'static [&'static str] {
    let resource = request.resource;
    match request.subresource {
        "status" => resource.rules.strategy.reset_by_status,
        "" if resource.has_status() => resource.rules.strategy.reset,
        _ => &[],
    }
}

fn failure(request: &Request<'_>, applied: &Value, error: &ApplyError) -> Box<Failure> {
    match error {
        ApplyError::Conflict(conflicts) => {
            let mut status = managed::conflict_status(conflicts);
            let mut failure = Failure::new(409, "Conflict", status["message"].as_str().unwrap_or_default());
            failure.details = Some(status["details"].take());
            failure
        }
        ApplyError::Untyped(text) => {
            let resource = request.resource;
            let place = format!("{}/{}", applied["metadata"]["namespace"].as_str().unwrap_or_default(), request.name);
            let kind = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
            Failure::untyped(format!("failed to create typed patch object ({place}; {kind}): {text}"))
        }
        ApplyError::BadRequest(text) => Failure::bad_request(text.clone()),
    }
}
