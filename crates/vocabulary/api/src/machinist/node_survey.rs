//! `NodeSurvey`: what a daemon found in the places it was asked about. It has the name of the node.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of one node.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "NodeSurvey",
    plural = "nodesurveys",
    category = "machinist",
    doc = "What is in some places of a host, as its daemon was asked by machinist adopt. Named after the node; nodes write their own and read none.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Request", type_ = "string", json_path = ".spec.request"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSurveySpec {
    /// The request that this answers.
    #[schemars(length(max = 64))]
    pub request: String,
    /// One entry for each path that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub files: Vec<SurveyedFile>,
}

/// What is at one path.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SurveyedFile {
    #[schemars(length(max = 4096))]
    pub path: String,
    pub found: Found,
    /// The lower twelve bits of its mode; absent without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// `sha256-<hex>` of a file that everybody may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub hash: Option<String>,
    /// The text of the file, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub contents: Option<String>,
    /// Why there is no hash, or no text that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
}

/// What kind of thing is at a path.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Found {
    /// Nothing.
    #[default]
    Nothing,
    /// A file.
    File,
    /// A file that may hold secrets, of which only its mode is told.
    Secret,
    /// A folder, a link, a device; or a place that is not told of.
    Other,
}
