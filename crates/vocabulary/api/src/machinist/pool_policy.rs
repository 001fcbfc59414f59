//! `PoolPolicy`: settings of a pool for which upstream has no field. It has the name of the pool.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How changes reach the nodes of one pool. Everything is optional; absent settings have the defaults named here.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "PoolPolicy",
    plural = "poolpolicies",
    category = "machinist",
    doc = "Settings of a pool for which upstream has no field. Named after the pool.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Settle", type_ = "string", json_path = ".spec.settle"),
    printcolumn(name = "Drift", type_ = "string", json_path = ".spec.drift"),
    printcolumn(name = "TrialDeadline", type_ = "string", json_path = ".spec.trial.deadline"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PoolPolicySpec {
    /// How long a pool's target must stay the same before a node gets it, such as `5s`. `5s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub settle: Option<String>,
    /// What a node does about files that no longer are what its config says. `Report` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// How a node decides whether a new config works. Absent, changes that reboot the node or touch its kubelet, runtime or
    /// network are on trial with the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialPolicy>,
    /// Allowed sources of file content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourcePolicy>,
    /// Access to this pool's config on the config server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_server: Option<ConfigServerPolicy>,
}

/// What a node does about drift.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftPolicy {
    /// The node becomes Degraded and names the file.
    #[default]
    Report,
    /// The node writes the file again and tells so in an event.
    Repair,
}

/// How a node decides whether a new config works.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialPolicy {
    /// How long the node has to pass all checks after a change, such as `10m`. `10m` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub deadline: Option<String>,
    /// Checks beyond the built-in ones (units of the config, kubelet health, API and witness).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub checks: Vec<TrialCheck>,
}

/// One check on the node: a unit that must be active, or an address that must accept connections.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.unit), has(self.tcp), has(self.http)].filter(x, x).size() == 1")
    .message("a check has exactly one of unit, tcp and http"))]
pub struct TrialCheck {
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// A systemd unit that must be active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub unit: Option<String>,
    /// `host:port` that must accept a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub tcp: Option<String>,
    /// A URL that must answer with a status below 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[schemars(regex(pattern = r"^https?://"))]
    pub http: Option<String>,
}

/// Allowed sources of file content.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourcePolicy {
    /// Allows content to be fetched from another host while rendering. `true` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_remote: Option<bool>,
    /// Allows remote content over plain HTTP. `false` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_insecure: Option<bool>,
}

/// To whom the config server gives a pool's config.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigServerPolicy {
    /// Serves without a credential, as upstream does. `false` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
}
