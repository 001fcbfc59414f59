//! Platforms whose addresses the cluster manages itself: bare metal, OpenStack, oVirt, Equinix Metal, KubeVirt.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::PlatformLoadBalancer;
use crate::rules::{one_address_per_family, unchanged_or_one_address_per_family, unique};

/// Addresses of a cluster on bare metal or OpenStack.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.apiServerInternalIPs) || has(self.apiServerInternalIPs)")
    .message("apiServerInternalIPs list is required once set"))]
#[x_kube(validation = Rule::new("!has(oldSelf.ingressIPs) || has(self.ingressIPs)")
    .message("ingressIPs list is required once set"))]
pub struct OnPremisesPlatformSpec {
    #[serde(default, rename = "apiServerInternalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 2))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = one_address_per_family("apiServerInternalIPs"))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(default, rename = "ingressIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 2))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = one_address_per_family("ingressIPs"))]
    pub ingress_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::cidrs", length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unique())]
    pub machine_networks: Vec<String>,
}

/// Bare metal and vSphere.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalPlatformStatus {
    #[serde(default, rename = "apiServerInternalIP", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_ip: Option<String>,
    #[serde(default, rename = "apiServerInternalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("apiServerInternalIPs"))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(default, rename = "ingressIP", skip_serializing_if = "Option::is_none")]
    pub ingress_ip: Option<String>,
    #[serde(default, rename = "ingressIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("ingressIPs"))]
    pub ingress_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "type": "OpenShiftManagedDefault" }))]
    pub load_balancer: Option<PlatformLoadBalancer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::cidrs", length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unique())]
    pub machine_networks: Vec<String>,
    #[serde(default, rename = "nodeDNSIP", skip_serializing_if = "Option::is_none")]
    pub node_dns_ip: Option<String>,
}

/// Equinix Metal and KubeVirt.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimplePlatformStatus {
    #[serde(default, rename = "apiServerInternalIP", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_ip: Option<String>,
    #[serde(default, rename = "ingressIP", skip_serializing_if = "Option::is_none")]
    pub ingress_ip: Option<String>,
}

/// OpenStack.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackPlatformStatus {
    #[serde(default, rename = "apiServerInternalIP", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_ip: Option<String>,
    #[serde(default, rename = "apiServerInternalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("apiServerInternalIPs"))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_name: Option<String>,
    #[serde(default, rename = "ingressIP", skip_serializing_if = "Option::is_none")]
    pub ingress_ip: Option<String>,
    #[serde(default, rename = "ingressIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unchanged_or_one_address_per_family("ingressIPs"))]
    pub ingress_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "type": "OpenShiftManagedDefault" }))]
    pub load_balancer: Option<PlatformLoadBalancer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::cidrs", length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = unique())]
    pub machine_networks: Vec<String>,
    #[serde(default, rename = "nodeDNSIP", skip_serializing_if = "Option::is_none")]
    pub node_dns_ip: Option<String>,
}

/// oVirt.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OvirtPlatformStatus {
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
    #[serde(default, rename = "nodeDNSIP", skip_serializing_if = "Option::is_none")]
    pub node_dns_ip: Option<String>,
}
