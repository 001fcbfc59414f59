//! The fields of an Azure providerSpec, in all spellings that manifests have.
//!
//! Every value is as the user wrote it. What it may be is said in `validation`, so that a spec with a wrong word still reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::SecretReference;
use serde::{Deserialize, Serialize};

/// `AzureMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AzureSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub user_data_secret: Option<SecretReference>,
    pub credentials_secret: Option<SecretReference>,
    /// The region.
    pub location: String,
    pub vm_size: String,
    pub image: Image,
    pub os_disk: OsDisk,
    pub data_disks: Vec<DataDisk>,
    pub ssh_public_key: String,
    #[serde(rename = "publicIP")]
    pub public_ip: bool,
    pub tags: BTreeMap<String, String>,
    /// A network security group by name.
    pub security_group: String,
    pub application_security_groups: Vec<String>,
    pub subnet: String,
    pub public_load_balancer: String,
    pub internal_load_balancer: String,
    pub nat_rule: Option<i64>,
    /// A user-assigned identity by name or resource id.
    pub managed_identity: String,
    pub vnet: String,
    pub zone: String,
    pub network_resource_group: String,
    pub resource_group: String,
    /// Its presence asks for a spot machine.
    #[serde(rename = "spotVMOptions")]
    pub spot_vm_options: Option<SpotVmOptions>,
    pub security_profile: Option<SecurityProfile>,
    /// `Enabled` or `Disabled`.
    #[serde(rename = "ultraSSDCapability")]
    pub ultra_ssd_capability: String,
    pub accelerated_networking: bool,
    pub availability_set: String,
    pub diagnostics: Diagnostics,
    #[serde(rename = "capacityReservationGroupID")]
    pub capacity_reservation_group_id: String,
}

/// The image, by resource id or as an offer of the marketplace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    pub version: String,
    #[serde(rename = "resourceID")]
    pub resource_id: String,
    /// `ID`, `MarketplaceNoPlan` or `MarketplaceWithPlan`.
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OsDisk {
    pub os_type: String,
    pub managed_disk: OsManagedDisk,
    #[serde(rename = "diskSizeGB")]
    pub disk_size_gb: i32,
    pub disk_settings: DiskSettings,
    /// `None`, `ReadOnly` or `ReadWrite`.
    pub caching_type: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OsManagedDisk {
    pub storage_account_type: String,
    pub disk_encryption_set: Option<DiskEncryptionSet>,
    pub security_profile: DiskSecurityProfile,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskEncryptionSet {
    pub id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSecurityProfile {
    pub disk_encryption_set: DiskEncryptionSet,
    /// `VMGuestStateOnly` or `DiskWithVMGuestState`.
    pub security_encryption_type: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSettings {
    /// `Local` puts the disk on the host, where it ends with the machine.
    pub ephemeral_storage_location: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataDisk {
    /// The disk is called `<machine>_<suffix>`.
    pub name_suffix: String,
    #[serde(rename = "diskSizeGB")]
    pub disk_size_gb: i32,
    pub managed_disk: DataManagedDisk,
    pub lun: i32,
    pub caching_type: String,
    /// `Delete` or `Detach`: what becomes of the disk when its machine goes.
    pub deletion_policy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataManagedDisk {
    pub storage_account_type: String,
    pub disk_encryption_set: Option<DiskEncryptionSet>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotVmOptions {
    /// Dollars per hour; -1 and nothing are the price on demand.
    pub max_price: Option<Quantity>,
}

/// A number as Kubernetes writes amounts: `0.05`, `50m`, `1e-2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity(String);

impl TryFrom<String> for Quantity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if is_quantity(&text) { Ok(Self(text)) } else { Err(format!("{text:?} is no number such as 0.05 or 50m")) }
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.0
    }
}

fn is_quantity(text: &str) -> bool {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let is_number = digits.matches('.').count() <= 1 && digits.bytes().any(|digit| digit.is_ascii_digit());
    let exponent = |suffix: &str| {
        let power = suffix.strip_prefix(['e', 'E']).map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
        power.is_some_and(|power| !power.is_empty() && power.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let units = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    is_number && (units.contains(&suffix) || exponent(suffix))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityProfile {
    pub encryption_at_host: Option<bool>,
    pub settings: SecuritySettings,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecuritySettings {
    /// `ConfidentialVM` or `TrustedLaunch`.
    pub security_type: String,
    #[serde(rename = "confidentialVM")]
    pub confidential_vm: Option<Firmware>,
    pub trusted_launch: Option<Firmware>,
}

/// Settings of the firmware of a confidential or trusted machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Firmware {
    pub uefi_settings: UefiSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UefiSettings {
    /// `Enabled` or `Disabled`.
    pub secure_boot: String,
    /// `Enabled` or `Disabled`.
    pub virtualized_trusted_platform_module: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Diagnostics {
    pub boot: Option<BootDiagnostics>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootDiagnostics {
    /// `AzureManaged` or `CustomerManaged`.
    pub storage_account_type: String,
    pub customer_managed: Option<CustomerManaged>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomerManaged {
    #[serde(rename = "storageAccountURI")]
    pub storage_account_uri: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_quantities() {
        for good in ["0.05", "50m", "-1", "1e-2", ".5", "5.", "1Ki", "+3E2", "2E"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "-", ".", "1.2.3", "cheap", "1 m", "1e", "5kk"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
