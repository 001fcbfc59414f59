//! `PinnedImageSet`: images that nodes pull in advance and keep.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{image_digest, image_name};

/// Images that nodes pull in advance and keep.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "PinnedImageSet",
    plural = "pinnedimagesets",
    doc = "Images that the nodes of some pools pull in advance and keep.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetSpec {
    /// The images, each by digest.
    #[schemars(length(min = 1, max = 500))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pinned_images: Vec<PinnedImage>,
}

/// One image, by digest.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImage {
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest())]
    #[x_kube(validation = image_name())]
    pub name: String,
}
