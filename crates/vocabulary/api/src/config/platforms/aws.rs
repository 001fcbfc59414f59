//! AWS.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::CloudLoadBalancerConfig;
use crate::rules::set_once;

/// AWS.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsPlatformSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_endpoints: Vec<AwsServiceEndpoint>,
}

/// Another address for one of AWS's services.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsServiceEndpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^https://"))]
    pub url: Option<String>,
}

/// AWS.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsPlatformStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true, "default" = { "dnsType": "PlatformDefault" }))]
    pub cloud_load_balancer_config: Option<CloudLoadBalancerConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["IPv4", "DualStackIPv6Primary", "DualStackIPv4Primary"], "default" = "IPv4"))]
    #[x_kube(validation = set_once("ipFamily is immutable once set"))]
    pub ip_family: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub resource_tags: Vec<AwsResourceTag>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub service_endpoints: Vec<AwsServiceEndpoint>,
}

/// A tag on every AWS resource of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsResourceTag {
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9A-Za-z_.:/=+-@ ]+$')")
    .message("invalid AWS resource tag key. The string can contain only the set of alphanumeric characters, space (' '), '_', '.', '/', '=', '+', '-', ':', '@'"))]
    pub key: String,
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9A-Za-z_.:/=+-@ ]+$')")
    .message("invalid AWS resource tag value. The string can contain only the set of alphanumeric characters, space (' '), '_', '.', '/', '=', '+', '-', ':', '@'"))]
    pub value: String,
}
