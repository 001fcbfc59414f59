//! One node that is being drained.

use std::collections::BTreeSet;

use cluster::Queue;
use cluster::pods::NodePods;
use drain::Condition;
use kube::Client;

pub(super) struct Active {
    pub(super) pods: NodePods,
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
    pub(super) fn start(client: &Client, node: &str, queue: &Queue<String>) -> Self {
        Self {
            pods: NodePods::watch(client, node, node.to_owned(), queue),
            said: BTreeSet::new(),
            blocked: None,
            is_withheld: false,
            conditions: Vec::new(),
        }
    }
}
