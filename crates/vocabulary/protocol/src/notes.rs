//! The parsed annotations of a Node.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{ConfigName, DaemonState, DrainRequest, annotations};

/// The state that daemon, controllers and people recorded in a Node's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNotes {
    /// The config that the node runs.
    pub current: Option<ConfigName>,
    /// The config that the node should run.
    pub desired: Option<ConfigName>,
    /// The OS image that a node of a layered pool runs. An annotation that exists but is empty means that the node is
    /// leaving layering.
    pub current_image: Option<String>,
    pub desired_image: Option<String>,
    pub state: DaemonState,
    /// Why the node is in its state.
    pub reason: Option<String>,
    /// The daemon announced a reboot and has not restarted yet.
    pub rebooting: bool,
    /// The daemon's request to the drain controller.
    pub desired_drain: Option<DrainRequest>,
    /// The last request that the drain controller completed.
    pub last_applied_drain: Option<DrainRequest>,
    pub topology: Option<String>,
    /// Version of our daemon; `None` if the node runs another daemon.
    pub daemon: Option<String>,
    /// An administrator pinned the node to its current config; the value is the reason.
    pub hold: Option<String>,
    /// The config that an administrator forces, whatever the checks say.
    pub forced: Option<ConfigName>,
    /// The config whose trial was reverted on this node.
    pub reverted: Option<ConfigName>,
    pub cordoned_by: Option<Cordon>,
    /// When the drain of the node started.
    pub drain_started: Option<Timestamp>,
    /// The config that the node first booted with.
    pub first_pivot: Option<ConfigName>,
    /// The node got the labels of the custom pool in which it first booted.
    pub labels_applied: bool,
    /// Why the last reboot did not activate the staged OS.
    pub finalize_failure: Option<String>,
}

/// Who cordoned a node that is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// The drain controller, which uncordons the node when the change is complete.
    Machinist,
    /// A person, before the drain. The drain controller leaves such a cordon alone.
    Person,
    Other(String),
}

impl Cordon {
    const MACHINIST: &'static str = "machinist";
    const PERSON: &'static str = "person";

    pub fn parse(text: &str) -> Self {
        match text {
            Self::MACHINIST => Self::Machinist,
            Self::PERSON => Self::Person,
            other => Self::Other(other.to_owned()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Machinist => Self::MACHINIST,
            Self::Person => Self::PERSON,
            Self::Other(text) => text,
        }
    }
}

impl NodeNotes {
    /// Parses the annotations of a Node.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let get = |key: &str| annotations.and_then(|all| all.get(key)).cloned();
        let said = |key: &str| get(key).filter(|value| !value.is_empty());
        let config = |key: &str| said(key).map(ConfigName::from);
        let drain = |key: &str| get(key).and_then(|text| DrainRequest::parse(&text));
        Self {
            current: config(annotations::CURRENT_CONFIG),
            desired: config(annotations::DESIRED_CONFIG),
            current_image: get(annotations::CURRENT_IMAGE),
            desired_image: get(annotations::DESIRED_IMAGE),
            state: DaemonState::parse(&get(annotations::STATE).unwrap_or_default()),
            reason: said(annotations::REASON),
            rebooting: get(annotations::POST_CONFIG_ACTION).as_deref() == Some(DaemonState::REBOOTING),
            desired_drain: drain(annotations::DESIRED_DRAIN),
            last_applied_drain: drain(annotations::LAST_APPLIED_DRAIN),
            topology: said(annotations::CONTROL_PLANE_TOPOLOGY),
            daemon: get(annotations::DAEMON),
            hold: get(annotations::HOLD).filter(|value| value != "false"),
            forced: config(annotations::FORCE),
            reverted: config(annotations::REVERTED),
            cordoned_by: said(annotations::CORDONED_BY).map(|text| Cordon::parse(&text)),
            drain_started: said(annotations::DRAIN_STARTED).and_then(|time| time.parse().ok()),
            first_pivot: config(annotations::FIRST_PIVOT_CONFIG),
            labels_applied: get(annotations::CUSTOM_POOL_LABELS_APPLIED).is_some(),
            finalize_failure: said(annotations::OSTREE_FINALIZE_STAGED_FAILURE),
        }
    }

