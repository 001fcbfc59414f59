//! `Node`: settings of all nodes. Not to be confused with the core Node, which is a single node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of all nodes.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Node",
    plural = "nodes",
    doc = "Settings of all nodes. One object, named cluster.",
    status = "NodeStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// Version of the kernel's control groups: `v2`, which is what absent and empty mean too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["v2", ""]))]
    pub cgroup_mode: Option<String>,
    /// How often workers report, and how fast the cluster reacts when one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"]))]
    pub worker_latency_profile: Option<String>,
}

/// Result of applying the settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
