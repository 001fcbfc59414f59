//! `MachineConfigPool`: nodes that run the same rendered config, and their progress.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::dns1123_subdomain;

/// Selects the pool's fragments and nodes.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    shortname = "mcp",
    doc = "Nodes that run the same rendered config, and their progress.",
    status = "MachineConfigPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Config", type_ = "string", json_path = ".status.configuration.name"),
    printcolumn(name = "Updated", type_ = "string", json_path = r#".status.conditions[?(@.type=="Updated")].status"#),
    printcolumn(
        name = "Updating",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updating")].status"#
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Degraded")].status"#
    ),
    printcolumn(name = "MachineCount", type_ = "number", json_path = ".status.machineCount"),
    printcolumn(name = "ReadyMachineCount", type_ = "number", json_path = ".status.readyMachineCount"),
    printcolumn(name = "UpdatedMachineCount", type_ = "number", json_path = ".status.updatedMachineCount"),
    printcolumn(name = "DegradedMachineCount", type_ = "number", json_path = ".status.degradedMachineCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// Selects this pool's MachineConfigs by label. If missing, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub machine_config_selector: Option<LabelSelector>,
    /// Selects this pool's nodes by label. If missing or empty, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
    /// Older spelling of `nodeSelector`, still accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub machine_selector: Option<LabelSelector>,
    /// Stops targeting of new nodes. Rendering continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Maximum number or percentage of unavailable nodes. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// The desired rendered config and its fragments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<MachineConfigPoolConfiguration>,
    /// Image sets that nodes pull in advance and keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_image_sets: Vec<PinnedImageSetReference>,
    /// OS image stream that the pool follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OSImageStreamReference>,
}

/// A reference to a rendered config together with the fragments it was made of.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct MachineConfigPoolConfiguration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the rendered config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The fragments, in the order in which they were merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::object_references")]
    pub source: Vec<ObjectReference>,
}

/// Names a PinnedImageSet.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetReference {
    #[schemars(length(min = 1, max = 253))]
    #[schemars(regex(
        pattern = r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9]))*$"
    ))]
    pub name: String,
}

/// Names an OS image stream.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OSImageStreamReference {
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = dns1123_subdomain("a RFC 1123 subdomain"))]
    pub name: String,
}

/// Observed state of the pool.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last config that every node of the pool has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<MachineConfigPoolConfiguration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_machine_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_machine_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_machine_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_machine_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<MachineConfigPoolCondition>,
    /// When the certificates that nodes of this pool trust expire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub cert_expirys: Vec<CertExpiry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["poolSynchronizerType"]))]
    pub pool_synchronizers_status: Vec<PoolSynchronizerStatus>,
    /// OS image stream in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OSImageStreamReference>,
}

/// A condition of the object.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolCondition {
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// When one certificate expires.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertExpiry {
    pub bundle: String,
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub expiry: Option<Time>,
}

/// Progress of one synchronizer with the nodes of the pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.machineCount >= self.updatedMachineCount")
    .message("machineCount must be greater than or equal to updatedMachineCount"))]
#[x_kube(validation = Rule::new("self.machineCount >= self.availableMachineCount")
    .message("machineCount must be greater than or equal to availableMachineCount"))]
#[x_kube(validation = Rule::new("self.machineCount >= self.unavailableMachineCount")
    .message("machineCount must be greater than or equal to unavailableMachineCount"))]
#[x_kube(validation = Rule::new("self.machineCount >= self.readyMachineCount")
    .message("machineCount must be greater than or equal to readyMachineCount"))]
#[x_kube(validation = Rule::new("self.availableMachineCount >= self.readyMachineCount")
    .message("availableMachineCount must be greater than or equal to readyMachineCount"))]
pub struct PoolSynchronizerStatus {
    /// `PinnedImageSets`.
    #[schemars(length(max = 256), extend("enum" = ["PinnedImageSets"]))]
    pub pool_synchronizer_type: String,
    #[schemars(range(min = 0))]
    pub machine_count: i64,
    #[schemars(range(min = 0))]
    pub updated_machine_count: i64,
    #[schemars(range(min = 0))]
    pub ready_machine_count: i64,
    #[schemars(range(min = 0))]
    pub available_machine_count: i64,
    #[schemars(range(min = 0))]
    pub unavailable_machine_count: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    #[x_kube(validation = Rule::new("self >= oldSelf || (self == 0 && oldSelf > 0)")
        .message("observedGeneration must not move backwards except to zero"))]
    pub observed_generation: Option<i64>,
}
