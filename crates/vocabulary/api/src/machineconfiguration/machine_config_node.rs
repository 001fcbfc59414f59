//! `MachineConfigNode`: the progress of an update on one node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ObjectNameReference;
use crate::rules::{dns1123_subdomain, image_digest};

/// The node and its desired config.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigNode",
    plural = "machineconfignodes",
    doc = "Progress of an update on one node.",
    status = "MachineConfigNodeStatus",
    derive = "Default",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name == self.spec.node.name")
    .message("spec.node.name should match metadata.name"),
    printcolumn(name = "PoolName", type_ = "string", json_path = ".spec.pool.name"),
    printcolumn(name = "DesiredConfig", type_ = "string", json_path = ".spec.configVersion.desired"),
    printcolumn(name = "CurrentConfig", type_ = "string", json_path = ".status.configVersion.current"),
    printcolumn(name = "Updated", type_ = "string", json_path = r#".status.conditions[?(@.type=="Updated")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "UpdatePrepared", type_ = "string", json_path = r#".status.conditions[?(@.type=="UpdatePrepared")].status"#, priority = 1),
    printcolumn(name = "UpdateExecuted", type_ = "string", json_path = r#".status.conditions[?(@.type=="UpdateExecuted")].status"#, priority = 1),
    printcolumn(name = "UpdatePostActionComplete", type_ = "string", json_path = r#".status.conditions[?(@.type=="UpdatePostActionComplete")].status"#, priority = 1),
    printcolumn(name = "UpdateComplete", type_ = "string", json_path = r#".status.conditions[?(@.type=="UpdateComplete")].status"#, priority = 1),
    printcolumn(name = "Resumed", type_ = "string", json_path = r#".status.conditions[?(@.type=="Resumed")].status"#, priority = 1),
    printcolumn(name = "UpdatedFilesAndOS", type_ = "string", json_path = r#".status.conditions[?(@.type=="AppliedFilesAndOS")].status"#, priority = 1),
    printcolumn(name = "CordonedNode", type_ = "string", json_path = r#".status.conditions[?(@.type=="Cordoned")].status"#, priority = 1),
    printcolumn(name = "DrainedNode", type_ = "string", json_path = r#".status.conditions[?(@.type=="Drained")].status"#, priority = 1),
    printcolumn(name = "RebootedNode", type_ = "string", json_path = r#".status.conditions[?(@.type=="RebootedNode")].status"#, priority = 1),
    printcolumn(name = "UncordonedNode", type_ = "string", json_path = r#".status.conditions[?(@.type=="Uncordoned")].status"#, priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeSpec {
    /// The desired config.
    pub config_version: MachineConfigNodeConfigVersion,
    /// The node, of the same name as this object.
    pub node: ObjectNameReference,
    /// The pool the node belongs to.
    pub pool: ObjectNameReference,
}

/// A config that is wanted.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeConfigVersion {
    /// Name of the rendered config, or `not-yet-set`.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub desired: String,
}

/// Progress of the node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeStatus {
    /// The steps of an update, and whether each has happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions", length(max = 20))]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_version: Option<MachineConfigNodeStatusConfigVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_release_image: Option<MachineConfigNodeInternalReleaseImage>,
    /// Changes that cannot be applied to the running node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["fieldPath"]))]
    pub irreconcilable_changes: Vec<IrreconcilableChange>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("observedGeneration must not decrease"))]
    pub observed_generation: Option<i64>,
    /// Progress of the node with its pinned images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<MachineConfigNodePinnedImageSet>,
}

/// The current and the desired config of the node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeStatusConfigVersion {
    /// Name of the rendered config it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub current: Option<String>,
    /// Name of the desired rendered config, or `not-yet-set`.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub desired: String,
}

/// Release bundles that the node serves.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeInternalReleaseImage {
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub releases: Vec<MachineConfigNodeRelease>,
}

/// One release bundle.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeRelease {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions", length(min = 1, max = 5))]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest())]
    #[x_kube(validation = Rule::new(r"(self.split('@')[0].matches('^(localhost|([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+)(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))")
    .message("the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme; host must be either 'localhost' or a dot-qualified domain name"))]
    pub image: Option<String>,
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new(r"self.matches('^ocp-release-bundle-[0-9]+\\.[0-9]+\\.[0-9]+-[A-Za-z0-9._-]+$')")
    .message("must be ocp-release-bundle-<version>-<arch|stream> and <= 64 chars"))]
    pub name: String,
}

/// A change that cannot be applied to a running node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IrreconcilableChange {
    /// The difference.
    #[schemars(length(min = 1, max = 4096))]
    pub diff: String,
    /// Path of the difference.
    #[schemars(length(min = 1, max = 70))]
    #[x_kube(validation = Rule::new("self.startsWith('spec.')").message("The fieldPath must start with `spec.`"))]
    #[x_kube(validation = Rule::new(r"self.matches('^[\\da-zA-Z\\.\\[\\]]+$')")
    .message("The fieldPath must consist only of alphanumeric characters, brackets [] and dots ('.')."))]
    pub field_path: String,
}

/// Progress of the node with one set of pinned images.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.desiredGeneration) && has(self.currentGeneration) ? self.desiredGeneration >= self.currentGeneration : true")
    .message("desired generation must be greater than or equal to the current generation"))]
#[x_kube(validation = Rule::new("has(self.lastFailedGeneration) && has(self.desiredGeneration) ? self.desiredGeneration >= self.lastFailedGeneration : true")
    .message("desired generation must be greater than or equal to the last failed generation"))]
#[x_kube(validation = Rule::new("has(self.lastFailedGeneration) ? has(self.lastFailedGenerationError) : true")
    .message("last failed generation error must be defined on image pull and pin failure"))]
pub struct MachineConfigNodePinnedImageSet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("currentGeneration must not decrease"))]
    pub current_generation: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("desiredGeneration must not decrease"))]
    pub desired_generation: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("lastFailedGeneration must not decrease"))]
    pub last_failed_generation: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub last_failed_generation_error: Option<String>,
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns1123_subdomain("a lowercase RFC 1123 subdomain"))]
    pub name: String,
}
