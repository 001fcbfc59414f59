//! `RenderedProvenance`: the source of each part of a rendered config. It has the name of the rendered config.

use k8s_openapi::ByteString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sources of one rendered config.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "RenderedProvenance",
    plural = "renderedprovenances",
    category = "machinist",
    doc = "Where each part of a rendered config comes from. Named after the rendered config.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.pool"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RenderedProvenanceSpec {
    /// The pool the config was rendered for.
    pub pool: String,
    /// The fragments, in the order in which they were merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fragments: Vec<Fragment>,
    /// One entry for each part of the config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<Entry>,
    /// Parts that fragments of equal rank set differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conflicts: Vec<Conflict>,
    /// Remote content that was fetched, so that it is never fetched again while its fragment is unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pins: Vec<Pin>,
    /// The rendered config, for restoring it after a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Archive>,
}

/// One MachineConfig that was merged.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fragment {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// The fragment that set one part, and those it overrode.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub kind: EntryKind,
    /// The file's path, the unit's name, `<unit>/<drop-in>`, the user whose key it is, the argument, or the field.
    pub name: String,
    /// Name of the fragment whose content is used.
    pub from: String,
    /// Names of the fragments whose content is not used, in merge order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub overrode: Vec<String>,
}

/// The kind of part that an entry describes.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EntryKind {
    /// A file, directory or link, by path.
    #[default]
    Path,
    /// A systemd unit, by name.
    Unit,
    /// A drop-in, as `<unit>/<name>`.
    Dropin,
    /// An SSH key, by user.
    Key,
    /// A user, by name.
    User,
    /// A kernel argument.
    Argument,
    /// An extension, by name.
    Extension,
    /// Any other single field, by its path in the spec.
    Scalar,
}

/// Two fragments of equal rank that disagree.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    pub kind: EntryKind,
    pub name: String,
    /// Names of the fragments, in merge order; the last one's content is used.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fragments: Vec<String>,
    /// The difference, in one sentence.
    pub message: String,
}

/// Remote content as it was fetched.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Name of the fragment that refers to it.
    pub fragment: String,
    /// Generation of the fragment.
    pub generation: i64,
    /// The URL it was fetched from.
    pub source: String,
    /// `sha256-<hex>` of what was fetched.
    pub hash: String,
}

/// A rendered config, compressed.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Archive {
    /// How `data` is made: `gzip` of the MachineConfig's canonical JSON.
    pub encoding: String,
    #[schemars(schema_with = "crate::schema::bytes")]
    pub data: ByteString,
}
