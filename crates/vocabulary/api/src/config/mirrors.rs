//! `ImageDigestMirrorSet` and `ImageTagMirrorSet`: mirrors from which images may be pulled.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Empty;

/// Mirrors for images that are pulled by digest.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImageDigestMirrorSet",
    plural = "imagedigestmirrorsets",
    shortname = "idms",
    doc = "Mirrors for images that are pulled by digest.",
    status = "Empty",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestMirrorSetSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_digest_mirrors: Vec<ImageMirrors>,
}

/// Mirrors for images that are pulled by tag.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImageTagMirrorSet",
    plural = "imagetagmirrorsets",
    shortname = "itms",
    doc = "Mirrors for images that are pulled by tag.",
    status = "Empty",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagMirrorSetSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_tag_mirrors: Vec<ImageMirrors>,
}

/// The mirrors of one source.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageMirrors {
    /// Whether the source is asked when no mirror answers: `AllowContactingSource`, or `NeverContactSource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["NeverContactSource", "AllowContactingSource"]))]
    pub mirror_source_policy: Option<String>,
    /// Asked in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::schema::null_is_empty")]
    #[schemars(schema_with = "mirrors")]
    pub mirrors: Vec<String>,
    /// Registry, namespace or repository that images are named by; `*.` before a domain stands for all below it.
    #[schemars(extend("pattern" = SOURCE))]
    pub source: String,
}

const SOURCE: &str = r"^\*(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+$|^((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$";
const MIRROR: &str = r"^((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(?::[0-9]+)?)(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$";

fn mirrors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "string", "pattern": MIRROR },
        "x-kubernetes-list-type": "set",
    })
}