    /// Whether the daemon is ours: it accepts a new target until its first write.
    pub fn is_ours(&self) -> bool {
        self.daemon.is_some()
    }

    /// Whether the node runs the desired config and image, and its daemon reports that it is done.
    pub fn is_done(&self) -> bool {
        self.is_at_target() && self.state == DaemonState::Done
    }

    /// Whether the node runs the desired config and image, whatever its daemon reports.
    pub fn is_at_target(&self) -> bool {
        self.current.is_some() && self.current == self.desired && self.is_image_at_target()
    }

    fn is_image_at_target(&self) -> bool {
        match (&self.current_image, &self.desired_image) {
            (None, None) => true,
            (Some(current), Some(desired)) => !desired.is_empty() && current == desired,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether the drain controller has yet to complete the daemon's last request.
    pub fn waits_for_drain_controller(&self) -> bool {
        self.desired_drain.is_some() && self.desired_drain != self.last_applied_drain
    }

    /// Whether the daemon waits for the drain controller to drain the node.
    pub fn is_draining(&self) -> bool {
        self.has_asked_for_drain() && self.waits_for_drain_controller()
    }

    /// Whether the daemon's last request was a drain, completed or not.
    pub fn has_asked_for_drain(&self) -> bool {
        self.desired_drain.as_ref().is_some_and(DrainRequest::is_drain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(pairs: &[(&str, &str)]) -> NodeNotes {
        let annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodeNotes::read(Some(&annotations))
    }

    #[test]
    fn a_node_without_annotations_has_default_notes() {
        assert_eq!(NodeNotes::read(None), NodeNotes::default());
    }

    #[test]
    fn a_node_is_done_when_config_image_and_daemon_agree() {
        let done =
            [(annotations::CURRENT_CONFIG, "a"), (annotations::DESIRED_CONFIG, "a"), (annotations::STATE, "Done")];
        assert!(notes(&done).is_done());
        assert!(!notes(&[done[0], done[1]]).is_done(), "a daemon that never reported has not finished");
        assert!(!notes(&[done[0], done[1], (annotations::STATE, "Degraded")]).is_done());
        let image = [(annotations::CURRENT_IMAGE, "os:1"), (annotations::DESIRED_IMAGE, "os:2")];
        assert!(!notes(&[done[0], done[1], done[2], image[0], image[1]]).is_done());
    }

    #[test]
    fn a_node_with_an_empty_desired_image_is_not_done() {
        let leaving = [
            (annotations::CURRENT_CONFIG, "a"),
            (annotations::DESIRED_CONFIG, "a"),
            (annotations::STATE, "Done"),
            (annotations::CURRENT_IMAGE, ""),
            (annotations::DESIRED_IMAGE, ""),
        ];
        assert!(!notes(&leaving).is_done());
    }

    #[test]
    fn a_drain_is_in_progress_until_its_own_request_is_completed() {
        let asked = (annotations::DESIRED_DRAIN, "drain-b");
        assert!(notes(&[asked]).is_draining());
        assert!(notes(&[asked, (annotations::LAST_APPLIED_DRAIN, "drain-a")]).is_draining());
        let answered = notes(&[asked, (annotations::LAST_APPLIED_DRAIN, "drain-b")]);
        assert!(!answered.is_draining() && answered.has_asked_for_drain());
    }

    #[test]
    fn a_hold_of_false_holds_nothing() {
        assert_eq!(notes(&[(annotations::HOLD, "false")]).hold, None);
        assert_eq!(notes(&[(annotations::HOLD, "")]).hold.as_deref(), Some(""));
    }
}
