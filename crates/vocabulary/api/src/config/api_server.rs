//! `APIServer`: settings of the cluster's API servers. Nodes use its TLS profile.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Empty;
use crate::config::NameReference;
use crate::machineconfiguration::TlsSecurityProfile;

/// Settings of the cluster's API servers.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "APIServer",
    root = "ApiServer",
    plural = "apiservers",
    doc = "Settings of the cluster's API servers. One object, named cluster.",
    status = "Empty",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerSpec {
    #[serde(default, rename = "additionalCORSAllowedOrigins", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_cors_allowed_origins: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"profile": "Default"}))]
    pub audit: Option<Audit>,
    /// ConfigMap with the CA of clients.
    #[serde(default, rename = "clientCA", skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<NameReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<ApiServerEncryption>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving_certs: Option<ApiServerServingCerts>,
    /// TLS settings of the API servers, and of kubelets that no KubeletConfig gives others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}

/// Settings of the audit log.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group"]))]
    pub custom_rules: Vec<AuditCustomRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Default", "WriteRequestBodies", "AllRequestBodies", "None"], "default" = "Default"))]
    pub profile: Option<String>,
}

/// Settings of the audit log for one group of users.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditCustomRule {
    #[schemars(length(min = 1))]
    pub group: String,
    #[schemars(extend("enum" = ["Default", "WriteRequestBodies", "AllRequestBodies", "None"]))]
    pub profile: String,
}

/// How objects are encrypted where they are stored.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerEncryption {
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "identity", "aescbc", "aesgcm"]))]
    pub type_: Option<String>,
}

/// Certificates for custom names.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerServingCerts {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub named_certificates: Vec<ApiServerNamedServingCert>,
}

/// A certificate and the names it is for.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerNamedServingCert {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "names")]
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving_certificate: Option<NameReference>,
}

fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": { "type": "string" },
        "x-kubernetes-list-type": "atomic",
    })
}
