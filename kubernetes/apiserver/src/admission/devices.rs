//! Access to devices that others use: only in namespaces that say that they are for administrators.

use schema::FieldError;
use serde_json::Value;

use crate::{object::Name, verbs::Request};

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// What is refused because the namespace of a claim does not say so.
pub(crate) fn check(request: &Request<'_>, old: Option<&Value>, new: &Value) -> Option<FieldError> {
    let spec = match &*request.resource.collection {
        "resource.k8s.io/resourceclaims" => &new["spec"],
        "resource.k8s.io/resourceclaimtemplates" => &new["spec"]["spec"],
        _ => return None,
    };
    let results = |claim: &Value| first(&claim["status"]["allocation"]["devices"]["results"], |own| own);
    let field = match (old, request.subresource) {
        (None, _) => {
            let at = first(&spec["devices"]["requests"], |own| &own["exactly"])?;
            format!("spec.devices.requests[{at}].adminAccess")
        }
        (Some(old), "status") if results(old).is_none() => {
            format!("status.allocation.devices.results[{}].adminAccess", results(new)?)
        }
        _ => return None,
    };
    let namespace = request.api.store.get("/namespaces", &Name::new("", request.namespace));
    if namespace.is_some_and(|namespace| namespace.value()["metadata"]["labels"][LABEL] == "true") {
        return None;
    }
    let why = format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
    Some(FieldError::forbidden(field, why))
}

/// The place of the first that asks for it.
fn first(list: &Value, of: impl Fn(&Value) -> &Value) -> Option<usize> {
    list.as_array()?.iter().position(|own| of(own)["adminAccess"] == true)
}
