//! `Proxy`: the proxy for outgoing requests.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::NameReference;

/// Desired proxy for outgoing requests of the cluster.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Proxy",
    plural = "proxies",
    doc = "The proxy for outgoing requests. One object, named cluster.",
    status = "ProxyStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ProxySpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    /// Addresses that must answer through the proxy before it is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readiness_endpoints: Vec<String>,
    /// ConfigMap of `openshift-config` with CAs to trust.
    #[serde(default, rename = "trustedCA", skip_serializing_if = "Option::is_none")]
    pub trusted_ca: Option<NameReference>,
}

/// The proxy for outgoing requests.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
}
