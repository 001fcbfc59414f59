//! Shared by the judges of the Machine API: parses the vectors' objects.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Parses an object whose type the vectors omit. Nulls are missing fields; nothing else is changed.
pub(super) fn object<K: DeserializeOwned>(value: &Value) -> Result<K, String> {
    let mut value = without_null(value);
    let members = value.as_object_mut().ok_or("an object is missing")?;
    for (key, default) in [("apiVersion", json!("machine.openshift.io/v1beta1")), ("kind", json!("Unnamed"))] {
        members.entry(key).or_insert(default);
    }
    members.entry("metadata").or_insert_with(|| json!({}));
    serde_json::from_value(value).map_err(|error| error.to_string())
}

pub(super) fn objects<K: DeserializeOwned>(value: &Value) -> Result<Vec<K>, String> {
    value.as_array().into_iter().flatten().map(object).collect()
}

/// Parses a built-in object, which may lack its type.
pub(super) fn plain<K: DeserializeOwned>(value: &Value) -> Result<K, String> {
    serde_json::from_value(without_null(value)).map_err(|error| error.to_string())
}

pub(super) fn plains<K: DeserializeOwned>(value: &Value) -> Result<Vec<K>, String> {
    value.as_array().into_iter().flatten().map(plain).collect()
}

pub(super) fn time(value: &Value) -> Result<Timestamp, String> {
    value.as_str().unwrap_or_default().parse().map_err(|error: jiff::Error| error.to_string())
}

/// Returns a status without the times that the vectors omit.
pub(super) fn untimed(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(members) = condition.as_object_mut() {
            members.remove("lastTransitionTime");
        }
    }
    status
}

fn without_null(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_null(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_null).collect(),
        other => other.clone(),
    }
}
