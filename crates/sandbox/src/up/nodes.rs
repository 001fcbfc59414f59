//! The nodes of `up`: a Node object each, and the real daemon on a folder, or a fleet that lives in memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{Behaviour, Fleet};
use crate::standins::Machines;
use anyhow::Context;
use api::machineconfiguration::MachineConfigPool;
use daemon::run::{Ended, Options};
use host::directory::Directory;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::told_to_stop;

/// On every node of ours, so that nobody else's is taken for one.
pub(super) const LABEL: &str = crate::fleet::LABEL;
const FLEET: &str = "up";
const SIMULATED: &str = "this node is simulated";

/// The pools, and the role of the nodes in each.
pub(super) const POOLS: [(&str, &str); 2] = [("master", "control-plane"), ("worker", "worker")];

/// How long a simulated machine is down for a reboot.
const REBOOT: Duration = Duration::from_millis(300);
/// How often a machine's switch is looked at.
pub(super) const SWITCH: Duration = Duration::from_millis(300);

/// Where one node lives.
pub(super) struct Place {
    pub(super) name: String,
    /// Another one for each node, from 0 on.
    pub(super) number: u32,
    pub(super) root: PathBuf,
    pub(super) machines: Machines,
}

/// Names and roles of the nodes.
pub(super) fn names(control_plane: u32, workers: u32) -> Vec<(String, &'static str)> {
    let named = |role: &'static str, count: u32| (1..=count).map(move |number| (format!("{role}-{number}"), role));
    named("control-plane", control_plane).chain(named("worker", workers)).collect()
}

/// Makes the Node objects that are not there yet; simulated machines are up at once. Returns them as they are stored.
pub(super) async fn create(client: &Client, nodes: &[Node], are_up: bool) -> anyhow::Result<Vec<Node>> {
    let api: Api<Node> = Api::all(client.clone());
    let mut stored = Vec::new();
    for node in nodes {
        let name = node.name_any();
        let made = match api.create(&PostParams::default(), node).await {
            Err(error) if cluster::problem(&error) == cluster::Problem::Conflict => identify(&api, node).await,
            made => made,
        };
        stored.push(made.with_context(|| format!("cannot create node {name}"))?);
        let message = if are_up { SIMULATED } else { "booting" };
        set_ready(&api, &name, are_up, message, &node_info())
            .await
            .with_context(|| format!("cannot write the status of node {name}"))?;
    }
    Ok(stored)
}

/// The kubelet of a machine that is up registers its Node.
pub(super) async fn register(client: &Client, node: &Node) -> anyhow::Result<()> {
    create(client, std::slice::from_ref(node), true).await.map(drop)
}

