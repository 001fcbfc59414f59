//! Decides which Machine a node belongs to, and what each of the two gets from the other.
//!
//! The Machine gets `status.nodeRef`; the node gets the annotation that names its Machine, and the labels, annotations and
//! taints of `spec.metadata` and `spec.taints`. What came from the Machine is remembered on the node, so that it can be taken
//! away again when the Machine no longer has it; what others put there is left alone.

mod copy;
mod index;

use std::collections::BTreeMap;
use std::fmt;

use api::machine::Machine;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Taint};

use crate::set::Readiness;

pub use index::{Identity, Index, Key, Match, node_of};

/// A node, and the Machine that it belongs to.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    pub node: &'a Node,
    pub machine: Match<&'a Machine>,
    /// The node of the name that the Machine's nodeRef has now, if it exists. It may be `node` itself.
    pub linked: Option<&'a Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write nodeRef into the Machine's status, and the time into `lastUpdated`.
    SetNodeRef { machine: Key, node_ref: ObjectReference },
    /// Bring the node to this. Everything else on it stays.
    PatchNode(NodePatch),
}

/// What changes on a node. `None` takes a label or an annotation away.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePatch {
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, Option<String>>,
    /// All taints of the node, if they change.
    pub taints: Option<Vec<Taint>>,
}

/// Nothing here depends on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange(Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    Linked,
    /// No Machine has this node's provider ID or address.
    NoMachine,
    /// Several have.
    Ambiguous {
        node: String,
        by: &'static str,
        machines: Vec<Key>,
    },
    /// The node is going away.
    NodeDeleting,
    /// The Machine is linked to this other node, which is as good.
    OtherNode {
        machine: Key,
        linked: String,
    },
}

/// Whether a node is the one that a nodeRef names. One of the same name that registered anew has another uid, and is another
/// node: it may be another Machine's.
pub fn is_linked(reference: &ObjectReference, node: &Node) -> bool {
    let uid = reference.uid.as_deref().unwrap_or_default();
    reference.name == node.metadata.name && (uid.is_empty() || node.metadata.uid.as_deref() == Some(uid))
}

/// Decides what a node and its Machine get from each other.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let node = snapshot.node;
    let wait = |waiting| Plan { actions: Vec::new(), next: Next::OnChange(waiting) };
    let machine = match &snapshot.machine {
        Match::None => return wait(Waiting::NoMachine),
        Match::Several { by, keys } => {
            let node = node.metadata.name.clone().unwrap_or_default();
            return wait(Waiting::Ambiguous { node, by, machines: keys.clone() });
        }
        Match::One(machine) => machine,
    };
    if node.metadata.deletion_timestamp.is_some() {
        return wait(Waiting::NodeDeleting);
    }
    if let Some(linked) = snapshot.linked.filter(|linked| keeps(machine, linked, node)) {
        let linked = linked.metadata.name.clone().unwrap_or_default();
        return wait(Waiting::OtherNode { machine: Key::of(machine), linked });
    }
    let mut actions = Vec::new();
    let node_ref = ObjectReference {
        kind: Some("Node".to_owned()),
        name: node.metadata.name.clone(),
        uid: node.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    if machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) != Some(&node_ref) {
        actions.push(Action::SetNodeRef { machine: Key::of(machine), node_ref });
    }
    actions.extend(copy::patch(machine, node).map(Action::PatchNode));
    Plan { actions, next: Next::OnChange(Waiting::Linked) }
}

/// Adds the link as it was spelled in 2019, for clusters that have the groups of that time: whoever uses those looks for it.
pub fn with_older_link(mut plan: Plan, snapshot: &Snapshot) -> Plan {
    let Match::One(machine) = &snapshot.machine else { return plan };
    if plan.next != Next::OnChange(Waiting::Linked) {
        return plan;
    }
    let Some((key, link)) = copy::older_link(machine, snapshot.node) else { return plan };
    let patch = plan.actions.iter_mut().find_map(|action| match action {
        Action::PatchNode(patch) => Some(patch),
        Action::SetNodeRef { .. } => None,
    });
    match patch {
        Some(patch) => {
            patch.annotations.insert(key, Some(link));
        }
        None => {
            let annotations = [(key, Some(link))].into();
            plan.actions.push(Action::PatchNode(NodePatch { annotations, ..NodePatch::default() }));
        }
    }
    plan
}

/// Whether a Machine stays with the node that it has, although this one is its node too. A host that changed its name has
/// two Node objects; if each of them took the Machine over whenever it is looked at, the link would never rest.
fn keeps(machine: &Machine, linked: &Node, node: &Node) -> bool {
    let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
    let is_other = linked.metadata.name != node.metadata.name || linked.metadata.uid != node.metadata.uid;
    let is_ready = |node: &Node| Readiness::of_node(node) != Readiness::NotReady;
    is_other
        && reference.is_some_and(|reference| is_linked(reference, linked))
        && belongs(machine, linked)
        && linked.metadata.deletion_timestamp.is_none()
        && (is_ready(linked) || !is_ready(node))
}

/// Whether a node still looks like the Machine's own.
fn belongs(machine: &Machine, node: &Node) -> bool {
    let (machine, node) = (Identity::of(machine), Identity::of_node(node));
    match (&machine.provider_id, &node.provider_id) {
        (Some(one), Some(other)) if one == other => true,
        _ => machine.addresses.iter().any(|address| node.addresses.contains(address)),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked => write!(f, "the node is linked to its machine"),
            Self::NoMachine => write!(f, "no machine has the node's provider ID or address"),
            Self::Ambiguous { node, by, machines } => {
                let names: Vec<_> = machines.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "failed to find machine from node {node:?} by {by}: expected 1 machine, got {} ({})",
                    machines.len(),
                    names.join(", ")
                )
            }
            Self::NodeDeleting => write!(f, "the node is being deleted"),
            Self::OtherNode { machine, linked } => {
                write!(f, "machine {machine} is linked to node {linked}, which is the same machine's too")
            }
        }
    }
}
