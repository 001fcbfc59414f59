//! In which order nodes take their turn: zone by zone, the oldest node of a zone first.
//!
//! Nodes without a zone come last. Going through one zone after the other keeps replicas that are spread over zones
//! from being hit in two zones at once.

use std::cmp::Ordering;

use jiff::Timestamp;

use crate::node::NodeFacts;

/// A node's place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    zone: Option<String>,
    created: Option<Timestamp>,
    pub name: String,
}

impl Place {
    /// The place of a node.
    pub fn of(node: &NodeFacts) -> Self {
        Self { zone: node.zone.clone(), created: node.created, name: node.name.clone() }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let zone = match (&self.zone, &other.zone) {
            (Some(left), Some(right)) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        zone.then_with(|| self.created.cmp(&other.created)).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