/// A node that is there already, with its provider ID and its link to a Machine if it had none.
async fn identify(api: &Api<Node>, wanted: &Node) -> Result<Node, kube::Error> {
    let name = wanted.name_any();
    let node = api.get(&name).await?;
    let has_identity = node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some());
    let Some(id) = wanted.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()).filter(|_| !has_identity) else {
        return Ok(node);
    };
    let patch = json!({"metadata": {"annotations": wanted.annotations()}, "spec": {"providerID": id}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Three zones, so that a rollout has an order to keep: `zone-a` to `zone-c`.
pub(super) fn zone_of(name: &str) -> String {
    let number: usize = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(1);
    format!("zone-{}", ["a", "b", "c"][(number + 2) % 3])
}

/// A Node as its kubelet would register it.
pub(super) fn blank(name: &str, role: &str, zone: &str, provider_id: &str) -> Node {
    let labels = [
        (format!("{}{role}", api::labels::NODE_ROLE_PREFIX), ""),
        (api::labels::HOSTNAME.to_owned(), name),
        ("kubernetes.io/os".to_owned(), "linux"),
        ("topology.kubernetes.io/zone".to_owned(), zone),
        (LABEL.to_owned(), FLEET),
    ];
    let taint = Taint {
        key: api::labels::NODE_ROLE_CONTROL_PLANE.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.labels = Some(labels.map(|(key, value)| (key, value.to_owned())).into());
    node.spec = Some(NodeSpec {
        taints: (role != "worker").then(|| vec![taint]),
        provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
        ..NodeSpec::default()
    });
    node
}

/// The Node of a machine that was served a pool's config.
pub(super) fn of_pool(name: &str, pool: &str, zone: &str, provider_id: &str) -> Node {
    let role = if pool == "master" { "control-plane" } else { "worker" };
    let mut node = blank(name, role, zone, provider_id);
    if !["master", "worker"].contains(&pool) {
        node.labels_mut().insert(format!("{}{pool}", api::labels::NODE_ROLE_PREFIX), String::new());
    }
    node
}

pub(super) async fn set_ready(
    api: &Api<Node>,
    name: &str,
    ready: bool,
    message: &str,
    info: &Value,
) -> Result<(), kube::Error> {
    let now = Timestamp::now().to_string();
    let now = format!("{}Z", now.get(..19).unwrap_or_default());
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
    let status = json!({"status": {"conditions": [
        {"type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now, "lastTransitionTime": now},
    ], "nodeInfo": info}});
    api.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await.map(drop)
}

/// What `kubectl get nodes` prints of a machine; all of it has to be there.
pub(super) fn node_info() -> Value {
    let version = concat!("machinist-", env!("CARGO_PKG_VERSION"));
    json!({
        "kubeletVersion": version, "kubeProxyVersion": "", "containerRuntimeVersion": "simulated://1", "osImage": "simulated",
        "kernelVersion": "simulated", "architecture": "amd64", "operatingSystem": "linux", "bootID": "", "machineID": "", "systemUUID": "",
    })
}

/// The same with the kernel that a machine has booted.
fn booted_info(root: &Path) -> Value {
    let mut info = node_info();
    let kernel = Directory::image_based(root).and_then(|host| host.kernel_type()).unwrap_or_default();
    if !["", "default"].contains(&kernel.as_str()) {
        info["kernelVersion"] = json!(format!("simulated-{kernel}"));
    }
    info
}

/// What every machine has before its first config: an administrator, and a home for their keys.
pub(super) fn furnish(root: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(root.join("home/core"))?;
    std::fs::create_dir_all(root.join("etc"))?;
    // Where whoever stops the simulated kubelet says so.
    std::fs::create_dir_all(root.join("var/lib/machinist"))?;
    // Every system has one; administrators put the daemon's force file there.
    std::fs::create_dir_all(root.join("run"))?;
    for (file, text) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000:administrator:/home/core:/bin/sh\n"),
        ("etc/group", "root:x:0:\ncore:x:1000:\n"),
        ("etc/shadow", "root:*:20000::::::\ncore:*:20000::::::\n"),
    ] {
        let path = root.join(file);
        if !path.exists() {
            std::fs::write(path, text)?;
        }
    }
    Ok(())
}

/// Runs one node's daemon until it is told to stop. A simulated reboot starts it anew; while its switch is off, it is off.
pub(super) async fn run(client: Client, place: Place, stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
    let Place { name, number: _, root, machines } = place;
    furnish(&root).with_context(|| format!("cannot make {}", root.display()))?;
    let options = Options {
        node: name.clone(),
        watched_root: Some(root.clone()),
        metrics: daemon::metrics::Metrics::default(),
        witness: daemon::trial::Witness::Nobody,
        kubelet: String::new(),
        namespace: api::names::NAMESPACE.to_owned(),
        access: daemon::access::Access::default(),
    };
    let nodes: Api<Node> = Api::all(client.clone());
    if !machines.is_switched_off(&name) {
        let _ = set_ready(&nodes, &name, true, SIMULATED, &booted_info(&root)).await;
    }
    while !*stopped.borrow() {
        if machines.is_switched_off(&name) {
            tokio::select! {
                () = tokio::time::sleep(SWITCH) => {}
                () = told_to_stop(stopped.clone()) => {}
            }
            continue;
        }
        let host = Directory::image_based(&root).with_context(|| format!("cannot open {}", root.display()))?;
        let (cut, off) = watch::channel(false);
        let power = cut_power(name.clone(), machines.clone(), stopped.clone(), cut);
        let running = daemon::run::run(Arc::new(host), client.clone(), options.clone(), off)
            .instrument(tracing::info_span!("node", %name));
        let ended = tokio::select! {
            ended = running => ended,
            () = power => continue,
        };
        match ended.with_context(|| format!("the daemon of {name} failed"))? {
            Ended::Terminated | Ended::Reconnect => {}
            Ended::Rebooting => {
                tracing::info!(node = name, "simulated reboot");
                machines.set_rebooting(&name, true);
                let _ = set_ready(&nodes, &name, false, "a simulated reboot", &node_info()).await;
                tokio::time::sleep(REBOOT).await;
                machines.set_rebooting(&name, false);
                let _ = set_ready(&nodes, &name, true, SIMULATED, &booted_info(&root)).await;
            }
        }
    }
    Ok(())
}

/// Tells the daemon to end with the fleet; returns, as a power cut, when the machine is switched off or the daemon's pod was
/// made anew.
async fn cut_power(name: String, machines: Machines, stopped: watch::Receiver<bool>, cut: watch::Sender<bool>) {
    let restarts = machines.restarts_of(&name);
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWITCH) => {
                if machines.is_switched_off(&name) || machines.restarts_of(&name) != restarts {
                    return;
                }
            }
            () = told_to_stop(stopped.clone()) => {
                let _ = cut.send(true);
                // The daemon ends by itself now.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Plays every node in memory. Those that are not there yet are made by `dress`, each on its pool's config already, and
/// returned as they are stored.
pub(super) async fn play(
    fleet: &Fleet,
    client: &Client,
    names: &[(String, &'static str)],
    dress: impl Fn(Node, &str) -> Node,
) -> anyhow::Result<Vec<Node>> {
    let mut stored = Vec::new();
    for (pool, role) in POOLS {
        let config = target_of(client, pool).await?;
        let selector = ListParams::default().labels(&format!("{}{role}", api::labels::NODE_ROLE_PREFIX));
        let known = Api::<Node>::all(client.clone()).list(&selector).await.context("cannot list nodes")?.items;
        let is_known: BTreeSet<String> = known.iter().map(ResourceExt::name_any).collect();
        let new = names.iter().filter(|(name, own)| *own == role && !is_known.contains(name));
        let new = new.map(|(name, role)| dress(fleet.blank(name, &[role], Some(&config)), role)).collect();
        stored.extend(known);
        stored.extend(fleet.join(new).await.context("cannot create nodes")?);
    }
    Ok(stored)
}

/// Waits for the first rendered config of a pool.
pub(super) async fn target_of(client: &Client, pool: &str) -> anyhow::Result<String> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let there = |pool: Option<&MachineConfigPool>| target(pool).is_some();
    let pool = await_condition(pools, pool, there).await.context("cannot watch the pools")?;
    target(pool.as_ref()).context("the pool was rendered, and its config is gone")
}

/// The fleet of nodes that live in memory.
pub(super) fn fleet(client: &Client) -> Fleet {
    let behaviour = Behaviour { update: Duration::from_millis(500), drains: true };
    Fleet::new(client.clone(), FLEET, behaviour)
}

fn target(pool: Option<&MachineConfigPool>) -> Option<String> {
    pool?.spec.configuration.as_ref()?.name.clone()
}
