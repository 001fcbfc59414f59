//! Load balancers that several platforms share.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::set_once;

/// The DNS server for the cluster's names.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.dnsType) && self.dnsType != 'ClusterHosted' ? !has(self.clusterHosted) : true")
    .message("clusterHosted is permitted only when dnsType is ClusterHosted"))]
pub struct CloudLoadBalancerConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_hosted: Option<CloudLoadBalancerIps>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ClusterHosted", "PlatformDefault"], "default" = "PlatformDefault"))]
    #[x_kube(validation = set_once("dnsType is immutable"))]
    pub dns_type: Option<String>,
}

/// Addresses of load balancers, when the cluster answers for its names itself.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudLoadBalancerIps {
    #[serde(default, rename = "apiIntLoadBalancerIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 16))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "set"))]
    pub api_int_load_balancer_ips: Vec<String>,
    #[serde(default, rename = "apiLoadBalancerIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 16))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "set"))]
    pub api_load_balancer_ips: Vec<String>,
    #[serde(default, rename = "ingressLoadBalancerIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 16))]
    #[schemars(extend("format" = "ip", "x-kubernetes-list-type" = "set"))]
    pub ingress_load_balancer_ips: Vec<String>,
}

/// The load balancer of the API and of ingress.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformLoadBalancer {
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["OpenShiftManagedDefault", "UserManaged"], "default" = "OpenShiftManagedDefault"))]
    #[x_kube(validation = set_once("type is immutable once set"))]
    pub type_: Option<String>,
}
