//! Platforms that the cluster knows only by name.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A platform that the cluster knows only by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalPlatformSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Unknown"))]
    #[x_kube(validation = Rule::new("oldSelf == 'Unknown' || self == oldSelf")
    .message("platform name cannot be changed once set"))]
    pub platform_name: Option<String>,
}

/// A platform that the cluster knows only by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.cloudControllerManager) == has(oldSelf.cloudControllerManager)")
    .message("cloudControllerManager may not be added or removed once set"))]
pub struct ExternalPlatformStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_controller_manager: Option<CloudControllerManagerStatus>,
}

/// Whether a cloud controller manager sets nodes up.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(r#"(has(self.state) == has(oldSelf.state)) || (!has(oldSelf.state) && self.state != "External")"#)
    .message("state may not be added or removed once set"))]
pub struct CloudControllerManagerStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "External", "None"]))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("state is immutable once set"))]
    pub state: Option<String>,
}
