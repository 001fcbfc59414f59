//! References that several kinds share.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{dns1035_label, dns1123_label, dns1123_subdomain};

/// Names an object whose kind the field implies.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectNameReference {
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub name: String,
}

/// Names an object that belongs to a build.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildObjectReference {
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub group: String,
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns1123_label())]
    pub namespace: Option<String>,
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns1035_label())]
    pub resource: String,
}
