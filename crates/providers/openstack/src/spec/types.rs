//! The fields of an OpenStack providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::SecretReference;
use serde::{Deserialize, Serialize};

/// `OpenstackProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenStackSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// The Secret with `clouds.yaml` and, optionally, `cacert`.
    pub clouds_secret: Option<SecretReference>,
    /// The entry of `clouds.yaml`.
    pub cloud_name: String,
    /// By name, or by id.
    pub flavor: String,
    /// By name, or by id. Not used with a root volume that names its own.
    pub image: String,
    pub key_name: String,
    /// Not used, as upstream.
    pub ssh_user_name: String,
    pub networks: Vec<Network>,
    pub ports: Vec<Port>,
    #[serde(rename = "floatingIP")]
    pub floating_ip: String,
    pub availability_zone: String,
    pub security_groups: Vec<SecurityGroup>,
    pub user_data_secret: Option<SecretReference>,
    pub trunk: bool,
    pub tags: Vec<String>,
    pub server_metadata: BTreeMap<String, String>,
    pub config_drive: Option<bool>,
    pub root_volume: Option<RootVolume>,
    pub additional_block_devices: Vec<BlockDevice>,
    #[serde(rename = "serverGroupID")]
    pub server_group_id: String,
    /// Made, with the policy `soft-anti-affinity`, if there is none.
    pub server_group_name: String,
    /// Not used, as upstream.
    pub primary_subnet: String,
}

/// Security groups by id, name or filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroup {
    pub uuid: String,
    pub name: String,
    pub filter: Filter,
}

/// A network that gets one port, or one port for each subnet if only subnets are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    pub uuid: String,
    /// Not used, as upstream.
    pub fixed_ip: String,
    pub filter: Filter,
    pub subnets: Vec<Subnet>,
    pub no_allowed_address_pairs: bool,
    pub port_tags: Vec<String>,
    pub vnic_type: String,
    pub profile: BTreeMap<String, String>,
    pub port_security: Option<bool>,
}

/// What networks and security groups are found by. Lists of tags are separated by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    pub id: String,
    pub name: String,
    pub description: String,
    /// The older name of `project_id`, which wins.
    pub tenant_id: String,
    pub project_id: String,
    pub tags: String,
    pub tags_any: String,
    pub not_tags: String,
    pub not_tags_any: String,
    // Not used, as upstream, from here on.
    pub status: String,
    pub admin_state_up: Option<bool>,
    pub shared: Option<bool>,
    pub marker: String,
    pub limit: i64,
    pub sort_key: String,
    pub sort_dir: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subnet {
    pub uuid: String,
    pub filter: SubnetFilter,
    pub port_tags: Vec<String>,
    /// Not used, as upstream: it is a setting of the network.
    pub port_security: Option<bool>,
}

/// What subnets are found by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubnetFilter {
    pub id: String,
    pub name: String,
    pub description: String,
    /// Not used, as upstream: it is a setting of the network.
    pub network_id: String,
    pub tenant_id: String,
    pub project_id: String,
    pub ip_version: i64,
    #[serde(rename = "gateway_ip")]
    pub gateway_ip: String,
    pub cidr: String,
    pub ipv6_address_mode: String,
    pub ipv6_ra_mode: String,
    /// Not used, as upstream, as are those below the tags.
    pub subnetpool_id: String,
    pub tags: String,
    pub tags_any: String,
    pub not_tags: String,
    pub not_tags_any: String,
    pub enable_dhcp: Option<bool>,
    pub limit: i64,
    pub marker: String,
    pub sort_key: String,
    pub sort_dir: String,
}

/// A port in a network that is known by its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    #[serde(rename = "networkID")]
    pub network_id: String,
    /// The end of the port's name; without one, its number.
    pub name_suffix: String,
    pub description: String,
    pub admin_state_up: Option<bool>,
    #[serde(rename = "macAddress")]
    pub mac_address: String,
    #[serde(rename = "fixedIPs")]
    pub fixed_ips: Vec<FixedIp>,
    /// Not used, as upstream, like `project_id` and `host_id`.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Ids. Absent or empty, the port gets those of the machine.
    pub security_groups: Option<Vec<String>>,
    pub allowed_address_pairs: Vec<AddressPair>,
    pub tags: Vec<String>,
    pub vnic_type: String,
    pub profile: BTreeMap<String, String>,
    pub port_security: Option<bool>,
    /// Absent, as the machine's `trunk` says.
    pub trunk: Option<bool>,
    #[serde(rename = "hostID")]
    pub host_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressPair {
    pub ip_address: String,
    pub mac_address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FixedIp {
    #[serde(rename = "subnetID")]
    pub subnet_id: String,
    pub ip_address: String,
}

/// A volume that the machine boots from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootVolume {
    /// The image by name or id, where the spec itself names none.
    #[serde(rename = "sourceUUID")]
    pub source_uuid: String,
    pub volume_type: String,
    /// In GiB.
    #[serde(rename = "diskSize")]
    pub size: i64,
    pub availability_zone: String,
    /// Not used, as upstream, like `device_type`.
    pub source_type: String,
    pub device_type: String,
}

/// A further disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDevice {
    /// The end of the volume's name, and the device's tag in the machine's metadata.
    pub name: String,
    #[serde(rename = "sizeGiB")]
    pub size_gib: i64,
    pub storage: Storage,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// `Volume` or `Local`.
    #[serde(rename = "type")]
    pub kind: String,
    pub volume: Option<StorageVolume>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageVolume {
    #[serde(rename = "type")]
    pub kind: String,
    pub availability_zone: String,
}

impl Network {
    /// Whether the network itself is named, by id or filter, and not only its subnets.
    pub(crate) fn is_named(&self) -> bool {
        !self.uuid.is_empty() || self.filter.is_set()
    }
}

impl Filter {
    /// Whether anything is filtered by.
    pub(crate) fn is_set(&self) -> bool {
        [
            &self.id,
            &self.name,
            &self.description,
            &self.tenant_id,
            &self.project_id,
            &self.tags,
            &self.tags_any,
            &self.not_tags,
            &self.not_tags_any,
        ]
        .iter()
        .any(|text| !text.is_empty())
    }

    /// The query of neutron's lists.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let project = if self.project_id.is_empty() { &self.tenant_id } else { &self.project_id };
        present([
            ("id", &self.id),
            ("name", &self.name),
            ("description", &self.description),
            ("project_id", project),
            ("tags", &self.tags),
            ("tags-any", &self.tags_any),
            ("not-tags", &self.not_tags),
            ("not-tags-any", &self.not_tags_any),
        ])
    }
}

impl SubnetFilter {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let project = if self.project_id.is_empty() { &self.tenant_id } else { &self.project_id };
        let version = if self.ip_version == 0 { String::new() } else { self.ip_version.to_string() };
        present([
            ("id", &self.id),
            ("name", &self.name),
            ("description", &self.description),
            ("project_id", project),
            ("ip_version", &version),
            ("gateway_ip", &self.gateway_ip),
            ("cidr", &self.cidr),
            ("ipv6_address_mode", &self.ipv6_address_mode),
            ("ipv6_ra_mode", &self.ipv6_ra_mode),
            ("tags", &self.tags),
            ("tags-any", &self.tags_any),
            ("not-tags", &self.not_tags),
            ("not-tags-any", &self.not_tags_any),
        ])
    }
}

fn present<const N: usize>(fields: [(&'static str, &String); N]) -> Vec<(&'static str, String)> {
    fields.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.clone())).collect()
}
