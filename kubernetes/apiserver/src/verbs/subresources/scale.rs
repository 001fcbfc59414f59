//! `scale`: the replicas of any object that has them, in one shape.

use http::Response;
use schema::FieldError;
use serde_json::{Value, json};

use super::{Body, Request, update};
use crate::{
    object::text,
    ownership,
    registry::Scale,
    status::{Answer, Failure},
    verbs::{convert, decode},
};

pub(super) async fn handle(request: &Request<'_>, verb: &str) -> Answer<Response<Body>> {
    let Request { api, resource, .. } = *request;
    if verb == "get" {
        let stored =
            api.store.get(&resource.collection, &request.key(request.name).name).ok_or_else(|| request.not_found())?;
        let object = convert::from_stored(api, resource, stored.value()).await?;
        return request.object(200, view(request, &object));
    }
    let options = request.options(if verb == "update" { "UpdateOptions" } else { "PatchOptions" })?;
    let manager = request.manager(&options);
    let document = document(request, verb, &options)?;
    let replaced = update::replace(request, &options, |_, old| {
        let before = view(request, old);
        let wanted = match &document {
            Document::Scale(scale) => scale.clone(),
            Document::Merge(patch) => schema::patch::merge(&before, patch),
            Document::Json(patch) => {
                schema::patch::json(&before, patch).map_err(|error| crate::verbs::patch::patch_failure(&error))?
            }
        };
        let mut new = changed(request, old.clone(), &wanted)?;
        if let Some(version) = wanted["metadata"]["resourceVersion"].as_str() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        ownership::update(request, &manager, Some(old), &mut new);
        Ok(new)
    })
    .await?;
    request.object(200, view(request, &replaced))
}

enum Document {
    Scale(Value),
    Merge(Value),
    Json(Vec<u8>),
}

fn document(request: &Request<'_>, verb: &str, options: &crate::verbs::Options) -> Answer<Document> {
    if verb == "update" {
        return request.decode(options.validation).map(Document::Scale);
    }
    let media = request.call.header("content-type").split(';').next().unwrap_or_default().trim();
    let parsed = || match decode::parse_json(&request.call.body).or_else(|_| decode::parse_yaml(&request.call.body)) {
        Ok(document) if document.value.is_object() => Ok(document.value),
        _ => Err(Failure::bad_request("error decoding patch")),
    };
    match media {
        "application/json-patch+json" => Ok(Document::Json(request.call.body.to_vec())),
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => parsed().map(Document::Merge),
        "application/apply-patch+yaml" => parsed().map(Document::Merge),
        _ => Err(Failure::unsupported_media(&["application/json-patch+json", "application/merge-patch+json"])),
    }
}

/// The object with the replicas that a Scale wants.
pub(crate) fn changed(request: &Request<'_>, object: Value, wanted: &Value) -> Answer<Value> {
    let name = text(&wanted["metadata"]["name"]);
    if !name.is_empty() && name != request.name {
        return Err(crate::metadata::wrong_name(name, request.name));
    }
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Failure::invalid("autoscaling", "Scale", request.name, &[error]));
    }
    let mut object = object;
    set(&mut object, &paths(request).spec, replicas);
    Ok(object)
}

fn paths(request: &Request<'_>) -> Scale {
    match request.resource.custom.as_ref().and_then(|custom| custom.scale.clone()) {
        Some(scale) => scale,
        None => Scale { spec: ".spec.replicas".into(), status: ".status.replicas".into(), selector: String::new() },
    }
}

/// The Scale of an object.
pub(crate) fn view(request: &Request<'_>, object: &Value) -> Value {
    let paths = paths(request);
    let metadata = &object["metadata"];
    let mut own = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !metadata[field].is_null() {
            own[field] = metadata[field].clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = at(object, &paths.spec).as_i64() {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({"replicas": at(object, &paths.status).as_i64().unwrap_or(0)});
    let selector = if paths.selector.is_empty() {
        printed(&object["spec"]["selector"])
    } else {
        text(at(object, &paths.selector)).to_owned()
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": own, "spec": spec, "status": status})
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|step| !step.is_empty()).fold(object, |value, step| &value[step])
}

fn set(object: &mut Value, path: &str, replicas: i64) {
    let mut value = object;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        if !value.is_object() {
            *value = json!({});
        }
        value = &mut value[step];
    }
    *value = replicas.into();
}

/// A selector object as text, the way clients select pods with it.
fn printed(selector: &Value) -> String {
    let mut parts: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values: Vec<&str> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        parts.push(match text(&expression["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
