//! Keeps account of which nodes were away and when, from a watch that misses nothing.
//!
//! A node is away while no new pod may come to it or its kubelet is not ready. A reboot takes less time than it takes the
//! cluster to call a node NotReady, so it is known by the boot's own id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt as _};
use testkit::real_cluster::is_ready;
use tokio::task::JoinHandle;

/// The account of a rollout; it ends when dropped.
pub(super) struct Account {
    seen: Arc<Mutex<Seen>>,
    watching: JoinHandle<()>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    away: BTreeMap<String, Instant>,
    boots: BTreeMap<String, String>,
    /// The largest set of nodes that were away together.
    pub(super) most_away: BTreeSet<String>,
    /// Nodes in the order in which they went away, each with the time until it was back.
    pub(super) absences: Vec<(String, Duration)>,
    /// Nodes that were away when they booted anew, in this order.
    pub(super) rebooted: Vec<String>,
    /// Nodes that booted anew while pods could still come to them.
    pub(super) rebooted_while_open: Vec<String>,
}

impl Account {
    /// Begins to watch; returns when the present state of every node is known.
    pub(super) async fn open(client: &Client) -> Self {
        let nodes: Api<Node> = Api::all(client.clone());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let notes = Arc::clone(&seen);
        let (told, known) = tokio::sync::oneshot::channel();
        let mut told = Some(told);
        let watching = tokio::spawn(async move {
            let mut events = watcher(nodes, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) => {
                        notes.lock().unwrap().take(&node, Instant::now());
                    }
                    Ok(watcher::Event::InitDone) => {
                        let _ = told.take().map(|told| told.send(()));
                    }
                    Ok(watcher::Event::Init | watcher::Event::Delete(_)) | Err(_) => {}
                }
            }
        });
        known.await.expect("the watch begins");
        Self { seen, watching }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Seen {
    fn take(&mut self, node: &Node, now: Instant) {
        let name = node.name_any();
        let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        let is_away = is_cordoned || !is_ready(node);
        let boot = node.status.as_ref().and_then(|status| Some(status.node_info.as_ref()?.boot_id.clone()));
        let boot = boot.unwrap_or_default();
        let last = self.boots.insert(name.clone(), boot.clone());
        if last.is_some_and(|last| last != boot) {
            if is_away { &mut self.rebooted } else { &mut self.rebooted_while_open }.push(name.clone());
        }
        if is_away {
            self.away.entry(name).or_insert(now);
        } else if let Some(since) = self.away.remove(&name) {
            self.absences.push((name, now - since));
        }
        if self.away.len() > self.most_away.len() {
            self.most_away = self.away.keys().cloned().collect();
        }
    }
}
