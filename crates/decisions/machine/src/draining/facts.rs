//! What a drain knows of nodes.

use api::labels;
use api::machine::{Machine, annotation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};

use super::Snapshot;
use crate::duration;
use crate::link::is_linked;
use crate::set::Readiness;

/// The node to drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DrainNode {
    /// The Machine has no nodeRef.
    #[default]
    Unlinked,
    /// Nodes could not be listed.
    Unknown,
    Missing,
    Present {
        name: String,
        cordoned: bool,
        control_plane: bool,
        /// Its kubelet is silent: `Ready` is `Unknown`.
        unreachable: bool,
        /// The Machine was drained, and the node is not cordoned: it registered again, or somebody uncordoned it.
        open_again: bool,
    },
}

/// Another node of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colleague {
    pub node: String,
    pub cordoned: bool,
    /// Since when its Machine is being deleted, if it is.
    pub leaving: Option<Timestamp>,
}

impl Snapshot {
    /// Reads a Machine and all nodes, or `None` if they could not be listed. `leaving` says since when the Machine of a node
    /// is being deleted.
    pub fn from_objects<'a>(
        machine: &Machine,
        nodes: Option<&[&'a Node]>,
        leaving: impl Fn(&'a Node) -> Option<Timestamp>,
        rivals: Vec<String>,
        now: Timestamp,
    ) -> Self {
        let linked = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        let is_own = |node: &&&Node| linked.is_some_and(|reference| is_linked(reference, node));
        let node = match (linked, nodes) {
            (None, _) => DrainNode::Unlinked,
            (Some(_), None) => DrainNode::Unknown,
            (Some(_), Some(nodes)) => {
                nodes.iter().find(is_own).map_or(DrainNode::Missing, |node| DrainNode::of(machine, node))
            }
        };
        let others = nodes.into_iter().flatten().filter(|node| !is_own(node) && is_control_plane(node));
        let colleagues = others.map(|node| Colleague {
            node: name(node).to_owned(),
            cordoned: is_cordoned(node),
            leaving: leaving(node),
        });
        let colleagues = colleagues.collect();
        Self { machine: machine.clone(), node, colleagues, rivals, emptying: None, now }
    }
}

impl DrainNode {
    fn of(machine: &Machine, node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self::Present {
            name: name(node).to_owned(),
            cordoned: is_cordoned(node),
            control_plane: is_control_plane(node),
            open_again: is_open_again(machine, node),
            unreachable: conditions.iter().any(|it| it.type_ == "Ready" && it.status == api::names::status::UNKNOWN),
        }
    }
}

/// Whether pods may have come to a node since its Machine was drained: the drain has cordoned it, so a node that is not
/// cordoned has registered again or was uncordoned by somebody. Times are not compared, because the clock that the drain's
/// was read from may have been wrong.
pub(crate) fn is_open_again(machine: &Machine, node: &Node) -> bool {
    super::is_drained(machine) && !super::is_excluded(machine) && !is_cordoned(node)
}

/// A node as it is once it was cordoned, for whoever has just done that and has not seen it in a watch yet.
pub fn cordoned(node: &Node) -> Node {
    let mut node = node.clone();
    node.spec.get_or_insert_default().unschedulable = Some(true);
    node
}

/// Whether the scheduler could place the machine controllers on a node: they tolerate the taints of the control plane and no
/// others.
pub fn takes_controllers(node: &Node) -> bool {
    let tolerated = [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER];
    let keeps_off = |taint: &Taint| {
        taint.effect != "PreferNoSchedule" && !(taint.effect == "NoSchedule" && tolerated.contains(&taint.key.as_str()))
    };
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let os = node.metadata.labels.as_ref().and_then(|all| all.get(labels::OS));
    let is_ready = Readiness::of_node(node) != Readiness::NotReady;
    is_ready && !is_cordoned(node) && os.is_none_or(|os| os == "linux") && !taints.iter().any(keeps_off)
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

fn is_control_plane(node: &Node) -> bool {
    let roles = [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER];
    node.metadata.labels.as_ref().is_some_and(|all| roles.iter().any(|role| all.contains_key(*role)))
}

/// The control-plane node that has to be through before this one may go: one that is cordoned, unless this one is too, else
/// one whose Machine was deleted earlier. A node that is cordoned goes before all that are not, so that two never wait for
/// each other; of several that are cordoned, one at least has to go.
pub(super) fn goes_first(snapshot: &Snapshot) -> Option<String> {
    let DrainNode::Present { name, cordoned, .. } = &snapshot.node else { return None };
    let since = snapshot.machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let is_earlier = |other: &&Colleague| {
        let is_older = other.leaving.is_some_and(|leaving| (Some(leaving), &other.node) < (since, name));
        if other.cordoned == *cordoned { is_older } else { other.cordoned }
    };
    snapshot.colleagues.iter().find(is_earlier).map(|other| other.node.clone())
}

/// Whether the Machine's own drain timeout is over.
pub(super) fn is_overdue(snapshot: &Snapshot) -> bool {
    time_left(snapshot).is_some_and(|left| left.is_negative())
}

/// What is left of the Machine's own drain timeout. It counts from the deletion; one that cannot be read never ends.
pub(super) fn time_left(snapshot: &Snapshot) -> Option<SignedDuration> {
    let metadata = &snapshot.machine.metadata;
    let timeout = metadata.annotations.as_ref().and_then(|all| all.get(annotation::DRAIN_TIMEOUT))?;
    let timeout = duration::parse(timeout).ok().filter(SignedDuration::is_positive)?;
    let since = metadata.deletion_timestamp.as_ref()?;
    Some(timeout - snapshot.now.duration_since(since.0))
}
