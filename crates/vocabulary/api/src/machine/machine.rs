//! `Machine`: one machine and its node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAddress, ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The desired machine.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machine.openshift.io",
    version = "v1beta1",
    kind = "Machine",
    plural = "machines",
    namespaced,
    doc = "One machine, and the node it became.",
    status = "MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Type", type_ = "string", json_path = r".metadata.labels['machine\.openshift\.io/instance-type']"),
    printcolumn(name = "Region", type_ = "string", json_path = r".metadata.labels['machine\.openshift\.io/region']"),
    printcolumn(name = "Zone", type_ = "string", json_path = r".metadata.labels['machine\.openshift\.io/zone']"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeRef.name", priority = 1),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID", priority = 1),
    printcolumn(name = "State", type_ = "string", json_path = r".metadata.annotations['machine\.openshift\.io/instance-state']", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Steps of a deletion that wait until their owner removes the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_hooks: Option<LifecycleHooks>,
    /// Labels and annotations for the machine's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Identity of the instance, equal to the node's.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Provider-specific settings of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_spec: Option<ProviderSpec>,
    /// Taints for the machine's node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::taints")]
    pub taints: Vec<Taint>,
    /// Older spelling of `providerSpec`, still accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderSpec>,
}

impl MachineSpec {
    /// The provider's part, under its present or its older name.
    pub fn provider_value(&self) -> Option<&Value> {
        let mut spellings = [&self.provider_spec, &self.provider_config].into_iter().flatten();
        spellings.find_map(|spec| spec.value.as_ref().filter(|value| !value.is_null()))
    }
}

/// Steps of a deletion that wait until their owner removes the hook.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHooks {
    /// Blocks the drain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pre_drain: Vec<LifecycleHook>,
    /// Blocks the removal of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pre_terminate: Vec<LifecycleHook>,
}

/// One hook.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    #[schemars(
        length(min = 3, max = 256),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub name: String,
    /// The component that removes the hook.
    #[schemars(length(min = 3, max = 512))]
    pub owner: String,
}

/// The part of an object's metadata that may be given in advance.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::owner_references")]
    pub owner_references: Vec<OwnerReference>,
}

/// What the provider needs to know to make an instance.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// An object of the provider's own kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub value: Option<Value>,
}

/// Observed state of the instance and its node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_addresses")]
    pub addresses: Vec<NodeAddress>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<MachineCondition>,
    /// Reason for the machine's permanent failure, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Reason for the machine's permanent failure, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
    /// The machine's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_reference")]
    pub node_ref: Option<ObjectReference>,
    /// `Provisioning`, `Provisioned`, `Running`, `Deleting` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Provider-specific status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub provider_status: Option<Value>,
}

/// A condition.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineCondition {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `Error`, `Warning` or `Info`, when the status is `False`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    pub status: String,
    #[serde(rename = "type")]
    pub type_: String,
}

/// The last operation on the machine.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastOperation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}
