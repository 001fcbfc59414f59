//! What happens on a node when a file, a unit or the SSH keys change.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The user's policies. What none of them names follows the defaults, and finally a reboot.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyConfig {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub files: Vec<NodeDisruptionPolicyFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub units: Vec<NodeDisruptionPolicyUnit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sshkey: Option<NodeDisruptionPolicySshKey>,
}

/// What happens when the file at `path`, or a file below it, changes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyFile {
    pub path: String,
    #[schemars(schema_with = "spec_actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// What happens when a unit changes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyUnit {
    #[schemars(length(max = 255))]
    #[x_kube(validation = unit_suffix(), validation = unit_name())]
    pub name: String,
    #[schemars(schema_with = "spec_actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// What happens when the admin user's SSH keys change.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicySshKey {
    #[schemars(schema_with = "spec_actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// One action. `Reload` and `Restart` name a service; in a status, `Special` may appear too.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyAction {
    /// `Reboot`, `Drain`, `Reload`, `Restart`, `DaemonReload`, `None`, and in a status `Special`.
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ServiceReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<ServiceReference>,
}

/// Names a systemd unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReference {
    #[schemars(length(max = 255))]
    #[x_kube(validation = unit_suffix(), validation = unit_name())]
    pub service_name: String,
}

fn spec_actions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<NodeDisruptionPolicyAction>(),
    })
}

fn unit_suffix() -> Rule {
    Rule::new(
        r"self.matches('\\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$')",
    )
}

fn unit_name() -> Rule {
    Rule::new(r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')")
}
