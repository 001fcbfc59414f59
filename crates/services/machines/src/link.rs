//! Links nodes and Machines: nodeRef on the one side; the annotation, labels and taints on the other.
//!
//! Which Machine a node belongs to and what it gets from it is decided by `machine::link`.

use std::sync::Arc;
use std::time::Duration;

use api::machine::Machine;
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::{Outcome, Problem, Queue, problem};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::Api;
use machine::condition::whole_seconds;
use machine::link::{self, Action, Match, Next, NodePatch, Snapshot, Waiting};
use serde_json::{Value, json};

use crate::context::{Context, UNREAD};
use crate::index::store_key;
use crate::write;

const MANAGER: &str = "machinist-nodelink";

const WORKERS: usize = 32;

/// How often a node looks whether its Machine, which has another node, still keeps that one.
const OTHER_NODE: Duration = Duration::from_secs(15);

pub(crate) struct Links {
    context: Arc<Context>,
    pub(crate) queue: Queue<String>,
}

impl Links {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, queue: Queue::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.run(WORKERS, |node| self.clone().reconcile(node)).await;
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Outcome {
        let world = &self.context.world;
        if let Err(unread) = world.machines_known().and_then(|()| world.nodes_known()) {
            tracing::debug!(node = name, %unread, "the node is not linked");
            return UNREAD;
        }
        let Some(node) = world.node(&name) else {
            self.context.forget::<Node>(&Key::cluster(&name));
            return Outcome::Done;
        };
        let found = self.context.index.lock().machine_of(&node);
        let machine = match &found {
            Match::One(key) => world.machines.get(key),
            Match::None | Match::Several { .. } => None,
        };
        let machine = match (&found, &machine) {
            (Match::Several { by, keys }, _) => Match::Several { by, keys: keys.clone() },
            (_, Some(machine)) => Match::One(&**machine),
            (_, None) => Match::None,
        };
        let linked = match &machine {
            Match::One(machine) => linked_name(machine).and_then(|name| world.node(name)),
            Match::None | Match::Several { .. } => None,
        };
        let snapshot = Snapshot { node: &node, machine, linked: linked.as_ref().map(|record| &***record) };
        let mut plan = link::plan(&snapshot);
        if world.has_older_groups() {
            plan = link::with_older_link(plan, &snapshot);
        }
        let Next::OnChange(waiting) = &plan.next;
        if let Waiting::Ambiguous { .. } = waiting {
            self.context.tell::<Node>(&node, Severity::Warning, "AmbiguousMachine", &waiting.to_string());
        }
        for action in &plan.actions {
            match self.act(&node, action).await {
                Ok(()) => {}
                Err(error) if problem(&error) == Problem::NotFound => return Outcome::Done,
                Err(error) if problem(&error) == Problem::Conflict => return Outcome::Retry,
                Err(error) => {
                    tracing::warn!(node = name, error = &error as &dyn std::error::Error, "cannot link the node");
                    return Outcome::Retry;
                }
            }
        }
        match &plan.next {
            // The other node has a queue entry of its own; when it goes or falls ill, this one hears nothing of it.
            Next::OnChange(Waiting::OtherNode { .. }) => Outcome::Again(OTHER_NODE),
            Next::OnChange(_) => Outcome::Done,
        }
    }

    async fn act(&self, node: &Node, action: &Action) -> Result<(), kube::Error> {
        match action {
            Action::SetNodeRef { machine, node_ref } => self.set_node_ref(&store_key(machine), node_ref).await,
            Action::PatchNode(patch) => {
                let api: Api<Node> = Api::all(self.context.world.client.clone());
                write::merge(&api, MANAGER, node, node_patch(patch)).await?;
                self.context.metrics.wrote("Node");
                Ok(())
            }
        }
    }

    /// Writes these two fields and no other: the rest of the status is the machine controller's.
    async fn set_node_ref(&self, key: &Key, node_ref: &ObjectReference) -> Result<(), kube::Error> {
        let Some(machine) = self.context.world.machines.get(key) else { return Ok(()) };
        let api: Api<Machine> = Api::namespaced(self.context.world.client.clone(), &key.namespace);
        let status = json!({ "nodeRef": node_ref, "lastUpdated": whole_seconds(Timestamp::now()) });
        // A Machine that has changed since may be linked already; written again, `lastUpdated` would move for nothing.
        let metadata = json!({ "uid": machine.metadata.uid, "resourceVersion": machine.metadata.resource_version });
        let patch = json!({ "metadata": metadata, "status": status });
        cluster::write::merge_status(&api, MANAGER, &key.name, &patch).await?;
        self.context.metrics.wrote("Machine");
        Ok(())
    }
}

/// The name of the node that a Machine is linked to.
fn linked_name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref()?.name.as_deref()
}

fn node_patch(patch: &NodePatch) -> Value {
    let NodePatch { labels, annotations, taints } = patch;
    let mut value = json!({ "metadata": { "labels": labels, "annotations": annotations } });
    if let Some(taints) = taints {
        value["spec"] = json!({ "taints": taints });
    }
    value
}
