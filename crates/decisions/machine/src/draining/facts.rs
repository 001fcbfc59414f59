//! What a drain knows of nodes.

use api::labels;
use api::machine::{Machine, annotation, condition as types};
use api::names::status::TRUE;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::Snapshot;
use crate::link::is_linked;
use crate::{condition, duration};

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
        /// It registered after the Machine was drained, and is not cordoned.
        registered_since: bool,
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
            registered_since: registered_since(machine, node),
            unreachable: conditions.iter().any(|it| it.type_ == "Ready" && it.status == api::names::status::UNKNOWN),
        }
    }
}

/// Whether a node registered after its Machine was drained, and pods may come to it.
pub(crate) fn registered_since(machine: &Machine, node: &Node) -> bool {
    let status = machine.status.as_ref();
    let drained = status.and_then(|status| condition::find(&status.conditions, types::DRAINED));
    let drained = drained.filter(|drained| drained.status == TRUE && !super::is_excluded(machine));
    let drained = drained.and_then(|drained| drained.last_transition_time.as_ref());
    let registered = node.metadata.creation_timestamp.as_ref();
    let is_later = drained.zip(registered).is_some_and(|(drained, registered)| registered.0 > drained.0);
    is_later && !is_cordoned(node)
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

/// The control-plane node that has to be through before this one may go: one whose Machine was deleted earlier or, unless
/// this one is cordoned too, one that is cordoned already. Of two that are cordoned, one at least has to go.
pub(super) fn goes_first(snapshot: &Snapshot) -> Option<String> {
    let DrainNode::Present { name, cordoned, .. } = &snapshot.node else { return None };
    let since = snapshot.machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let is_earlier = |other: &&Colleague| {
        (other.cordoned && !cordoned)
            || other.leaving.is_some_and(|leaving| (Some(leaving), &other.node) < (since, name))
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
