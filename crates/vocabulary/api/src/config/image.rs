//! `Image`: which registries the cluster's runtimes may use, and how.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::config::NameReference;

/// Registries that the cluster's runtimes may use, and how.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Image",
    plural = "images",
    doc = "Which registries the cluster's runtimes may use, and how. One object, named cluster.",
    status = "ImageStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// ConfigMap of `openshift-config` with the CAs of registries.
    #[serde(default, rename = "additionalTrustedCA", skip_serializing_if = "Option::is_none")]
    pub additional_trusted_ca: Option<NameReference>,
    /// Registries that image streams may be imported from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_registries_for_import: Vec<RegistryLocation>,
    /// Names by which the cluster's own registry is reached from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub external_registry_hostnames: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "import_mode")]
    pub image_stream_import_mode: Option<String>,
    /// How the container runtime treats registries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_sources: Option<RegistrySources>,
}

/// A registry that image streams may be imported from.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryLocation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
}

/// How the container runtime treats registries. An empty list is not the same as none.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.blockedRegistries) ? !has(self.allowedRegistries) : true")
    .message("Only one of blockedRegistries or allowedRegistries may be set"))]
pub struct RegistrySources {
    /// Only from these may images be pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "registries")]
    pub allowed_registries: Option<Vec<String>>,
    /// From these no image is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "registries")]
    pub blocked_registries: Option<Vec<String>>,
    /// Registries that are asked, in this order, for images whose name has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "search_registries")]
    pub container_runtime_search_registries: Option<Vec<String>>,
    /// Registries without a valid certificate or without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "registries")]
    pub insecure_registries: Option<Vec<String>>,
}

/// Facts about the cluster's own registry.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub external_registry_hostnames: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "import_mode")]
    pub image_stream_import_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_registry_hostname: Option<String>,
}

fn import_mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["", "Legacy", "PreserveOriginal"] })
}

fn registries(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 1024,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
            "x-kubernetes-validations": [{
                "rule": r"self.matches('^\\*(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+$|^((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$')",
                "message": "each registry must be a valid hostname[:port][/path] or wildcard *.hostname format without tags or digests",
            }],
        },
    })
}

fn search_registries(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "format": "hostname",
        "minItems": 1,
        "items": { "type": "string" },
        "x-kubernetes-list-type": "set",
    })
}
