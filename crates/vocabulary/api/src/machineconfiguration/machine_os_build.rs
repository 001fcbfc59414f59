//! `MachineOSBuild`: one build of an OS image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::BuildObjectReference;
use crate::rules::{dns1123_subdomain, image_digest, image_name, image_push_spec};

/// One build of a pool's OS image. It never changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSBuild",
    plural = "machineosbuilds",
    doc = "One build of a pool's OS image.",
    status = "MachineOSBuildStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Prepared",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Prepared")].status"#
    ),
    printcolumn(
        name = "Building",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Building")].status"#
    ),
    printcolumn(
        name = "Succeeded",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].status"#
    ),
    printcolumn(
        name = "Interrupted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Interrupted")].status"#
    ),
    printcolumn(name = "Failed", type_ = "string", json_path = r#".status.conditions[?(@.type=="Failed")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("machineOSBuildSpec is immutable once set"))]
pub struct MachineOSBuildSpec {
    /// The rendered config that is built in.
    pub machine_config: MachineOSBuildMachineConfigReference,
    /// The configuration of the build.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: MachineOSBuildConfigReference,
    /// Location to which the built image is pushed.
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_push_spec())]
    pub rendered_image_push_spec: String,
}

/// Names a rendered config.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSBuildMachineConfigReference {
    #[schemars(length(min = 10, max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub name: String,
}

/// Names a MachineOSConfig.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineOSBuildConfigReference {
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub name: String,
}

/// Progress of the build.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.buildEnd) ? has(self.buildStart) && timestamp(self.buildStart) < timestamp(self.buildEnd) : true")
    .message("buildEnd must be after buildStart"))]
pub struct MachineOSBuildStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("buildEnd is immutable once set"))]
    pub build_end: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("buildStart is immutable once set"))]
    pub build_start: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<MachineOSBuilderReference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions", length(max = 8))]
    #[x_kube(validation = Rule::new("oldSelf.exists(x, x.type=='Failed' && x.status=='True') ? self==oldSelf : true")
    .message("once a Failed condition is set, conditions are immutable"))]
    #[x_kube(validation = Rule::new("oldSelf.exists(x, x.type=='Interrupted' && x.status=='True') ? self==oldSelf : true")
    .message("once an Interrupted condition is set, conditions are immutable"))]
    #[x_kube(validation = Rule::new("oldSelf.exists(x, x.type=='Succeeded' && x.status=='True') ? self==oldSelf : true")
    .message("once an Succeeded condition is set, conditions are immutable"))]
    pub conditions: Vec<Condition>,
    /// The built image, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest())]
    #[x_kube(validation = image_name())]
    pub digested_image_push_spec: Option<String>,
    /// Objects that were created for the build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "resource"]))]
    pub related_objects: Vec<BuildObjectReference>,
}

/// The object that runs the build.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.imageBuilderType) && self.imageBuilderType == 'Job' ?  has(self.job) : !has(self.job)")
    .message("job is required when imageBuilderType is Job, and forbidden otherwise"))]
pub struct MachineOSBuilderReference {
    pub image_builder_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<BuildObjectReference>,
}
