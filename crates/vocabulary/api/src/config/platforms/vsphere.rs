//! vSphere.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{one_address_per_family, unique};

/// vSphere.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.apiServerInternalIPs) || has(self.apiServerInternalIPs)")
    .message("apiServerInternalIPs list is required once set"))]
#[x_kube(validation = Rule::new("!has(oldSelf.ingressIPs) || has(self.ingressIPs)")
    .message("ingressIPs list is required once set"))]
pub struct VspherePlatformSpec {
    #[serde(default, rename = "apiServerInternalIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_addresses", length(max = 2))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = one_address_per_family("apiServerInternalIPs"))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<VsphereFailureDomain>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_networking: Option<VsphereNodeNetworking>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, self.exists_one(y, y.server == x.server))")
    .message("vcenters must have unique server values"))]
    pub vcenters: Vec<Vcenter>,
}

/// A part of the infrastructure that fails as one.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.zoneAffinity) && self.zoneAffinity.type == 'HostGroup' ?  has(self.regionAffinity) && self.regionAffinity.type == 'ComputeCluster' : true")
    .message("when zoneAffinity type is HostGroup, regionAffinity type must be ComputeCluster"))]
#[x_kube(validation = Rule::new("has(self.zoneAffinity) && self.zoneAffinity.type == 'ComputeCluster' ?  has(self.regionAffinity) && self.regionAffinity.type == 'Datacenter' : true")
    .message("when zoneAffinity type is ComputeCluster, regionAffinity type must be Datacenter"))]
pub struct VsphereFailureDomain {
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    #[schemars(length(min = 1, max = 80))]
    pub region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_affinity: Option<VsphereRegionAffinity>,
    #[schemars(length(min = 1, max = 255))]
    pub server: String,
    pub topology: VsphereTopology,
    #[schemars(length(min = 1, max = 80))]
    pub zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_affinity: Option<VsphereZoneAffinity>,
}

/// Definition of a region.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VsphereRegionAffinity {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["ComputeCluster", "Datacenter"]))]
    pub type_: String,
}

/// Placement of the machines of a failure domain.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VsphereTopology {
    #[schemars(length(max = 2048), regex(pattern = "^/.*?/host/.*?"))]
    pub compute_cluster: String,
    #[schemars(length(max = 80))]
    pub datacenter: String,
    #[schemars(length(max = 2048), regex(pattern = "^/.*?/datastore/.*?"))]
    pub datastore: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^/.*?/vm/.*?"))]
    pub folder: Option<String>,
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub networks: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^/.*?/host/.*?/Resources.*"))]
    pub resource_pool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = "^/.*?/vm/.*?"))]
    pub template: Option<String>,
}

/// Definition of a zone.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'HostGroup' ?  has(self.hostGroup) : !has(self.hostGroup)")
    .message("hostGroup is required when type is HostGroup, and forbidden otherwise"))]
pub struct VsphereZoneAffinity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_group: Option<VsphereHostGroup>,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["HostGroup", "ComputeCluster"]))]
    pub type_: String,
}

/// Hosts and machines that are bound to each other.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VsphereHostGroup {
    #[schemars(length(min = 1, max = 80))]
    pub host_group: String,
    #[schemars(length(min = 1, max = 80))]
    pub vm_group: String,
    #[schemars(length(min = 1, max = 80))]
    pub vm_host_rule: String,
}

/// How a node's addresses are determined.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VsphereNodeNetworking {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<VsphereNodeNetworkingSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<VsphereNodeNetworkingSpec>,
}

/// Networks that addresses come from.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VsphereNodeNetworkingSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub exclude_network_subnet_cidr: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub network_subnet_cidr: Vec<String>,
}

/// A vCenter server.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vcenter {
    #[schemars(length(min = 1))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub datacenters: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32767))]
    pub port: Option<i32>,
    #[schemars(length(max = 255))]
    pub server: String,
}
