//! The fields of a vSphere providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::LocalReference;
use serde::{Deserialize, Serialize};

/// `VSphereMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub user_data_secret: Option<LocalReference>,
    pub credentials_secret: Option<LocalReference>,
    /// The template or virtual machine that is cloned.
    pub template: String,
    pub workspace: Option<Workspace>,
    pub network: Network,
    #[serde(rename = "numCPUs")]
    pub num_cpus: i32,
    /// As many as `numCPUs` when left out.
    pub num_cores_per_socket: i32,
    #[serde(rename = "memoryMiB")]
    pub memory_mib: i64,
    #[serde(rename = "diskGiB")]
    pub disk_gib: i32,
    #[serde(rename = "tagIDs")]
    pub tag_ids: Vec<String>,
    pub snapshot: String,
    /// `fullClone` or `linkedClone`.
    pub clone_mode: String,
    pub data_disks: Vec<DataDisk>,
}

/// Where in vCenter the machine is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workspace {
    pub server: String,
    pub datacenter: String,
    pub folder: String,
    pub datastore: String,
    pub resource_pool: String,
    /// A group of machines that affinity rules keep on some hosts.
    pub vm_group: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    pub devices: Vec<NetworkDevice>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkDevice {
    pub network_name: String,
    pub gateway: String,
    /// Static addresses with their prefix lengths.
    pub ip_addrs: Vec<String>,
    pub nameservers: Vec<String>,
    pub addresses_from_pools: Vec<AddressesFromPool>,
}

/// An object that hands out addresses, to which an IPAddressClaim is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressesFromPool {
    pub group: String,
    pub resource: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataDisk {
    pub name: String,
    #[serde(rename = "sizeGiB")]
    pub size_gib: i32,
    /// `Thin`, `Thick` or `EagerlyZeroed`; the datastore decides when left out.
    pub provisioning_mode: String,
}
