//! Schemas of foreign types, as the kinds of this crate want them.
//!
//! `k8s-openapi` describes these types without list types and with long prose; a definition needs the former and
//! not the latter.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

/// `metav1.LabelSelector`, replaced as a whole by server-side apply.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "key": { "type": "string" },
                        "operator": { "type": "string" },
                        "values": {
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                    "required": ["key", "operator"],
                },
                "x-kubernetes-list-type": "atomic",
            },
            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

/// `intstr.IntOrString`.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// An object of which the API checks nothing and keeps everything.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Reads `null` as the empty value. Upstream's own client writes `null` for an empty list that is not omitted.
pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}

/// The rule that a name is a DNS subdomain. `what` begins the message, which upstream words in several ways.
pub(crate) fn dns1123_subdomain(what: &str) -> Rule {
    Rule::new("!format.dns1123Subdomain().validate(self).hasValue()").message(
        format!(
            "{what} must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character."
        )
        .as_str(),
    )
}

/// `corev1.ObjectReference`, replaced as a whole by server-side apply.
pub(crate) fn object_reference(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "fieldPath": { "type": "string" },
            "kind": { "type": "string" },
            "name": { "type": "string" },
            "namespace": { "type": "string" },
            "resourceVersion": { "type": "string" },
            "uid": { "type": "string" },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

/// A list of [`object_reference`], replaced as a whole.
pub(crate) fn object_references(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": object_reference(generator),
        "x-kubernetes-list-type": "atomic",
    })
}

/// Bytes, in base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}
