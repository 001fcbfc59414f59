//! All that a Node's annotations say.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{ConfigName, DaemonState, DrainRequest, annotations};

/// What daemon, controllers and people noted on a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNotes {
    /// The config the node runs.
    pub current: Option<ConfigName>,
    /// The config the node shall reach.
    pub desired: Option<ConfigName>,
    /// The OS image a node of a layered pool runs. An annotation that is there but empty is a node on its way out of layering.
    pub current_image: Option<String>,
    pub desired_image: Option<String>,
    pub state: DaemonState,
    /// Why the node is in its state.
    pub reason: Option<String>,
    /// The daemon announced a reboot that has not been finished.
    pub rebooting: bool,
    /// What the daemon asks of the drain controller.
    pub desired_drain: Option<DrainRequest>,
    /// What the drain controller last carried out.
    pub last_applied_drain: Option<DrainRequest>,
    pub topology: Option<String>,
    /// Version of our daemon; missing where the daemon is somebody else's.
    pub daemon: Option<String>,
    /// A person pinned the node to what it runs; the value says why.
    pub hold: Option<String>,
    /// The config that a person forces, whatever the checks say.
    pub forced: Option<ConfigName>,
    /// The config whose trial was reverted here.
    pub reverted: Option<ConfigName>,
    pub cordoned_by: Option<Cordon>,
    /// Since when the node is being drained.
    pub drain_started: Option<Timestamp>,
    /// The config the node was born with.
    pub first_pivot: Option<ConfigName>,
    /// The node was given the labels of the custom pool it was born into.
    pub labels_applied: bool,
    /// Why the last reboot did not bring the OS that was staged.
    pub finalize_failure: Option<String>,
}

/// Whose cordon a node that is drained has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// The drain controller's, which removes it when the drain's change is over.
    Machinist,
    /// A person's: it was there before the drain and is left alone.
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
    /// Reads the annotations of a Node.
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

    /// The daemon is ours: it accepts a new target until its first write.
    pub fn is_ours(&self) -> bool {
        self.daemon.is_some()
    }

    /// The node runs the config and the image it was asked to run, and its daemon says that it has finished.
    pub fn is_done(&self) -> bool {
        self.is_at_target() && self.state == DaemonState::Done
    }

    /// The node runs the config and the image it was asked to run, whatever its daemon says.
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

    /// The drain controller has not answered the daemon's last request yet.
    pub fn waits_for_drain_controller(&self) -> bool {
        self.desired_drain.is_some() && self.desired_drain != self.last_applied_drain
    }

    /// The daemon waits for the drain controller to empty the node.
    pub fn is_draining(&self) -> bool {
        self.has_asked_for_drain() && self.waits_for_drain_controller()
    }

    /// The daemon's last request was to empty the node, answered or not.
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
    fn a_node_without_annotations_has_nothing_to_say() {
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
    fn an_empty_desired_image_is_a_node_on_its_way_out_of_layering() {
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
    fn a_drain_is_under_way_until_its_own_answer_comes() {
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
