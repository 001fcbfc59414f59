//! Between the version a request speaks and the version objects are stored in.
//!
//! Versions of a custom resource differ in `apiVersion` only (conversion strategy `None`); the two event APIs are two
//! views of one object.

use std::borrow::Cow;

use serde_json::Value;

use crate::registry::Resource;

/// Names of one field in `events.k8s.io/v1` and in core `v1`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn is_event_view(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

/// Whether the stored bytes are what this resource serves.
pub(crate) fn is_stored_form(resource: &Resource) -> bool {
    match resource.stored_as.split_once('/') {
        Some((group, version)) => group == resource.group && version == resource.version,
        None => resource.group.is_empty() && resource.stored_as == resource.version,
    }
}

pub(crate) fn from_stored(resource: &Resource, mut value: Value) -> Value {
    if is_stored_form(resource) {
        return value;
    }
    value["apiVersion"] = resource.api_version().into();
    if is_event_view(resource) {
        EVENT_FIELDS.iter().for_each(|(view, stored)| rename(&mut value, stored, view));
    } else {
        resource.schema.prune(&mut value);
        resource.schema.default(&mut value);
    }
    value
}

pub(crate) fn to_stored(resource: &Resource, mut value: Value) -> Value {
    if is_stored_form(resource) {
        return value;
    }
    value["apiVersion"] = resource.stored_as.as_str().into();
    if is_event_view(resource) {
        EVENT_FIELDS.iter().for_each(|(view, stored)| rename(&mut value, view, stored));
    }
    value
}

/// The name in storage of a field that a selector names.
pub(crate) fn stored_field<'a>(resource: &Resource, field: &'a str) -> &'a str {
    if !is_event_view(resource) {
        return field;
    }
    match field {
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "reportingController" => "reportingComponent",
        field => field,
    }
}

fn rename(value: &mut Value, from: &str, to: &str) {
    let Some(object) = value.as_object_mut() else { return };
    if let Some(field) = object.remove(from) {
        let key: Cow<'_, str> = to.into();
        object.insert(key.into_owned(), field);
    }
}
