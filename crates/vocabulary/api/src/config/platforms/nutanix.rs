//! Nutanix.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::PlatformLoadBalancer;
use crate::rules::unchanged_or_one_address_per_family;

/// Nutanix.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixPlatformSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<NutanixFailureDomain>,
    pub prism_central: NutanixPrismEndpoint,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub prism_elements: Vec<NutanixPrismElementEndpoint>,
}

/// A part of the infrastructure that fails as one.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixFailureDomain {
    pub cluster: NutanixResourceIdentifier,
    #[schemars(length(min = 1, max = 64), regex(pattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"))]
    pub name: String,
    #[schemars(length(min = 1, max = 1))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub subnets: Vec<NutanixResourceIdentifier>,
}

/// A resource, by UUID or by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'UUID' ?  has(self.uuid) : !has(self.uuid)")
    .message("uuid configuration is required when type is UUID, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Name' ?  has(self.name) : !has(self.name)")
    .message("name configuration is required when type is Name, and forbidden otherwise"))]
pub struct NutanixResourceIdentifier {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["UUID", "Name"]))]
    pub type_: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Address of a Prism service.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixPrismEndpoint {
    #[schemars(length(max = 256))]
    pub address: String,
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A Prism Element.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixPrismElementEndpoint {
    pub endpoint: NutanixPrismEndpoint,
    #[schemars(length(max = 256))]
    pub name: String,
}

/// Nutanix.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NutanixPlatformStatus {
    #[serde(default, rename = "apiServerInternalIP", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_ip: Option<String>,
    #[serde(default, rename = "apiServerInternalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "set"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("apiServerInternalIPs"))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(default, rename = "ingressIP", skip_serializing_if = "Option::is_none")]
    pub ingress_ip: Option<String>,
    #[serde(default, rename = "ingressIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "set"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("ingressIPs"))]
    pub ingress_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "type": "OpenShiftManagedDefault" }))]
    pub load_balancer: Option<PlatformLoadBalancer>,
}
