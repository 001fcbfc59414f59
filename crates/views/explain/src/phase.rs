//! What a node does at this moment, in one word: the phases that a rollout is drawn with.

use api::names::{node_condition, state};
use serde::Serialize;

use crate::snapshot::NodeFacts;

/// A phase of a node's update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Phase {
    /// It has what it was asked for.
    Resting,
    /// It was asked for another config, and nothing has happened to it yet.
    Waiting,
    /// Its pods are moved away.
    Draining,
    /// Its files, units and operating system are changed.
    Writing,
    /// It restarts.
    Rebooting,
    /// It has the config and shows that it works with it.
    Validating,
    /// Its pods may return.
    Returning,
    /// It tried and failed.
    Degraded,
}

impl Phase {
    /// Every phase, in the order in which a node goes through them.
    pub const ALL: [Self; 8] = [
        Self::Resting,
        Self::Waiting,
        Self::Draining,
        Self::Writing,
        Self::Rebooting,
        Self::Validating,
        Self::Returning,
        Self::Degraded,
    ];

    /// Reads the phase from what node and daemon say.
    #[must_use]
    pub fn of(node: &NodeFacts) -> Self {
        let at = node.step_type.as_deref();
        if node.is_degraded() {
            Self::Degraded
        } else if node.is_draining {
            Self::Draining
        } else if node.rebooting || at == Some(node_condition::REBOOTED_NODE) {
            Self::Rebooting
        } else if node.is_uncordoning {
            Self::Returning
        } else if node.done {
            Self::Resting
        } else if matches!(at, Some(node_condition::UPDATE_POST_ACTION_COMPLETE | node_condition::RESUMED)) {
            Self::Validating
        } else if node.state == state::WORKING {
            Self::Writing
        } else {
            Self::Waiting
        }
    }

    /// The word that people read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Resting => "resting",
            Self::Waiting => "waiting",
            Self::Draining => "draining",
            Self::Writing => "writing",
            Self::Rebooting => "rebooting",
            Self::Validating => "validating",
            Self::Returning => "returning",
            Self::Degraded => "degraded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeFacts {
        let config = Some("rendered-worker-1".to_owned());
        NodeFacts {
            current: config.clone(),
            desired: config,
            state: state::DONE.to_owned(),
            done: true,
            ..NodeFacts::default()
        }
    }

    #[test]
    fn a_node_goes_through_the_phases_of_an_update() {
        let asked = NodeFacts { desired: Some("rendered-worker-2".to_owned()), done: false, ..node() };
        let working = NodeFacts { state: state::WORKING.to_owned(), ..asked.clone() };
        let phases = [
            node(),
            asked,
            NodeFacts { is_draining: true, ..working.clone() },
            working.clone(),
            NodeFacts { rebooting: true, ..working.clone() },
            NodeFacts { step_type: Some(node_condition::RESUMED.to_owned()), ..working.clone() },
            NodeFacts { is_uncordoning: true, ..node() },
            NodeFacts { state: state::DEGRADED.to_owned(), is_draining: true, ..working },
        ]
        .map(|facts| Phase::of(&facts));
        assert_eq!(phases, Phase::ALL);
    }
}
