//! The fields of a GCP providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::LocalReference;
use serde::{Deserialize, Serialize};

/// `GCPMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcpSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub user_data_secret: Option<LocalReference>,
    pub credentials_secret: Option<LocalReference>,
    #[serde(rename = "canIPForward")]
    pub can_ip_forward: bool,
    pub deletion_protection: bool,
    pub disks: Vec<Disk>,
    pub labels: BTreeMap<String, String>,
    /// Metadata of the instance, besides the user data.
    pub gcp_metadata: Vec<Metadata>,
    pub network_interfaces: Vec<NetworkInterface>,
    pub service_accounts: Vec<ServiceAccount>,
    /// Network tags, which firewalls go by.
    pub tags: Vec<String>,
    pub target_pools: Vec<String>,
    pub machine_type: String,
    pub region: String,
    pub zone: String,
    #[serde(rename = "projectID")]
    pub project_id: String,
    pub gpus: Vec<Gpu>,
    pub preemptible: bool,
    /// `Spot`, or nothing for standard provisioning.
    pub provisioning_model: Option<String>,
    /// `Migrate` or `Terminate`.
    pub on_host_maintenance: String,
    /// `Always` or `Never`.
    pub restart_policy: String,
    pub shielded_instance_config: ShieldedInstanceConfig,
    /// `Disabled`, `Enabled`, or a technology by name.
    pub confidential_compute: String,
    pub resource_manager_tags: Vec<ResourceManagerTag>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    pub auto_delete: bool,
    pub boot: bool,
    pub size_gb: i64,
    #[serde(rename = "type")]
    pub type_: String,
    pub image: String,
    pub labels: BTreeMap<String, String>,
    pub encryption_key: Option<EncryptionKey>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EncryptionKey {
    pub kms_key: Option<KmsKey>,
    pub kms_key_service_account: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KmsKey {
    pub name: String,
    pub key_ring: String,
    #[serde(rename = "projectID")]
    pub project_id: String,
    pub location: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub key: String,
    pub value: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterface {
    #[serde(rename = "publicIP")]
    pub public_ip: bool,
    pub network: String,
    #[serde(rename = "projectID")]
    pub project_id: String,
    pub subnetwork: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAccount {
    pub email: String,
    pub scopes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gpu {
    pub count: i32,
    #[serde(rename = "type")]
    pub type_: String,
}

/// Each is `Enabled` or `Disabled`, or Google's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShieldedInstanceConfig {
    pub secure_boot: String,
    pub virtualized_trusted_platform_module: String,
    pub integrity_monitoring: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceManagerTag {
    /// An organization or project.
    #[serde(rename = "parentID")]
    pub parent_id: String,
    pub key: String,
    pub value: String,
}
