//! The oldest version of `Cluster`. None of our controllers acts on it; machines may refer to one.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProviderSpec;

/// The cluster that machines belong to.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.k8s.io",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    doc = "The cluster that machines belong to.",
    status = "ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    pub cluster_network: ClusterNetwork,
    /// Provider-specific settings of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_spec: Option<ProviderSpec>,
    /// Older spelling of `providerSpec`, still accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderSpec>,
}

/// Addresses and names inside the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    pub services: NetworkRanges,
    pub pods: NetworkRanges,
    pub service_domain: String,
}

/// Networks in CIDR notation.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    pub cidr_blocks: Vec<String>,
}

/// Addresses of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Provider-specific status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub provider_status: Option<Value>,
}

/// An address of the API server.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiEndpoint {
    pub host: String,
    pub port: i64,
}
