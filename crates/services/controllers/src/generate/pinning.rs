//! Tells nodes which PinnedImageSets they shall hold. The rules are in `typed::pinned`.

use api::annotations::PINNED_IMAGE_SETS;
use cluster::error::if_found;
use cluster::write;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use serde_json::json;
use typed::pinned;

use super::{Error, Generate, MANAGER};

impl Generate {
    pub(super) async fn pin(&self, now: Timestamp) -> Result<(), Error> {
        let (notes, plan) = pinned::plan(&self.pinned(now)?);
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        let mut done = Ok(());
        for (name, told) in notes {
            // A node that somebody else moves in the meantime is looked at again when that is seen.
            let patch = json!({"metadata": {"annotations": {PINNED_IMAGE_SETS: told}}});
            let written = if_found(write::merge(&api, MANAGER, &name, &patch).await);
            self.context.metrics.wrote("Node");
            done = done.and(written.map(drop).map_err(|source| Error::TellNode { name, source }));
        }
        done?;
        self.apply(plan).await
    }
}
