//! Schemas of foreign types for the kinds of this crate.
//!
//! `k8s-openapi` generates schemas without list types and with long descriptions; a CRD needs the former and not the
//! latter.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

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

/// An object that the API stores without any validation.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Deserializes `null` as the empty value. Upstream's own client writes `null` for an empty list that is not omitted.
pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(<Option<T> as Deserialize>::deserialize(deserializer)?.unwrap_or_default())
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

/// An object that is empty today and may get fields later.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = without_prose)]
pub struct Empty {}

fn without_prose(schema: &mut Schema) {
    schema.remove("description");
}

/// An object without a schema; the server validates it.
pub(crate) fn plain_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// `metav1.Time`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An integer that counts something, without bounds.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}

/// `resource.Quantity`, which may also be a number.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    })
}

/// A list of `metav1.Condition`, with one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// A list of `metav1.OwnerReference`.
pub(crate) fn owner_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "apiVersion": { "type": "string" },
                "blockOwnerDeletion": { "type": "boolean" },
                "controller": { "type": "boolean" },
                "kind": { "type": "string" },
                "name": { "type": "string" },
                "uid": { "type": "string" },
            },
            "required": ["apiVersion", "kind", "name", "uid"],
            "x-kubernetes-map-type": "atomic",
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["uid"],
    })
}

/// A list of `corev1.Taint`.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "effect": { "type": "string" },
                "key": { "type": "string" },
                "timeAdded": { "type": "string", "format": "date-time" },
                "value": { "type": "string" },
            },
            "required": ["effect", "key"],
        },
        "x-kubernetes-list-type": "atomic",
    })
}

/// A list of `corev1.NodeAddress`.
pub(crate) fn node_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": { "address": { "type": "string" }, "type": { "type": "string" } },
            "required": ["address", "type"],
        },
        "x-kubernetes-list-type": "atomic",
    })
}

/// A list of IP addresses.
pub(crate) fn ip_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 39,
            "x-kubernetes-validations": [{ "rule": "isIP(self)", "message": "value must be a valid IP address" }],
        },
    })
}

/// A list of networks in CIDR notation.
pub(crate) fn cidrs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 43,
            "x-kubernetes-validations": [
                { "rule": "isCIDR(self)", "message": "value must be a valid CIDR network address" },
            ],
        },
    })
}

/// Parts of Ignition's storage section.
pub(crate) fn irreconcilable_storage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "string", "enum": ["Disks", "FileSystems", "Raid"] },
    })
}

/// The name of a platform.
pub(crate) fn platform_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": [
            "", "AWS", "Azure", "BareMetal", "GCP", "Libvirt", "OpenStack", "None", "VSphere", "oVirt", "IBMCloud",
            "KubeVirt", "EquinixMetal", "PowerVS", "AlibabaCloud", "Nutanix", "External",
        ],
    })
}

/// A list of `corev1.NodeCondition`.
pub(crate) fn node_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "lastHeartbeatTime": { "type": "string", "format": "date-time" },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string" },
                "reason": { "type": "string" },
                "status": { "type": "string" },
                "type": { "type": "string" },
            },
            "required": ["status", "type"],
        },
        "x-kubernetes-list-type": "atomic",
    })
}
