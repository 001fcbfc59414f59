//! What a node's MachineConfigNode adds to its annotations.

use api::machineconfiguration::MachineConfigNode;
use api::names::{node_condition, status};

/// The parts of a MachineConfigNode's status that a pool's status is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The node has reported at all.
    pub has_conditions: bool,
    /// The message of `NodeDegraded`, while that is true.
    pub degraded: Option<String>,
    /// The message of `MultipleCustomPools`, while that is true.
    pub contested: Option<String>,
    /// `Updated` is true.
    pub updated: bool,
    pub desired_config: Option<String>,
    pub desired_image: Option<String>,
    /// Every pinned image set is at its desired generation.
    pub images_pinned: bool,
    /// The message of `PinnedImageSetsDegraded`, while that is true.
    pub images_failed: Option<String>,
    /// Why the drain does not get on, as the drain controller put it.
    pub drain_blocked: Option<String>,
}

/// How the drain controller begins and ends the message of `Drained` while a drain does not get on.
const BLOCKED_BEGINS: &str = "Error: Node Drain has not succeeded. Error is: ";
const BLOCKED_ENDS: &str = " The drain will not be complete until";

impl Report {
    /// Reads a MachineConfigNode.
    pub fn from_object(node: &MachineConfigNode) -> Self {
        let Some(status) = &node.status else { return Self::default() };
        let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
        let message_if_true = |type_: &str| {
            condition(type_).filter(|condition| condition.status == status::TRUE).map(|it| it.message.clone())
        };
        let drained = condition(node_condition::DRAINED).filter(|condition| condition.status != status::TRUE);
        let blocked = drained.and_then(|condition| condition.message.strip_prefix(BLOCKED_BEGINS));
        Self {
            has_conditions: !status.conditions.is_empty(),
            degraded: message_if_true(node_condition::NODE_DEGRADED),
            contested: message_if_true(node_condition::MULTIPLE_CUSTOM_POOLS),
            updated: message_if_true(node_condition::UPDATED).is_some(),
            desired_config: status.config_version.as_ref().map(|version| version.desired.clone()),
            desired_image: None,
            images_pinned: status.pinned_image_sets.iter().all(|set| {
                let desired = set.desired_generation.unwrap_or(0);
                desired > 0 && set.current_generation.unwrap_or(0) == desired
            }),
            images_failed: message_if_true(node_condition::PINNED_IMAGE_SETS_DEGRADED),
            drain_blocked: blocked.map(|text| text.split(BLOCKED_ENDS).next().unwrap_or(text).to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(type_: &str, message: &str) -> Report {
        let condition = json!({
            "type": type_, "status": "True", "reason": "Any", "message": message,
            "lastTransitionTime": "2026-01-31T00:00:00Z",
        });
        let node = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": "a"},
            "spec": {"node": {"name": "a"}, "pool": {"name": "worker"}, "configVersion": {"desired": "not-yet-set"}},
            "status": {"configVersion": {"desired": "not-yet-set"}, "conditions": [condition]},
        });
        Report::from_object(&serde_json::from_value(node).expect("a MachineConfigNode"))
    }

    #[test]
    fn the_words_of_a_daemon_are_never_taken_for_those_of_the_controller() {
        let words = "node a belongs to 2 custom roles, cannot proceed with this Node";
        let daemons = report("NodeDegraded", words);
        assert_eq!((daemons.degraded.as_deref(), daemons.contested), (Some(words), None));
        let ours = report("MultipleCustomPools", words);
        assert_eq!((ours.degraded, ours.contested.as_deref()), (None, Some(words)));
    }
}
