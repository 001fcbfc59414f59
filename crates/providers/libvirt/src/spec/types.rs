//! The fields of a libvirt providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// `LibvirtMachineProviderConfig`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LibvirtSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// Memory in MiB.
    pub domain_memory: i64,
    /// Number of virtual processors.
    pub domain_vcpu: i64,
    /// Key of a volume that holds an Ignition config already.
    pub ign_key: String,
    /// Comes before `ign_key`, which comes before `cloud_init`.
    pub ignition: Option<Ignition>,
    pub cloud_init: Option<CloudInit>,
    pub volume: Option<Volume>,
    /// The network, by name.
    pub network_interface_name: String,
    /// Not used, as upstream.
    pub network_interface_hostname: String,
    /// Range in CIDR notation from which a machine gets an address of its own.
    pub network_interface_address: String,
    /// Not used, as upstream.
    #[serde(rename = "networkUUID")]
    pub network_uuid: String,
    /// Whether the machine starts with its host.
    pub autostart: bool,
    /// Where libvirt is, such as `qemu+tcp://host/system`.
    pub uri: String,
    /// Path of a UEFI firmware on the host.
    pub firmware: String,
    pub nvram: Option<Nvram>,
}

/// Names the Secret with an Ignition config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ignition {
    pub user_data_secret: String,
}

/// Names the Secret with user data for cloud-init.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudInit {
    pub user_data_secret: String,
    /// Refused: upstream lets in whoever holds a key that is fixed in its source.
    #[serde(rename = "sshAccess")]
    pub ssh_access: bool,
}

/// The machine's disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub pool_name: String,
    /// The image under the disk, by name in the pool or by key.
    #[serde(rename = "baseVolumeID")]
    pub base_volume_id: String,
    /// Not used, as upstream: the machines of a set cannot share a name.
    pub volume_name: String,
    /// A quantity such as `32Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,
}

/// Storage for the variables of a UEFI firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nvram {
    /// Not used: the machines of a set cannot share a file. libvirt makes one for each.
    pub nvram_file: String,
    pub nvram_template: String,
}
