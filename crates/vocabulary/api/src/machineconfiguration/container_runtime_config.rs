//! `ContainerRuntimeConfig`: settings of the container runtime for some pools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MachineConfigPoolCondition;

/// Settings of the container runtime for the selected pools.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ContainerRuntimeConfig",
    plural = "containerruntimeconfigs",
    shortname = "ctrcfg",
    doc = "Settings of the container runtime for some pools.",
    status = "ContainerRuntimeConfigStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigSpec {
    pub container_runtime_config: ContainerRuntimeConfiguration,
    /// Selects pools by label. If missing or empty, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// The settings themselves.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfiguration {
    /// Read-only stores of artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))")
    .message("additionalArtifactStores must not contain duplicate paths"))]
    pub additional_artifact_stores: Vec<AdditionalStore>,
    /// Read-only stores of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))")
    .message("additionalImageStores must not contain duplicate paths"))]
    pub additional_image_stores: Vec<AdditionalStore>,
    /// Stores that provide layers on demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))")
    .message("additionalLayerStores must not contain duplicate paths"))]
    pub additional_layer_stores: Vec<AdditionalStore>,
    /// `crun` or `runc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["crun", "runc"]))]
    pub default_runtime: Option<String>,
    /// Verbosity of the runtime's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// How large a container's log may become: a quantity, as a text or a number of any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub log_size_max: Option<Value>,
    /// How large a container's writable layer may become: a quantity, as a text or a number of any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub overlay_size: Option<Value>,
    /// Maximum number of processes in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<i64>,
}

/// A directory on the host that the runtime reads as well.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalStore {
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^/[a-zA-Z0-9/._-]+$')").message(
        "path must be absolute and contain only alphanumeric characters, '/', '.', '_', and '-'"))]
    #[x_kube(validation = Rule::new("!self.contains('//')").message("path must not contain consecutive forward slashes"))]
    pub path: String,
}

/// Result of applying the settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<MachineConfigPoolCondition>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
