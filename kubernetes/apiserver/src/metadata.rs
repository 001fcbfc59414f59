//! The place of an object as the request says it.

use serde_json::{Map, Value};

use crate::{
    status::{Answer, Failure},
    verbs::Request,
};

/// Puts the namespace of the request into the metadata; a different one there is a mistake of the client. What is null there
/// is nothing, such as labels of which an apply took the last.
pub(crate) fn place(metadata: &mut Map<String, Value>, namespace: &str) -> Answer<()> {
    metadata.retain(|_, own| !own.is_null());
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

/// New finalizers of custom objects should say whose they are.
pub(crate) fn warn(request: &Request<'_>, old: Option<&Value>, new: &Value) {
    if request.resource.custom.is_none() || request.subresource == "status" {
        return;
    }
    let finalizers = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let known = old.map(finalizers).unwrap_or_default();
    for finalizer in finalizers(new).iter().filter(|finalizer| !known.contains(finalizer)) {
        if finalizer.as_str().is_some_and(|finalizer| !finalizer.contains('/')) {
            request.call.warn(format!("metadata.finalizers: {finalizer}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"));
        }
    }
}

pub(crate) fn wrong_name(own: &str, requested: &str) -> Box<Failure> {
    Failure::bad_request(format!("the name of the object ({own}) does not match the name on the URL ({requested})"))
}
