//! Between the version a request speaks and the version objects are stored in.
//!
//! Versions of a custom resource differ in `apiVersion` only, unless its definition names a webhook that knows more. The
//! two event APIs are two views of one object, and so are the two versions of an autoscaler. Objects stay stored in the
//! version that was the storage version when they were last written.

mod review;

use serde_json::Value;

use crate::{
    object::{Object, text},
    registry::{Conversion, Resource},
    server::Api,
    status::Answer,
};

pub(crate) fn is_autoscaler(resource: &Resource) -> bool {
    resource.is("autoscaling/horizontalpodautoscalers")
}

/// Whether the stored bytes of this object are what the resource serves.
pub(crate) fn is_served_form(resource: &Resource, object: &Object) -> bool {
    match &resource.custom {
        None => is_stored_form(resource),
        // Another version may have left there what this one does not know.
        Some(custom) if custom.versions > 1 => false,
        Some(_) => {
            // Objects are serialised with their version first.
            let version = object.json.strip_prefix(br#"{"apiVersion":""#.as_slice());
            let rest = version.and_then(|version| version.strip_prefix(resource.group.as_bytes()));
            let rest = rest.and_then(|rest| rest.strip_prefix(b"/"));
            rest.and_then(|rest| rest.strip_prefix(resource.version.as_bytes()))
                .is_some_and(|rest| rest.starts_with(b"\""))
        }
    }
}

fn is_stored_form(resource: &Resource) -> bool {
    match resource.stored_as.split_once('/') {
        Some((group, version)) => group == resource.group && version == resource.version,
        None => resource.group.is_empty() && resource.stored_as == resource.version,
    }
}

/// Whether somebody else has to be asked to convert.
pub(crate) fn asks(resource: &Resource) -> bool {
    resource.custom.as_ref().is_some_and(|custom| matches!(custom.conversion, Conversion::Webhook(_)))
}

pub(crate) async fn from_stored(api: &Api, resource: &Resource, value: Value) -> Answer<Value> {
    if !asks(resource) {
        return Ok(plainly(resource, value));
    }
    let mut values = all_from_stored(api, resource, vec![value]).await?;
    Ok(values.pop().unwrap_or_default())
}

/// Many objects at once, which a webhook is asked about in one review.
pub(crate) async fn all_from_stored(api: &Api, resource: &Resource, values: Vec<Value>) -> Answer<Vec<Value>> {
    let Some(custom) = resource.custom.as_ref().filter(|_| asks(resource)) else {
        return Ok(values.into_iter().map(|value| plainly(resource, value)).collect());
    };
    let mut values = review::convert(api, &custom.conversion, &resource.api_version(), values).await?;
    values.iter_mut().for_each(|value| settle(resource, value));
    Ok(values)
}

/// As `from_stored` where nobody has to be asked.
pub(crate) fn plainly(resource: &Resource, mut value: Value) -> Value {
    match &resource.custom {
        None if is_stored_form(resource) => {}
        None => {
            value["apiVersion"] = resource.api_version().into();
            if let Some(view) = resource.rules.view {
                (view.show)(&mut value);
            }
        }
        Some(custom) => {
            if custom.versions > 1 || text(&value["apiVersion"]) != resource.api_version() {
                value["apiVersion"] = resource.api_version().into();
                settle(resource, &mut value);
            }
        }
    }
    value
}

/// What another version said is read as if it had been written in this one.
fn settle(resource: &Resource, value: &mut Value) {
    resource.schema.prune(value);
    resource.schema.default(value);
}

pub(crate) async fn to_stored(api: &Api, resource: &Resource, value: Value) -> Answer<Value> {
    match &resource.custom {
        Some(custom) if asks(resource) && text(&value["apiVersion"]) != resource.stored_as => {
            let mut values = review::convert(api, &custom.conversion, &resource.stored_as, vec![value]).await?;
            Ok(values.pop().unwrap_or_default())
        }
        _ => Ok(as_stored(resource, value)),
    }
}

/// As `to_stored` where nobody has to be asked.
pub(crate) fn as_stored(resource: &Resource, mut value: Value) -> Value {
    if is_stored_form(resource) {
        return value;
    }
    value["apiVersion"] = resource.stored_as.as_str().into();
    match resource.rules.view {
        Some(view) => (view.store)(value),
        None => value,
    }
}

/// Brings an autoscaler of the first version into the form in which it will be read again: what it leaves to the server is
/// decided while it is converted.
pub(crate) fn settle_view(resource: &Resource, value: &mut Value) {
    if is_autoscaler(resource) && !is_stored_form(resource) {
        *value = plainly(resource, as_stored(resource, value.take()));
    }
}

/// Whether storing this object would change nothing of what is stored, where both are equal in the version of the request.
pub(crate) fn is_stored(resource: &Resource, stored: &Object, value: &Value) -> bool {
    !is_autoscaler(resource)
        || is_stored_form(resource)
        || as_stored(resource, value.clone())["spec"] == stored.value()["spec"]
}

/// An object of one served version in another.
pub(crate) async fn between(api: &Api, from: &Resource, to: &Resource, value: Value) -> Answer<Value> {
    if from.version == to.version || text(&value["apiVersion"]) == to.api_version() {
        return Ok(value);
    }
    from_stored(api, to, value).await
}

/// The name in storage of a field that a selector names.
pub(crate) fn stored_field<'a>(resource: &Resource, field: &'a str) -> &'a str {
    match resource.rules.view {
        Some(view) if !is_stored_form(resource) => (view.field)(field),
        _ => field,
    }
}
