//! The nodes of `up`: a Node object each, and the real daemon on a folder.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use daemon::run::{Ended, Options};
use host::directory::Directory;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Makes the Node objects that are not there yet, all Ready, and returns their names.
pub(super) async fn create(client: &Client, control_plane: u16, workers: u16) -> anyhow::Result<Vec<String>> {
    let named = |role: &'static str, count: u16| (1..=count).map(move |number| (format!("{role}-{number}"), role));
    let api: Api<Node> = Api::all(client.clone());
    let mut names = Vec::new();
    for (name, role) in named("control-plane", control_plane).chain(named("worker", workers)) {
        let node: Node = serde_json::from_value(node_of(&name, role)).context("our own manifest is not valid")?;
        match api.create(&PostParams::default(), &node).await {
            Err(error) if cluster::problem(&error) != cluster::Problem::Conflict => {
                return Err(error).with_context(|| format!("cannot create node {name}"));
            }
            _ => {}
        }
        let status = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "this node is simulated"},
        ]}});
        let ready = api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await;
        ready.with_context(|| format!("cannot write the status of node {name}"))?;
        names.push(name);
    }
    Ok(names)
}

fn node_of(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            format!("node-role.kubernetes.io/{role}"): "",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
        }},
    })
}

/// Runs one node's daemon until it is told to stop; a simulated reboot starts it anew.
pub(super) async fn run(
    client: Client,
    name: String,
    root: PathBuf,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    let options = Options {
        node: name.clone(),
        watched_root: Some(root.clone()),
        metrics: daemon::metrics::Metrics::default(),
        witness: None,
        kubelet: String::new(),
    };
    loop {
        let host = Directory::open(&root).with_context(|| format!("cannot open {}", root.display()))?;
        let running = daemon::run::run(Arc::new(host), client.clone(), options.clone(), stopped.clone());
        let ended = running.await.with_context(|| format!("the daemon of {name} failed"))?;
        match ended {
            Ended::Terminated => return Ok(()),
            Ended::Rebooting => tracing::info!(node = name, "simulated reboot"),
        }
    }
}
