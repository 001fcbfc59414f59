//! Google Cloud.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::CloudLoadBalancerConfig;

/// Google Cloud.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.resourceLabels) && !has(self.resourceLabels) || has(oldSelf.resourceLabels) && has(self.resourceLabels)")
    .message("resourceLabels may only be configured during installation"))]
#[x_kube(validation = Rule::new("!has(oldSelf.resourceTags) && !has(self.resourceTags) || has(oldSelf.resourceTags) && has(self.resourceTags)")
    .message("resourceTags may only be configured during installation"))]
pub struct GcpPlatformStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true, "default" = { "dnsType": "PlatformDefault" }))]
    pub cloud_load_balancer_config: Option<CloudLoadBalancerConfig>,
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    #[x_kube(validation = Rule::new("self.all(x, x in oldSelf) && oldSelf.all(x, x in self)")
    .message("resourceLabels are immutable and may only be configured during installation"))]
    pub resource_labels: Vec<GcpResourceLabel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    #[x_kube(validation = Rule::new("self.all(x, x in oldSelf) && oldSelf.all(x, x in self)")
    .message("resourceTags are immutable and may only be configured during installation"))]
    pub resource_tags: Vec<GcpResourceTag>,
}

/// A label on every Google Cloud resource of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcpResourceLabel {
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z][0-9a-z_-]{0,62}$"))]
    #[x_kube(validation = Rule::new("!self.startsWith('openshift-io') && !self.startsWith('kubernetes-io')")
    .message("label keys must not start with either `openshift-io` or `kubernetes-io`"))]
    pub key: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[0-9a-z_-]{1,63}$"))]
    pub value: String,
}

/// A tag on every Google Cloud resource of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcpResourceTag {
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z0-9]([0-9A-Za-z_.-]{0,61}[a-zA-Z0-9])?$"))]
    pub key: String,
    #[serde(rename = "parentID")]
    #[schemars(length(min = 1, max = 32), regex(pattern = "(^[1-9][0-9]{0,31}$)|(^[a-z][a-z0-9-]{4,28}[a-z0-9]$)"))]
    pub parent_id: String,
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-zA-Z0-9]([0-9A-Za-z_.@%=+:,*#&()\[\]{}\-\s]{0,61}[a-zA-Z0-9])?$")
    )]
    pub value: String,
}
