//! Patch: JSON patch, merge patch, strategic merge patch and server-side apply, all ending in the path of updates.

use http::Response;
use schema::{FieldError, patch::PatchError};
use serde_json::Value;

use super::{FieldValidation, Options, Request, create, decode, update};
use crate::{
    http::Body,
    metadata,
    object::text,
    ownership,
    status::{Answer, Failure},
};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const APPLY_JSON: &str = "application/apply-patch+json";

pub(crate) async fn patch(request: &Request<'_>) -> Answer<Response<Body>> {
    let content_type = request.call.header("content-type");
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let custom = request.resource.custom.is_some();
    match media {
        JSON | MERGE => {}
        STRATEGIC if !custom => {}
        APPLY | APPLY_JSON => return apply(request).await,
        _ => {
            if custom {
                return Err(Failure::unsupported_media(&[JSON, MERGE, APPLY]));
            }
            return Err(Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type"));
        }
    }
    let options = request.options("PatchOptions")?;
    if options.force.is_some() {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    if request.api.store.get(&request.resource.collection, &request.key(request.name).name).is_none() {
        return Err(request.not_found());
    }
    let patch = parse(request, media, options.validation)?;
    let manager = request.manager(&options);
    let replaced = update::replace(request, &options, |_, old| {
        let mut new = match media {
            JSON => schema::patch::json(old, &request.call.body).map_err(|error| patch_failure(&error))?,
            MERGE => schema::patch::merge(old, &patch.value),
            _ => schema::patch::strategic(&request.resource.schema, old, &patch.value)
                .map_err(|error| patch_failure(&error))?,
        };
        settle(request, old, &mut new, &patch, options.validation, media)?;
        ownership::update(request, &manager, Some(old), &mut new);
        Ok(new)
    })
    .await?;
    request.object(200, replaced)
}

fn parse(request: &Request<'_>, media: &str, validation: FieldValidation) -> Answer<decode::Document> {
    let document = match decode::parse_json(&request.call.body) {
        Ok(document) => document,
        Err(decode::Problem::Syntax(error) | decode::Problem::Yaml(error) | decode::Problem::Object(error)) => {
            return Err(Failure::bad_request(format!("error decoding patch: {error}")));
        }
        Err(decode::Problem::Media) => return Err(Failure::method_not_allowed()),
    };
    let Some(found) = decode::other_than_object(&document.value).filter(|_| media != JSON) else {
        return Ok(document);
    };
    if document.value.is_array() && media == MERGE && validation == FieldValidation::Ignore {
        // Merging a list into an object makes a list, which is then no object.
        let error = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        let error = FieldError::invalid("patch", document.value.to_string(), error);
        let mut failure = Failure::invalid("", "", "", &[error]);
        failure.message = failure.message.trim_start().to_owned();
        return Err(failure);
    }
    if document.value.is_array() && media == STRATEGIC {
        let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        return Err(Failure::bad_request(message));
    }
    Err(Failure::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )))
}

pub(crate) fn patch_failure(error: &PatchError) -> Box<Failure> {
    match error {
        PatchError::BadRequest(text) => Failure::bad_request(text.clone()),
        PatchError::Internal(text) => Failure::untyped(text.clone()),
        PatchError::TooLarge(text) => Failure::new(413, "RequestEntityTooLarge", text.clone()),
        PatchError::Unprocessable(_) => {
            // The real server says no more than this, whatever did not fit.
            let message = "the server rejected our request due to an error in our request";
            let mut failure = Failure::new(422, "Invalid", message);
            failure.details = Some(serde_json::json!({}));
            failure
        }
    }
}

/// A patched object is decoded like one that was sent: kind, unknown fields, defaults, name.
fn settle(
    request: &Request<'_>,
    old: &Value,
    new: &mut Value,
    patch: &decode::Document,
    validation: FieldValidation,
    media: &str,
) -> Answer<()> {
    if !new.is_object() {
        return Err(Failure::bad_request("the patched object is not an object"));
    }
    for field in ["apiVersion", "kind"] {
        if new[field] != old[field] {
            let resource = request.resource;
            if field == "kind" && resource.custom.is_none() {
                builtin::move_field(old, new, field);
                continue;
            }
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: the {field} of the patched object ({}) differs from {}",
                resource.kind, resource.version, resource.kind, new[field], old[field]
            );
            return Err(Failure::bad_request(message));
        }
    }
    let shown = |object: &Value| {
        let schema = &request.resource.schema;
        match media {
            STRATEGIC => go_map(&schema::patch::left(&patch.value, old)),
            JSON => schema::patch::shown(schema, object, &schema::patch::touched(&patch.value)),
            _ => schema::patch::shown(schema, object, &patch.value),
        }
    };
    // Strict decoding shows the object before unknown fields are dropped; nobody else pays for the text.
    let before = (validation == FieldValidation::Strict).then(|| shown(new));
    request.fit(new, &patch.duplicates, validation).map_err(|error| {
        let text = before.unwrap_or_else(|| shown(new));
        let error = if media == STRATEGIC { from_json(error) } else { error };
        let error = FieldError::invalid("patch", text, error);
        let mut failure = Failure::invalid("", "", "", &[error]);
        failure.message = failure.message.trim_start().to_owned();
        failure
    })?;
    request.default(new);
    let name = text(&new["metadata"]["name"]);
    if name != request.name {
        if name.is_empty() {
            new["metadata"]["name"] = request.name.into();
        } else {
            return Err(metadata::wrong_name(name, request.name));
        }
    }
    Ok(())
}

