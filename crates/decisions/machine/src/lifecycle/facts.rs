//! Reads what belongs to a Machine.

use std::collections::BTreeMap;

use api::machine::Machine;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::{Draft, LinkedNode, Rival, Snapshot};
use crate::draining;
use crate::link::is_linked;
use crate::provider::{Instance, State};
use crate::set::Readiness;

impl Snapshot {
    /// Reads a Machine and the other Machines, of which only those with the same provider ID matter.
    pub fn from_objects<'a>(
        machine: &Machine,
        others: impl IntoIterator<Item = &'a Machine>,
        node: LinkedNode,
        now: Timestamp,
    ) -> Self {
        Self {
            machine: machine.clone(),
            rivals: others.into_iter().filter_map(|other| Rival::between(machine, other)).collect(),
            contested: None,
            node,
            sighting: None,
            seen: None,
            asked: None,
            answer: None,
            draft: Draft { children: BTreeMap::new(), place: serde_json::Value::Null },
            joining: None,
            known: None,
            settling: SignedDuration::ZERO,
            now,
        }
    }
}

impl LinkedNode {
    /// The node of a Machine, if the name in its nodeRef was looked up with this result.
    pub fn of(machine: &Machine, found: Option<&Node>) -> Self {
        let Some(reference) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) else {
            return Self::Unlinked;
        };
        match found.filter(|node| is_linked(reference, node)) {
            Some(node) => Self::Present {
                name: reference.name.clone().unwrap_or_default(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
                ready: Readiness::of_node(node) != Readiness::NotReady,
                undrained: draining::is_open_again(machine, node),
            },
            None => Self::Missing,
        }
    }
}

/// The instance that a Machine means, if several were found: the one with its provider ID, else the one that runs, else the
/// oldest.
pub(super) fn choose<'a>(machine: &Machine, instances: &'a [Instance]) -> Option<&'a Instance> {
    let wanted = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
    let by_id = instances.iter().find(|instance| wanted.is_some() && instance.provider_id.as_deref() == wanted);
    by_id.or_else(|| {
        instances
            .iter()
            .min_by_key(|instance| (instance.state != State::Running, instance.created, &instance.provider_id))
    })
}
