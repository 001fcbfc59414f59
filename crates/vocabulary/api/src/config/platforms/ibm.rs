//! IBM Cloud and IBM Power Virtual Server.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::set_once;

/// IBM Power Virtual Server.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerVsPlatformSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub service_endpoints: Vec<PowerVsServiceEndpoint>,
}

/// Another address for one of the services.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerVsServiceEndpoint {
    #[schemars(extend("enum" = ["CIS", "COS", "COSConfig", "DNSServices", "GlobalCatalog", "GlobalSearch", "GlobalTagging", "HyperProtect", "IAM", "KeyProtect", "Power", "ResourceController", "ResourceManager", "VPC"]))]
    pub name: String,
    #[schemars(regex(pattern = "^https://"))]
    #[schemars(extend("format" = "uri"))]
    pub url: String,
}

/// IBM Cloud.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IbmCloudPlatformStatus {
    #[serde(default, rename = "cisInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub cis_instance_crn: Option<String>,
    #[serde(default, rename = "dnsInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub dns_instance_crn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub service_endpoints: Vec<IbmCloudServiceEndpoint>,
}

/// Another address for one of the services.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IbmCloudServiceEndpoint {
    #[schemars(extend("enum" = ["CIS", "COS", "COSConfig", "DNSServices", "GlobalCatalog", "GlobalSearch", "GlobalTagging", "HyperProtect", "IAM", "KeyProtect", "ResourceController", "ResourceManager", "VPC"]))]
    pub name: String,
    #[schemars(length(max = 300))]
    #[x_kube(validation = Rule::new("isURL(self)").message("url must be a valid absolute URL"))]
    pub url: String,
}

/// IBM Power Virtual Server.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.resourceGroup) || has(self.resourceGroup)")
    .message("cannot unset resourceGroup once set"))]
pub struct PowerVsPlatformStatus {
    #[serde(default, rename = "cisInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub cis_instance_crn: Option<String>,
    #[serde(default, rename = "dnsInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub dns_instance_crn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = "^[a-zA-Z0-9-_ ]+$"))]
    #[x_kube(validation = set_once("resourceGroup is immutable once set"))]
    pub resource_group: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub service_endpoints: Vec<PowerVsServiceEndpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}