/// Bytes that cannot be read are told of with the way they came, where that way leads through a map.
pub(crate) fn from_json(error: String) -> String {
    if error.starts_with("illegal base64") { format!("error decoding from json: {error}") } else { error }
}

/// A value as Go prints maps: `map[a:1 b:[x y]]`.
fn go_map(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_map(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_map).collect::<Vec<_>>().join(" "))
        }
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

async fn apply(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("PatchOptions")?;
    if options.manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let exists = request.api.store.get(&request.resource.collection, &request.key(request.name).name).is_some();
    let may_create = request.subresource.is_empty() && request.resource.allows("create");
    if !exists && !may_create {
        return Err(request.not_found());
    }
    let applied = applied_document(request, &options)?;
    let force = options.force.unwrap_or(false);
    if !exists {
        if !text(&applied["metadata"]["uid"]).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                text(&applied["metadata"]["uid"])
            );
            return Err(Failure::conflict(request.resource, request.name, &why));
        }
        let mut value = ownership::apply(request, &options.manager, None, &applied, force)?;
        request.resource.schema.default_applied(&mut value);
        request.resource.rules.default(&mut value, &super::now);
        match create::insert(request, value, request.name, &options).await {
            // Someone else created it in between: apply to theirs.
            Err(failure) if failure.reason == "AlreadyExists" => {}
            Ok(stored) => return request.object(201, stored),
            Err(failure) => return Err(failure),
        }
    }
    let replaced = update::replace(request, &options, |_, old| {
        let mut new = ownership::apply(request, &options.manager, Some(old), &applied, force)?;
        request.resource.schema.default_applied(&mut new);
        request.resource.rules.default(&mut new, &super::now);
        Ok(new)
    })
    .await?;
    request.object(200, replaced)
}

/// The body of an apply: YAML or JSON, naming its kind, version and object, without managed fields.
fn applied_document(request: &Request<'_>, options: &Options) -> Answer<Value> {
    let body = &request.call.body;
    let parsed = match decode::parse_json(body) {
        Ok(document) => Ok(document),
        Err(_) => decode::parse_yaml(body),
    };
    let mut document = parsed.map_err(|problem| match problem {
        decode::Problem::Syntax(error) | decode::Problem::Yaml(error) | decode::Problem::Object(error) => {
            Failure::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
        }
        decode::Problem::Media => Failure::bad_request("error decoding YAML"),
    })?;
    let resource = request.resource;
    if let Some(found) = decode::other_than_object(&document.value) {
        return Err(Failure::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    let metadata = &document.value["metadata"];
    if metadata["managedFields"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let (kind, version) = (text(&document.value["kind"]), text(&document.value["apiVersion"]));
    if kind.is_empty() {
        return Err(request.unrecognised(&format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body))));
    }
    if version.is_empty() {
        let shown = String::from_utf8_lossy(body);
        return Err(request.unrecognised(&format!("Object 'apiVersion' is missing in '{shown}'")));
    }
    if (kind != resource.kind || version != resource.api_version()) && request.subresource != "scale" {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        return Err(Failure::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    let name = text(&metadata["name"]);
    if !name.is_empty() && name != request.name {
        return Err(metadata::wrong_name(name, request.name));
    }
    let namespace = text(&metadata["namespace"]);
    if !namespace.is_empty() && namespace != request.namespace && resource.namespaced {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !document.value["metadata"].is_object() {
        document.value["metadata"] = serde_json::Map::new().into();
    }
    document.value["metadata"]["name"] = request.name.into();
    // Unknown fields are for the merge to refuse; only what a parser would drop silently is named here.
    let duplicates = schema::strict::problems(&[], &document.duplicates);
    match options.validation {
        _ if duplicates.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn => duplicates.into_iter().for_each(|complaint| request.call.warn(complaint)),
        FieldValidation::Strict => {
            let list = duplicates.join(", ");
            return Err(Failure::bad_request(format!("error strict decoding YAML: {list}")));
        }
    }
    Ok(document.value)
}
