//! `KeptConfig`: a MachineConfig of another controller as it was when a cluster was taken over. It has the name of the MachineConfig.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machineconfiguration::MachineConfigSpec;

/// What a MachineConfig is put back to when somebody edits it.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "KeptConfig",
    plural = "keptconfigs",
    category = "machinist",
    doc = "A MachineConfig of another controller as it was when this cluster was taken over. Named after the MachineConfig.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct KeptConfigSpec {
    /// The uid of the MachineConfig. Another object of the same name is remembered anew.
    pub uid: String,
    /// Version of the controller that generated it. What another version generates is remembered anew.
    pub version: String,
    /// What the MachineConfig says.
    pub original: MachineConfigSpec,
}
