//! `PoolLedger`: the claims on a pool's budget.
//!
//! There is one object per pool, with the same name. Before a controller targets a node, it writes a claim with the
//! resource version it has read as precondition. A leader that was deposed meanwhile gets a conflict, instead of taking
//! a second node down.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The claims on a pool's budget, and what must survive a restart of the controller.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "PoolLedger",
    plural = "poolledgers",
    category = "machinist",
    doc = "Who has taken a share of a pool's budget of unavailable nodes. Named after the pool.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.config"),
    printcolumn(name = "Since", type_ = "date", json_path = ".spec.target.since"),
    printcolumn(name = "Budget", type_ = "integer", json_path = ".spec.budget"),
    printcolumn(name = "Claimed", type_ = "string", json_path = ".spec.claims[*].node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PoolLedgerSpec {
    /// How many nodes might be unavailable when the ledger was last written: `maxUnavailable` as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<i32>,
    /// The last writer of the ledger, for human readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The config the pool wants, and since when it has wanted it without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Nodes that hold a share of the budget, and some that have just given it back. The list is only ever replaced as a whole, so nobody owns a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub claims: Vec<Claim>,
    /// Nodes whose turn comes next, in this order. One of them may be targeted once fewer nodes than the budget are left
    /// among the claims and those before it; the next write makes it a claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub next: Vec<Claim>,
    /// The most members of etcd that were seen among this pool's nodes, or that one of them named. Quorums are counted on no
    /// fewer: a member whose Node is gone is a member until etcd removes it. To be lowered by hand after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_members: Option<i32>,
    /// Configs that no further node gets, because a trial of them was reverted somewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["config"]))]
    pub held: Vec<HeldConfig>,
}

/// A config that a pool wants.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Name of the rendered config.
    pub config: String,
    /// Generation of the pool that wants it. A controller that has seen only older generations leaves the pool alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Identity of that pool, so that a new pool of the same name is not held to the old one's generations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_uid: Option<String>,
    /// Since when it is wanted without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub since: Option<Time>,
}

/// One node's share of the budget.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub node: String,
    /// Identity of the node object, so that a new machine of the same name holds no old claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Name of the rendered config that the node was or will be targeted with; without one, it is `target.config`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Resource version of the Node that the targeting patch carries. A node that has moved on since then can no
    /// longer be targeted on the strength of this claim, however late the write arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_resource_version: Option<String>,
    /// What kept the node busy when it was claimed: a config that it was asked for and had not reached, or the claimed
    /// one itself where the node ran it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub since: Option<Time>,
}

/// A config that is not rolled out to further nodes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldConfig {
    /// Name of the rendered config.
    pub config: String,
    /// The node whose trial was reverted.
    pub node: String,
    /// The failure, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub since: Option<Time>,
}
