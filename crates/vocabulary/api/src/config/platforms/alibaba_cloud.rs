//! Alibaba Cloud.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Alibaba Cloud.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlibabaCloudPlatformStatus {
    #[schemars(regex(pattern = "^[0-9A-Za-z-]+$"))]
    pub region: String,
    #[serde(default, rename = "resourceGroupID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(rg-[0-9A-Za-z]+)?$"))]
    pub resource_group_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub resource_tags: Vec<AlibabaCloudResourceTag>,
}

/// A tag on every Alibaba Cloud resource of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlibabaCloudResourceTag {
    #[schemars(length(min = 1, max = 128))]
    pub key: String,
    #[schemars(length(min = 1, max = 128))]
    pub value: String,
}
