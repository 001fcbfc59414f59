//! A simulated fleet: any number of nodes that speak the annotation protocol against any API server.
//!
//! One watch serves all nodes, and a node that has nothing to do costs a few hundred bytes, so that one process holds ten
//! thousand. Each step takes a chosen time, and each node can be told to misbehave.

mod faults;
mod node;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Change, Watch};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

pub use faults::Fault;
use node::Seen;

/// On every simulated node: the fleet it belongs to.
pub const LABEL: &str = "machinist.dev/fleet";

pub const MANAGER: &str = "machinist-fleet";

/// Writes at once, by however many nodes: each takes a connection, and the API server is the limit.
const AT_ONCE: usize = 32;

/// How nodes of a fleet behave.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Time from seeing a new target to having it. Zero answers at once, in one write.
    pub update: Duration,
    /// Whether a node asks for a drain first and for its end afterwards.
    pub drains: bool,
}

/// A fleet that is set up or running.
#[derive(Clone)]
pub struct Fleet {
    client: Client,
    name: String,
    behaviour: Behaviour,
    faults: Arc<Mutex<HashMap<String, Fault>>>,
    /// Nodes whose behaviour changed and that have to look again.
    woken: Arc<Woken>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Woken {
    nodes: Mutex<Vec<String>>,
    bell: Notify,
}

impl Fleet {
    pub fn new(client: Client, name: &str, behaviour: Behaviour) -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { client, name: name.to_owned(), behaviour, faults: Arc::default(), woken: Arc::default(), places }
    }

    /// Creates Ready nodes with these role labels, each on `config` already when one is given.
    pub async fn create(&self, names: Vec<String>, roles: &[&str], config: Option<&str>) -> Result<(), kube::Error> {
        let nodes = names.iter().map(|name| self.blank(name, roles, config)).collect();
        self.join(nodes).await.map(drop)
    }

    /// Registers nodes that [`Fleet::blank`] made, and makes them Ready. Returns them as they are stored.
    pub async fn join(&self, nodes: Vec<Node>) -> Result<Vec<Node>, kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let made = stream::iter(nodes).map(|node| {
            let api = api.clone();
            async move {
                let node = api.create(&PostParams::default(), &node).await?;
                let status = json!({ "status": { "conditions": [ready("True")] } });
                api.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Merge(status)).await
            }
        });
        made.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// A node of this fleet with these role labels, on `config` already when one is given.
    pub fn blank(&self, name: &str, roles: &[&str], config: Option<&str>) -> Node {
        let mut labels = BTreeMap::from([(LABEL.to_owned(), self.name.clone())]);
        labels.insert(api::labels::HOSTNAME.to_owned(), name.to_owned());
        for role in roles {
            labels.insert(format!("{}{role}", api::labels::NODE_ROLE_PREFIX), String::new());
        }
        let annotations = config.map(|config| {
            [
                (api::annotations::CURRENT_CONFIG, config),
                (api::annotations::DESIRED_CONFIG, config),
                (api::annotations::STATE, api::names::state::DONE),
                (api::annotations::DAEMON, "fleet"),
                (api::annotations::ANSWERED, ""),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
        });
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), annotations, ..ObjectMeta::default() };
        Node { metadata, ..Node::default() }
    }

    /// Makes one node misbehave from its next step on; `None` lets it behave again.
    pub fn inject(&self, node: &str, fault: Option<Fault>) {
        let mut faults = self.faults.lock();
        match fault {
            Some(fault) => faults.insert(node.to_owned(), fault),
            None => faults.remove(node),
        };
        drop(faults);
        self.woken.nodes.lock().push(node.to_owned());
        self.woken.bell.notify_one();
    }

    /// Plays every node of the fleet for ever.
    pub async fn run(self) {
        let mut watch: Watch<Seen> = Watch::default();
        let mut changes = watch.subscribe();
        let config = watcher::Config::default().labels(&format!("{LABEL}={}", self.name)).any_semantic().page_size(500);
        let api: Api<Node> = Api::all(self.client.clone());
        let store = watch.store();
        let following = watch.run(api, config, |node: Node| Seen::of(&node));
        let playing = async {
            let mut steps: JoinSet<(String, u64)> = JoinSet::new();
            // The version that each node's last step left behind.
            let mut left: HashMap<String, u64> = HashMap::new();
            let mut busy: HashMap<String, bool> = HashMap::new();
            let mut woken: Vec<String> = Vec::new();
            loop {
                let node = if let Some(node) = woken.pop() {
                    node
                } else {
                    tokio::select! {
                        () = self.woken.bell.notified() => {
                            woken.append(&mut self.woken.nodes.lock());
                            continue;
                        }
                        change = changes.recv() => match change {
                            Some(Change { key, new: Some(_), .. }) => key.name,
                            Some(_) => continue,
                            None => return,
                        },
                        Some(done) = steps.join_next(), if !steps.is_empty() => {
                            let Ok((node, version)) = done else { continue };
                            left.insert(node.clone(), version);
                            // Something changed while the step ran: look once more.
                            if busy.remove(&node) != Some(true) {
                                continue;
                            }
                            node
                        }
                    }
                };
                if let Some(again) = busy.get_mut(&node) {
                    *again = true;
                    continue;
                }
                let Some(seen) = store.named(&node) else {
                    left.remove(&node);
                    continue;
                };
                // What this node wrote itself is still on its way here; with it comes the next look.
                if left.get(&node).is_some_and(|left| seen.version < *left) {
                    continue;
                }
                let fault = self.faults.lock().get(&node).copied();
                let Some(step) = node::next(&seen.view, &self.behaviour, fault) else { continue };
                busy.insert(node.clone(), false);
                let (client, places) = (self.client.clone(), self.places.clone());
                steps.spawn(async move {
                    let version = node::perform(client, &places, &node, step).await;
                    (node, version)
                });
            }
        };
        tokio::join!(following, playing);
    }
}

fn ready(status: &str) -> NodeCondition {
    NodeCondition { type_: "Ready".to_owned(), status: status.to_owned(), ..NodeCondition::default() }
}
