//! `MachineOSConfig`: how the OS image of a pool is built.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BuildObjectReference, ObjectNameReference};
use crate::rules::{image_digest, image_name, image_push_spec};

/// Build settings of a pool's OS image.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSConfig",
    plural = "machineosconfigs",
    doc = "Build settings of a pool's OS image.",
    status = "MachineOSConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name == self.spec.machineConfigPool.name || oldSelf.hasValue() && oldSelf.spec.machineConfigPool.name.value() == self.spec.machineConfigPool.name")
    .message("MachineOSConfig name must match the referenced MachineConfigPool name; can only have one MachineOSConfig per MachineConfigPool").optional_old_self(true)
)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSConfigSpec {
    /// Secret for pulling the base image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image_pull_secret: Option<ObjectNameReference>,
    /// Additional build instructions by the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["containerfileArch"], "minItems" = 0))]
    pub container_file: Vec<MachineOSContainerfile>,
    /// The builder of the image.
    pub image_builder: MachineOSImageBuilder,
    /// The pool, of the same name as this object.
    pub machine_config_pool: ObjectNameReference,
    /// Secret for pushing the built image.
    pub rendered_image_push_secret: ObjectNameReference,
    /// Location to which the built image is pushed.
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_push_spec())]
    pub rendered_image_push_spec: String,
}

/// Build instructions for one architecture.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSContainerfile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ARM64", "AMD64", "PPC64LE", "S390X", "NoArch"], "default" = "NoArch"))]
    pub containerfile_arch: Option<String>,
    #[schemars(length(max = 4096))]
    pub content: String,
}

/// The builder of the image.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSImageBuilder {
    /// `Job`.
    #[schemars(extend("enum" = ["Job"]))]
    pub image_builder_type: String,
}

/// The newest image of the pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSConfigStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest())]
    #[x_kube(validation = image_name())]
    pub current_image_pull_spec: Option<String>,
    #[serde(default, rename = "machineOSBuild", skip_serializing_if = "Option::is_none")]
    pub machine_os_build: Option<BuildObjectReference>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("observedGeneration must not move backwards"))]
    pub observed_generation: Option<i64>,
}
