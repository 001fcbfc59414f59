//! The oldest version of `Machine`.

use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::{LastOperation, TemplateMeta};

/// The desired machine.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.k8s.io",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    namespaced,
    doc = "One machine, and the node it became.",
    status = "MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Labels and annotations for the machine's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Taints for the machine's node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::taints")]
    pub taints: Vec<Taint>,
    /// Provider-specific settings of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_spec: Option<ProviderSpec>,
    /// Older spelling of `providerSpec`, still accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderSpec>,
    /// Versions of Kubernetes for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersionInfo>,
    /// Source of the node's kubelet configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub config_source: Option<Value>,
    /// Identity of the instance, equal to the node's.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// What the provider needs to know to make an instance.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// An object of the provider's own kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub value: Option<Value>,
    /// Location of that object if it is not inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ProviderSpecSource>,
}

/// Where a provider's object is.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpecSource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_class: Option<MachineClassReference>,
}

/// Names a MachineClass.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassReference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The provider that the class is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Versions of Kubernetes on a machine.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineVersionInfo {
    /// Version of the kubelet.
    pub kubelet: String,
    /// Version of the control plane, on a machine that runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
}

/// Observed state of the instance and its node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The machine's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_reference")]
    pub node_ref: Option<ObjectReference>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersionInfo>,
    /// Reason for the machine's permanent failure, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// Reason for the machine's permanent failure, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Provider-specific status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub provider_status: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_addresses")]
    pub addresses: Vec<NodeAddress>,
    /// Conditions of the machine's node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_conditions")]
    pub conditions: Vec<NodeCondition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
