//! One node that is being drained.

use std::collections::BTreeSet;

use cluster::Queue;
use cluster::pods::NodePods;
use drain::Condition;
use kube::Client;
use rollout::NodeFacts;

pub(super) struct Active {
    pub(super) pods: NodePods,
    /// The version of the Node that was known before the pods were listed.
    pub(super) listed_for: String,
    /// What was already told to people, so that each look does not tell it again.
    pub(super) said: BTreeSet<String>,
    /// What blocked it at the last look.
    pub(super) blocked: Option<String>,
    /// It waits for a place in its pool's ledger.
    pub(super) is_withheld: bool,
    /// Conditions as last written.
    pub(super) conditions: Vec<Condition>,
}

impl Active {
    /// Watches the pods of `node`; each change brings the node back to the queue.
    pub(super) fn start(client: &Client, node: &NodeFacts, queue: &Queue<String>) -> Self {
        Self {
            pods: NodePods::watch(client, &node.name, node.name.clone(), queue),
            listed_for: node.resource_version.text.clone(),
            said: BTreeSet::new(),
            blocked: None,
            is_withheld: false,
            conditions: Vec::new(),
        }
    }
    /// Lists the pods of `node` again and watches them from there. The list brings the node back to the queue.
    pub(super) fn list_again(&mut self, client: &Client, node: &NodeFacts, queue: &Queue<String>) {
        self.pods = NodePods::watch(client, &node.name, node.name.clone(), queue);
        self.listed_for.clone_from(&node.resource_version.text);
    }
}
