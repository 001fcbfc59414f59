//! Schemas of foreign types, and validation rules that several kinds share.
//!
//! `k8s-openapi` describes its types without list types and with long prose; a definition needs the former and not
//! the latter. The wording of rules is interface: users read it in refusals.

use kube::core::Rule;
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

/// An object of which the API checks nothing and keeps everything.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Reads `null` as the empty value. Upstream's own client writes `null` for an empty list that is not omitted.
pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(<Option<T> as Deserialize>::deserialize(deserializer)?.unwrap_or_default())
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

/// An object that is empty today and may get fields later.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = without_prose)]
pub struct Empty {}

fn without_prose(schema: &mut Schema) {
    schema.remove("description");
}

/// An object of which the schema says nothing; the server knows it better.
pub(crate) fn plain_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// `metav1.Time`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A whole number that counts something, of no particular size.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}

/// `resource.Quantity`, which may be written as a number as well.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    })
}

/// A list of `metav1.Condition`, one of each type.
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

/// The rule that a name is a DNS label.
pub(crate) fn dns1123_label() -> Rule {
    Rule::new("!format.dns1123Label().validate(self).hasValue()")
        .message("the value must consist of only lowercase alphanumeric characters and hyphens")
}

/// The rule that a name is a DNS label that begins with a letter.
pub(crate) fn dns1035_label() -> Rule {
    Rule::new("!format.dns1035Label().validate(self).hasValue()").message(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    )
}

/// The rule that an image is named by digest.
pub(crate) fn image_digest() -> Rule {
    Rule::new("(self.split('@').size() == 2 && self.split('@')[1].matches('^sha256:[a-f0-9]{64}$'))").message(
        "the OCI Image reference must end with a valid '@sha256:<digest>' suffix, where '<digest>' is 64 characters long",
    )
}

/// The rule that an image's name has a host and a path.
pub(crate) fn image_name() -> Rule {
    Rule::new(
        r"(self.split('@')[0].matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
    )
    .message("the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme")
}

/// The rule for a place that images can be pushed to.
pub(crate) fn image_push_spec() -> Rule {
    Rule::new(
        r"self.matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?(/[a-zA-Z0-9-_]{1,61})*/[a-zA-Z0-9-_.]+:[a-zA-Z0-9._-]+$') || self.matches('^[^.]+\\.[^.]+\\.svc:\\d+\\/[^\\/]+\\/[^\\/]+:[^\\/]+$')",
    )
    .message("the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme. Or it must be a valid .svc followed by a port, repository, image name, and tag.")
}

/// The rule that a list holds nothing twice.
pub(crate) fn unique() -> Rule {
    Rule::new("self.all(x, self.exists_one(y, x == y))")
}

/// The rule that of two addresses one is IPv4 and the other IPv6.
pub(crate) fn one_address_per_family(field: &str) -> Rule {
    Rule::new(TWO_FAMILIES).message(one_address_per_family_message(field).as_str())
}

/// As [`one_address_per_family`], but lets what was stored before the rule stand.
pub(crate) fn unchanged_or_one_address_per_family(field: &str) -> Rule {
    Rule::new(format!("self == oldSelf || ({TWO_FAMILIES})")).message(one_address_per_family_message(field).as_str())
}

const TWO_FAMILIES: &str =
    "size(self) == 2 && isIP(self[0]) && isIP(self[1]) ? ip(self[0]).family() != ip(self[1]).family() : true";

fn one_address_per_family_message(field: &str) -> String {
    format!("{field} must contain at most one IPv4 address and at most one IPv6 address")
}

/// The rule that a string keeps its first value.
pub(crate) fn set_once(message: &str) -> Rule {
    Rule::new("oldSelf == '' || self == oldSelf").message(message)
}

/// The rule for a version of OpenShift.
pub(crate) fn ocp_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.[0-9]+$')")
        .message("ocpVersion must match the OCP semver compatible format of x.y.z")
}

/// The rule for a version of its OS.
pub(crate) fn rhcos_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.([0-9]{8}|[0-9]{12})-[0-9]+$')").message(
        "rhcosVersion must match format [major].[minor].[datestamp(YYYYMMDD)]-[buildnumber] or must match legacy format [major].[minor].[timestamp(YYYYMMDDHHmm)]-[buildnumber]",
    )
}
