//! Objects in other shapes: tables and bare metadata.

use serde_json::{Value, json};

use super::{Request, convert};
use crate::{http::Accept, registry::Resource, server::Api, table};

pub(crate) fn metadata(mut value: Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": value["metadata"].take(),
    })
}

pub(crate) fn table(request: &Request<'_>, objects: &[Value], metadata: &Value) -> Value {
    let include = request.call.query.get("includeObject");
    table_of(request.api, request.resource, &request.call.accept, objects, metadata, include)
}

pub(crate) fn table_of(
    _api: &Api,
    resource: &Resource,
    accept: &Accept,
    objects: &[Value],
    list: &Value,
    include: Option<&str>,
) -> Value {
    let mut sorted;
    let objects = match &*resource.collection {
        builtin::flow::SCHEMAS => {
            // In the order in which they are asked.
            sorted = objects.to_vec();
            let name = |schema: &Value| schema["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            sorted.sort_by_key(|schema| (schema["spec"]["matchingPrecedence"].as_i64(), name(schema)));
            &sorted
        }
        _ => objects,
    };
    let is_scale = objects.first().is_some_and(|object| object["kind"] == "Scale");
    let (columns, cells) = if is_scale { table::scale(objects) } else { table::table(resource, objects) };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let embedded = match include {
                Some("None") => Value::Null,
                Some("Object") => object.clone(),
                _ => metadata(printed(resource, object), &accept.shape_version),
            };
            let mut row = json!({"cells": cells});
            if !embedded.is_null() {
                row["object"] = embedded;
            }
            row
        })
        .collect();
    let mut own = json!({});
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if !list[field].is_null() {
            own[field] = list[field].clone();
        }
    }
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", accept.shape_version),
        "metadata": own, "columnDefinitions": columns, "rows": rows,
    })
}

/// Rows are printed from the stored form, which has no annotations that stand for fields.
fn printed(resource: &Resource, object: &Value) -> Value {
    let mut object = convert::as_stored(resource, object.clone());
    if resource.is("apps/daemonsets")
        && let Some(metadata) = object["metadata"].as_object_mut()
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(builtin::TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object
}
