//! `MachineConfiguration`: cluster-wide settings of machine configuration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BootImageSkewEnforcement, BootImageSkewEnforcementStatus, ManagedBootImages, NodeDisruptionPolicyConfig};

/// Cluster-wide settings of machine configuration.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operator.openshift.io",
    version = "v1",
    kind = "MachineConfiguration",
    plural = "machineconfigurations",
    doc = "Cluster-wide settings of machine configuration. One object, named cluster.",
    status = "MachineConfigurationStatus",
    derive = "Default",
    derive = "PartialEq",
    validation = Rule::new(r#"self.?status.bootImageSkewEnforcementStatus.mode.orValue("") == 'Automatic' ? self.?spec.managedBootImages.hasValue() || self.?status.managedBootImagesStatus.hasValue() : true"#)
    .message("when skew enforcement is in Automatic mode, a boot image configuration is required"),
    validation = Rule::new(r#"self.?status.bootImageSkewEnforcementStatus.mode.orValue("") == 'Automatic' ? !(self.?spec.managedBootImages.machineManagers.hasValue()) || size(self.spec.managedBootImages.machineManagers) > 0 : true"#)
    .message("when skew enforcement is in Automatic mode, managedBootImages.machineManagers must not be an empty list"),
    validation = Rule::new(r#"self.?status.bootImageSkewEnforcementStatus.mode.orValue("") == 'Automatic' ? !(self.?spec.managedBootImages.machineManagers.hasValue()) || !self.spec.managedBootImages.machineManagers.exists(m, m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io') || self.spec.managedBootImages.machineManagers.exists(m, m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io' && m.selection.mode == 'All') : true"#)
    .message("when skew enforcement is in Automatic mode, any MachineAPI MachineSet MachineManager must use selection mode 'All'"),
    validation = Rule::new(r#"self.?status.bootImageSkewEnforcementStatus.mode.orValue("") == 'Automatic' ? !(self.?status.managedBootImagesStatus.machineManagers.hasValue()) || self.status.managedBootImagesStatus.machineManagers.exists(m, m.selection.mode == 'All' && m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io'): true"#)
    .message("when skew enforcement is in Automatic mode, managedBootImagesStatus must contain a MachineManager opting in all MachineAPI MachineSets")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationSpec {
    /// Whether boot images may be older than the cluster allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement: Option<BootImageSkewEnforcement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_revision_limit: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_redeployment_reason: Option<String>,
    /// Changes that are accepted although a running node cannot take them over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreconcilable_validation_overrides: Option<IrreconcilableValidationOverrides>,
    /// Verbosity of the operator's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "Normal", "Debug", "Trace", "TraceAll"], "default" = "Normal"))]
    pub log_level: Option<String>,
    /// Machine sets whose boot images are updated automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_boot_images: Option<ManagedBootImages>,
    /// `Managed`, `Unmanaged`, `Force` or `Removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(Managed|Unmanaged|Force|Removed)$"))]
    pub management_state: Option<String>,
    /// What happens on a node when a file, a unit or the SSH keys change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy: Option<NodeDisruptionPolicyConfig>,
    /// Settings that the operator found by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    #[schemars(extend("nullable" = true))]
    pub observed_config: Option<Value>,
    /// Verbosity of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "Normal", "Debug", "Trace", "TraceAll"], "default" = "Normal"))]
    pub operator_log_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_revision_limit: Option<i32>,
    /// Settings that override all others, without support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    #[schemars(extend("nullable" = true))]
    pub unsupported_config_overrides: Option<Value>,
}

/// Changes that are accepted although a running node cannot take them over.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct IrreconcilableValidationOverrides {
    /// `Disks`, `FileSystems`, `Raid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::irreconcilable_storage", length(min = 1, max = 3))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub storage: Vec<String>,
}

/// The settings in force.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement_status: Option<BootImageSkewEnforcementStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_boot_images_status: Option<ManagedBootImages>,
    /// The user's policies together with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy_status: Option<NodeDisruptionPolicyStatus>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The policies in force.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::node_disruption::status_policies")]
    pub cluster_policies: Option<NodeDisruptionPolicyConfig>,
}
