//! Azure.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::CloudLoadBalancerConfig;

/// Azure.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.resourceTags) && !has(self.resourceTags) || has(oldSelf.resourceTags) && has(self.resourceTags)")
    .message("resourceTags may only be configured during installation"))]
pub struct AzurePlatformStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "dnsType": "PlatformDefault" }))]
    pub cloud_load_balancer_config: Option<CloudLoadBalancerConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud", "AzureGermanCloud", "AzureStackCloud"]))]
    pub cloud_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_resource_group_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, x in oldSelf) && oldSelf.all(x, x in self)")
    .message("resourceTags are immutable and may only be configured during installation"))]
    pub resource_tags: Vec<AzureResourceTag>,
}

/// A tag on every Azure resource of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureResourceTag {
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[a-zA-Z]([0-9A-Za-z_.-]*[0-9A-Za-z_])?$"))]
    pub key: String,
    #[schemars(length(min = 1, max = 256), regex(pattern = "^[0-9A-Za-z_.=+-@]+$"))]
    pub value: String,
}
