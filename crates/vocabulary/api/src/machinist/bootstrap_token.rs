//! `BootstrapToken`: which clients may request a pool's config from the config server, until when, and how often.
//!
//! Only the SHA-256 of the token is stored, so read access to these objects does not give access to a config.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A credential for new machines of one pool.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "BootstrapToken",
    plural = "bootstraptokens",
    category = "machinist",
    status = "BootstrapTokenStatus",
    doc = "A credential with which new machines of one pool ask the config server for their config.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.pool"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".spec.machine", priority = 1),
    printcolumn(name = "Uses", type_ = "integer", json_path = ".status.uses"),
    printcolumn(name = "MaxUses", type_ = "integer", json_path = ".spec.maxUses"),
    // A column of type `date` shows the age of past times, and future times as invalid.
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expires"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapTokenSpec {
    /// The pool whose config the token gives access to.
    #[schemars(length(min = 1, max = 253))]
    pub pool: String,
    /// SHA-256 of the token, in lower-case hexadecimal.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The one machine it was made for: the name of its Machine, or of the node that it becomes where it has no Machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The uid of that Machine. With it, the token ends with the Machine; without it, when a node of that name exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_uid: Option<String>,
    /// When it stops working. Absent, it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// Maximum number of uses. Unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_uses: Option<i64>,
}

/// Usage of a token.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapTokenStatus {
    /// Number of configs that were served for it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub uses: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Time>,
    /// Address of the last client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_address: Option<String>,
}
