//! Watches a fleet during a test and records the maximum number of unavailable nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::annotations;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};

/// Observations of a fleet: how many nodes were down at once at most, and the order in which nodes got their configs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) most_down: usize,
    /// The maximum number of nodes that were changing to another config at once, cordoned or not.
    pub(crate) most_changing: usize,
    /// Nodes in the order in which they got a target, with its name.
    pub(crate) targeted: Vec<(String, String)>,
    down: BTreeMap<String, bool>,
    changing: BTreeMap<String, bool>,
    desired: BTreeMap<String, String>,
}

/// Watches until the test's runtime ends.
pub(crate) fn watch_fleet(nodes: Api<Node>) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let notes = seen.clone();
    tokio::spawn(async move {
        let mut events = watcher(nodes, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(node) | Event::InitApply(node)) => notes.lock().unwrap().take(&node),
                // A node that was removed from the cluster is not down.
                Ok(Event::Delete(node)) => {
                    let mut notes = notes.lock().unwrap();
                    notes.down.remove(&node.name_any());
                    notes.changing.remove(&node.name_any());
                }
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
        }
    });
    seen
}

impl Seen {
    fn take(&mut self, node: &Node) {
        let name = node.name_any();
        let desired = annotation(node, annotations::DESIRED_CONFIG);
        if self.desired.insert(name.clone(), desired.clone()) != Some(desired.clone()) && !desired.is_empty() {
            self.targeted.push((name.clone(), desired));
        }
        self.changing.insert(name.clone(), is_changing(node));
        self.most_changing = self.most_changing.max(self.changing.values().filter(|changing| **changing).count());
        self.down.insert(name, is_down(node));
        self.most_down = self.most_down.max(self.down.values().filter(|down| **down).count());
    }

    /// Resets the maxima, so that a later part of a test is judged alone.
    pub(crate) fn restart(&mut self) {
        self.most_down = 0;
        self.most_changing = 0;
        self.targeted.clear();
    }
}

/// Whether the node has another target than its current config.
fn is_changing(node: &Node) -> bool {
    let desired = annotation(node, annotations::DESIRED_CONFIG);
    !desired.is_empty() && desired != annotation(node, annotations::CURRENT_CONFIG)
}

/// Whether a node that had a config is changing to another one, or is cordoned.
pub(crate) fn is_down(node: &Node) -> bool {
    let current = annotation(node, annotations::CURRENT_CONFIG);
    let changing = !current.is_empty() && current != annotation(node, annotations::DESIRED_CONFIG);
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    changing || cordoned
}

pub(crate) fn annotation(node: &Node, key: &str) -> String {
    node.annotations().get(key).cloned().unwrap_or_default()
}
