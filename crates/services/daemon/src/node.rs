//! The daemon's own Node in the cluster: what it asks for, and what is reported there.
//!
//! Only annotations matter, so only metadata is read and watched. Reports are server-side applied with the Node's uid: a Node
//! that was deleted is never made again by a report.

use std::collections::BTreeMap;

use api::annotations;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::{self, watcher};
use serde_json::json;

pub use ::node::{Report, View};

/// The field manager of everything the daemon writes.
pub const MANAGER: &str = "machinist-daemon";

#[derive(Clone)]
pub struct Node {
    api: Api<PartialObjectMeta<NodeObject>>,
    name: String,
}

impl Node {
    pub fn new(client: Client, name: &str) -> Self {
        Self { api: Api::all(client), name: name.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes of this one Node, as metadata.
    pub fn watch(
        &self,
    ) -> impl futures::Stream<Item = Result<watcher::Event<PartialObjectMeta<NodeObject>>, watcher::Error>> + Send + use<>
    {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        watcher(self.api.clone(), config)
    }

    /// Asks the API for the Node. A Node that is gone is an answer too.
    pub async fn is_there(&self) -> Result<bool, kube::Error> {
        Ok(self.api.get_opt(&self.name).await?.is_some())
    }

    /// Tells a new Node what its machine was made with. Another manager than the report's: a report must not take it away.
    pub async fn introduce(&self, annotations: &BTreeMap<&str, &str>) -> Result<(), kube::Error> {
        let patch = json!({ "metadata": { "annotations": annotations } });
        let parameters = PatchParams { field_manager: Some(format!("{MANAGER}-birth")), ..PatchParams::default() };
        self.api.patch(&self.name, &parameters, &Patch::Merge(&patch)).await.map(drop)
    }

    /// Takes the administrator's force off: it is for one update, as the force file is.
    pub async fn clear_force(&self) -> Result<(), kube::Error> {
        let patch = json!({ "metadata": { "annotations": { annotations::FORCE: null } } });
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
    }

    /// Writes the report and returns the Node as it is then, and its version.
    pub async fn publish(&self, uid: &str, report: &Report) -> Result<(View, u64), kube::Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.name, "uid": uid, "annotations": report.annotations(env!("CARGO_PKG_VERSION")) },
        });
        let parameters = PatchParams::apply(MANAGER).force();
        self.api.patch(&self.name, &parameters, &Patch::Apply(&body)).await.map(|node| (read(&node), version(&node)))
    }
}

pub(crate) fn read(node: &PartialObjectMeta<NodeObject>) -> View {
    View::read(node.metadata.uid.as_deref(), node.metadata.annotations.as_ref())
}

/// Servers count versions up; one that is no number is never older than another.
pub(crate) fn version(node: &PartialObjectMeta<NodeObject>) -> u64 {
    node.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}
