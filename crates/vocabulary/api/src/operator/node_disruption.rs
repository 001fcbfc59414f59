//! Actions on a node after a change of a file, a unit or the SSH keys.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Actions after a change of the file at `path` or below it.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyFile {
    pub path: String,
    #[schemars(schema_with = "actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// Actions after a change of a unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyUnit {
    #[schemars(length(max = 255))]
    #[x_kube(validation = unit_suffix(), validation = unit_name())]
    pub name: String,
    #[schemars(schema_with = "actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// Actions after a change of the admin user's SSH keys.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicySshKey {
    #[schemars(schema_with = "actions")]
    pub actions: Vec<NodeDisruptionPolicyAction>,
}

/// One action. `Reload` and `Restart` name a service.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Reload' ? has(self.reload) : !has(self.reload)")
    .message("reload is required when type is Reload, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Restart' ? has(self.restart) : !has(self.restart)")
    .message("restart is required when type is Restart, and forbidden otherwise"))]
pub struct NodeDisruptionPolicyAction {
    /// `Reboot`, `Drain`, `Reload`, `Restart`, `DaemonReload` or `None`; in a status also `Special`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"]))]
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

fn actions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": NodeDisruptionPolicyAction::json_schema(generator),
        "maxItems": 10,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": [
            {
                "rule": "self.exists(x, x.type=='Reboot') ? size(self) == 1 : true",
                "message": "Reboot action can only be specified standalone, as it will override any other actions",
            },
            {
                "rule": "self.exists(x, x.type=='None') ? size(self) == 1 : true",
                "message": "None action can only be specified standalone, as it will override any other actions",
            },
        ],
    })
}

/// The policies in force. They include the defaults beside the user's own, so the lists may be longer, and they may
/// contain one action that users cannot configure.
pub(super) fn status_policies(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = NodeDisruptionPolicyConfig::json_schema(generator);
    schema.remove("description");
    for list in ["/properties/files", "/properties/units"] {
        if let Some(list) = schema.pointer_mut(list).and_then(Value::as_object_mut) {
            list.insert("maxItems".to_owned(), 100.into());
        }
    }
    for owner in ["/properties/files/items", "/properties/units/items", "/properties/sshkey"] {
        let action = format!("{owner}/properties/actions/items/properties/type/enum");
        if let Some(names) = schema.pointer_mut(&action).and_then(Value::as_array_mut) {
            names.push("Special".into());
        }
    }
    schema
}

fn unit_suffix() -> Rule {
    Rule::new(
        r"self.matches('\\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$')",
    )
    .message(
        r#"Invalid ${SERVICETYPE} in service name. Expected format is ${NAME}${SERVICETYPE}, where ${SERVICETYPE} must be one of ".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer",".snapshot", ".slice" or ".scope"."#,
    )
}

fn unit_name() -> Rule {
    Rule::new(r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')").message(
        r#"Invalid ${NAME} in service name. Expected format is ${NAME}${SERVICETYPE}, where {NAME} must be atleast 1 character long and can only consist of alphabets, digits, ":", "-", "_", ".", and "\""#,
    )
}
