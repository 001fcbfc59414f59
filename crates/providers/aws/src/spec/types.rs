//! The fields of an AWS providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::LocalReference;
use serde::{Deserialize, Serialize};

/// `AWSMachineProviderConfig`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// The image that the instance boots.
    pub ami: ResourceReference,
    pub instance_type: String,
    pub cpu_options: Option<CpuOptions>,
    /// Tags of the instance and its volumes. The first of several with one name counts.
    pub tags: Vec<Tag>,
    /// The instance profile by its name (`id`).
    pub iam_instance_profile: Option<ResourceReference>,
    pub user_data_secret: Option<LocalReference>,
    pub credentials_secret: Option<LocalReference>,
    /// An SSH key pair.
    pub key_name: Option<String>,
    /// Index of the network interface on the instance.
    pub device_index: i64,
    /// Whether the instance gets a public address. The subnet decides when this is left out.
    pub public_ip: Option<bool>,
    /// `ENA` or `EFA`.
    pub network_interface_type: String,
    pub security_groups: Vec<ResourceReference>,
    pub subnet: ResourceReference,
    pub placement: Placement,
    /// Load balancers that control-plane machines join.
    pub load_balancers: Vec<LoadBalancer>,
    pub block_devices: Vec<BlockDevice>,
    /// Its presence asks for a spot instance.
    pub spot_market_options: Option<SpotMarketOptions>,
    pub metadata_service_options: MetadataServiceOptions,
    pub placement_group_name: String,
    pub placement_group_partition: Option<i32>,
    pub capacity_reservation_id: String,
    /// `OnDemand`, `Spot` or `CapacityBlock`.
    pub market_type: String,
}

/// Something in AWS by id, by ARN, or by filters as the describe calls take them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceReference {
    pub id: Option<String>,
    pub arn: Option<String>,
    pub filters: Option<Vec<Filter>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    pub name: String,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tag {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuOptions {
    /// `Disabled` or `AMDEncryptedVirtualizationNestedPaging`.
    pub confidential_compute: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    pub region: String,
    pub availability_zone: String,
    /// `default`, `dedicated` or `host`.
    pub tenancy: String,
    pub host: Option<HostPlacement>,
}

/// Which dedicated host the instance runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPlacement {
    /// `AnyAvailable` or `DedicatedHost`.
    pub affinity: Option<String>,
    pub dedicated_host: Option<DedicatedHost>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DedicatedHost {
    /// `UserProvided`, which is the default, or `Dynamic`.
    pub allocation_strategy: Option<String>,
    pub id: String,
    pub dynamic_host_allocation: Option<DynamicHostAllocation>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicHostAllocation {
    pub tags: Option<Vec<Tag>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancer {
    pub name: String,
    /// `classic` or `network`.
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockDevice {
    /// The root device when left out.
    pub device_name: Option<String>,
    pub ebs: Option<Ebs>,
    /// Takes a device of the image away.
    pub no_device: Option<String>,
    /// An instance store volume: `ephemeral0`.
    pub virtual_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ebs {
    /// Volumes always go with their instance; the field is left from older versions.
    pub delete_on_termination: Option<bool>,
    pub encrypted: Option<bool>,
    pub kms_key: ResourceReference,
    pub iops: Option<i64>,
    pub throughput_mib: Option<i32>,
    /// In GiB.
    pub volume_size: Option<i64>,
    pub volume_type: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotMarketOptions {
    /// Dollars per hour; the price on demand when left out.
    pub max_price: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataServiceOptions {
    /// `Required` or `Optional`: whether the instance metadata service asks for a session token.
    pub authentication: String,
}
