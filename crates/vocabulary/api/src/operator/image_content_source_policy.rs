//! `ImageContentSourcePolicy`: the older way to configure mirrors, for images that are pulled by digest.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Empty;

/// Mirrors for images that are pulled by digest.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operator.openshift.io",
    version = "v1alpha1",
    kind = "ImageContentSourcePolicy",
    plural = "imagecontentsourcepolicies",
    doc = "Mirrors for images that are pulled by digest. ImageDigestMirrorSet is its successor.",
    status = "Empty",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImageContentSourcePolicySpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repository_digest_mirrors: Vec<RepositoryDigestMirrors>,
}

/// The mirrors of one source.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryDigestMirrors {
    /// Asked in this order, before the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::schema::null_is_empty")]
    pub mirrors: Vec<String>,
    pub source: String,
}
