//! The machines that the simulated cloud starts with `up --in-memory`: the fleet plays them.
//!
//! Each fetches its config from the config server, as one on a folder does, and joins with what it was served. It has no
//! files.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, NodeSpec};
use kube::{Api, Client};
use memory::{Boot, Start};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::first_boot;
use crate::fleet::Fleet;

#[derive(Clone)]
pub(super) struct Played {
    client: Client,
    fleet: Fleet,
    booting: Arc<Mutex<BTreeMap<String, JoinHandle<()>>>>,
}

impl Played {
    pub(super) fn new(client: Client, fleet: Fleet) -> Self {
        Self { client, fleet, booting: Arc::default() }
    }

    async fn boot(&self, start: Start) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        if nodes.get_metadata_opt(&start.name).await.context("cannot look for its node")?.is_some() {
            return Ok(());
        }
        let served = first_boot::fetch(&start.name, &start.user_data).await?;
        let config = served.node_annotations().remove(api::annotations::CURRENT_CONFIG);
        let role = if served.pool == "master" { "control-plane" } else { served.pool.as_str() };
        let mut node = self.fleet.blank(&start.name, &[role], config.as_deref());
        node.spec = Some(NodeSpec { provider_id: Some(start.provider_id), ..NodeSpec::default() });
        self.fleet.join(vec![node]).await.context("cannot register its node")?;
        Ok(())
    }
}

impl Boot for Played {
    fn start(&self, start: Start) -> BoxFuture<'_, ()> {
        let (played, name) = (self.clone(), start.name.clone());
        let task = tokio::spawn(async move {
            let name = start.name.clone();
            if let Err(error) = played.boot(start).await {
                tracing::error!(machine = name, "the first boot failed: {error:#}");
            }
            played.booting.lock().remove(&name);
        });
        self.booting.lock().insert(name, task);
        Box::pin(std::future::ready(()))
    }

    /// A node that has joined is removed with its Machine, and the fleet stops to play it.
    fn stop<'a>(&'a self, name: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        let task = self.booting.lock().remove(name);
        Box::pin(async move {
            if let Some(task) = task {
                task.abort();
                let _ = task.await;
            }
        })
    }
}
