//! The place of an object as the request says it.

use serde_json::{Map, Value};

use crate::status::{Answer, Failure};

/// Puts the namespace of the request into the metadata; a different one there is a mistake of the client.
pub(crate) fn place(metadata: &mut Map<String, Value>, namespace: &str) -> Answer<()> {
    let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else if own.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    } else if own != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

pub(crate) fn wrong_name(own: &str, requested: &str) -> Box<Failure> {
    Failure::bad_request(format!("the name of the object ({own}) does not match the name on the URL ({requested})"))
}
