//! Defaults of built-in kinds that no schema carries: what several kinds share, and the ways to fill in a field.

pub(crate) mod pods;
pub(crate) mod storage;

use serde_json::{Map, Value};

/// Who has no labels of its own is found by those of its pods.
pub(crate) fn labels_from_template(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    let bare = value["metadata"]["labels"].as_object().is_none_or(Map::is_empty);
    if bare && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        value["metadata"]["labels"] = labels;
    }
    for (parent, field) in [("metadata", "labels"), ("spec", "template")] {
        if let Some(parent) = value.get_mut(parent).and_then(Value::as_object_mut)
            && parent.get(field).is_some_and(Value::is_null)
        {
            parent.remove(field);
        }
    }
}

/// Sets a field that is absent; a parent that is no object becomes one if it is absent too.
pub(crate) fn set(parent: &mut Value, field: &str, value: impl Into<Value>) {
    if parent.is_null() {
        *parent = Map::new().into();
    }
    if let Some(object) = parent.as_object_mut()
        && object.get(field).is_none_or(Value::is_null)
    {
        object.insert(field.into(), value.into());
    }
}

/// As `set`, where zero means that nothing was said.
pub(crate) fn set_zero(parent: &mut Value, field: &str, value: impl Into<Value>) {
    if parent.get(field).is_some_and(|own| *own == 0) {
        parent[field] = Value::Null;
    }
    set(parent, field, value);
}

/// Sets a field that has no value of its own: absent, an empty text, or zero.
pub(crate) fn fill(parent: &mut Value, field: &str, value: impl Into<Value>) {
    let empty = match &parent[field] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    };
    if empty {
        parent[field] = value.into();
    }
}

pub(crate) fn strategy_type(spec: &mut Value, field: &str) {
    if spec[field].is_null() {
        spec[field] = Map::new().into();
    }
    fill(&mut spec[field], "type", "RollingUpdate");
}

/// Lists that are always written are null where they are empty.
pub(crate) fn empty_is_null(parent: &mut Value, field: &str) {
    if parent[field].as_array().is_none_or(Vec::is_empty) {
        parent[field] = Value::Null;
    }
}

pub(crate) fn list_or_none<'a>(parent: &'a mut Value, field: &str) -> &'a mut [Value] {
    match parent.get_mut(field) {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}
