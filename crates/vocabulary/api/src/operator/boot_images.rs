//! Boot images: which ones are managed, and how old they may be.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{ocp_version, rhcos_version};

/// Whether boot images may be older than the cluster allows.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode =='Manual') ?  has(self.manual) : !has(self.manual)")
    .message("manual is required when mode is Manual, and forbidden otherwise"))]
pub struct BootImageSkewEnforcement {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ClusterBootImageManual>,
    #[schemars(extend("enum" = ["Manual", "None"]))]
    pub mode: String,
}

/// The boot image that the user says is in use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode =='OCPVersion') ?  has(self.ocpVersion) : !has(self.ocpVersion)")
    .message("ocpVersion is required when mode is OCPVersion, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode =='RHCOSVersion') ?  has(self.rhcosVersion) : !has(self.rhcosVersion)")
    .message("rhcosVersion is required when mode is RHCOSVersion, and forbidden otherwise"))]
pub struct ClusterBootImageManual {
    #[schemars(extend("enum" = ["OCPVersion", "RHCOSVersion"]))]
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 5, max = 10))]
    #[x_kube(validation = ocp_version())]
    pub ocp_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 14, max = 21))]
    #[x_kube(validation = rhcos_version())]
    pub rhcos_version: Option<String>,
}

/// Machine sets whose boot images are updated automatically.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedBootImages {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["resource", "apiGroup"]))]
    pub machine_managers: Vec<MachineManager>,
}

/// One resource whose boot images may be managed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.resource != 'controlplanemachinesets' || self.selection.mode == 'All' || self.selection.mode == 'None'")
    .message("Only All or None selection mode is permitted for ControlPlaneMachineSets"))]
pub struct MachineManager {
    #[schemars(extend("enum" = ["machine.openshift.io"]))]
    pub api_group: String,
    #[schemars(extend("enum" = ["machinesets", "controlplanemachinesets"]))]
    pub resource: String,
    pub selection: MachineManagerSelection,
}

/// Selects objects of the resource.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && self.mode == 'Partial' ?  has(self.partial) : !has(self.partial)")
    .message("Partial is required when type is partial, and forbidden otherwise"))]
pub struct MachineManagerSelection {
    #[schemars(extend("enum" = ["All", "Partial", "None"]))]
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialSelector>,
}

/// Selects some objects by label.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialSelector {
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub machine_resource_selector: LabelSelector,
}

/// Whether boot images may be older than the cluster allows, as it is in force.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode == 'Automatic') ?  has(self.automatic) : !has(self.automatic)")
    .message("automatic is required when mode is Automatic, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode == 'Manual') ?  has(self.manual) : !has(self.manual)")
    .message("manual is required when mode is Manual, and forbidden otherwise"))]
pub struct BootImageSkewEnforcementStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automatic: Option<ClusterBootImageAutomatic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ClusterBootImageManual>,
    #[schemars(extend("enum" = ["Automatic", "Manual", "None"]))]
    pub mode: String,
}

/// The boot image that the cluster found in use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
#[x_kube(validation = Rule::new("has(self.ocpVersion) || has(self.rhcosVersion)")
    .message("at least one of ocpVersion or rhcosVersion is required"))]
pub struct ClusterBootImageAutomatic {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 5, max = 10))]
    #[x_kube(validation = ocp_version())]
    pub ocp_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 14, max = 21))]
    #[x_kube(validation = rhcos_version())]
    pub rhcos_version: Option<String>,
}
