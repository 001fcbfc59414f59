//! What a Node's annotations say to its daemon, and what the daemon says there.

use std::collections::BTreeMap;

use api::annotations;
use protocol::{DaemonState, DrainRequest};

/// Longer reasons are cut; annotations have one shared limit.
const REASON_LIMIT: usize = 2000;

/// What the Node's annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub uid: String,
    pub current: String,
    pub desired: String,
    pub state: String,
    pub reason: String,
    pub desired_drain: String,
    pub last_applied_drain: String,
    pub post_action: String,
    pub topology: String,
    /// The config that an administrator forces, whatever the checks say.
    pub forced: String,
    pub reverted: String,
    pub daemon: String,
    pub os_updates: String,
    pub finalize_failure: String,
    /// What the controller asks the daemon to repeat, and what it last repeated.
    pub probe: String,
    pub answered: String,
    /// The PinnedImageSets of the node's pool.
    pub pinned: String,
    /// What is asked about the files of this host.
    pub survey: String,
}

impl View {
    /// Of a Node with this identity and these annotations.
    pub fn read(uid: Option<&str>, annotations: Option<&BTreeMap<String, String>>) -> Self {
        let get = |key: &str| annotations.and_then(|all| all.get(key)).cloned().unwrap_or_default();
        Self {
            uid: uid.unwrap_or_default().to_owned(),
            current: get(annotations::CURRENT_CONFIG),
            desired: get(annotations::DESIRED_CONFIG),
            state: get(annotations::STATE),
            reason: get(annotations::REASON),
            desired_drain: get(annotations::DESIRED_DRAIN),
            last_applied_drain: get(annotations::LAST_APPLIED_DRAIN),
            post_action: get(annotations::POST_CONFIG_ACTION),
            topology: get(annotations::CONTROL_PLANE_TOPOLOGY),
            forced: get(annotations::FORCE),
            reverted: get(annotations::REVERTED),
            daemon: get(annotations::DAEMON),
            os_updates: get(annotations::OS_UPDATES),
            finalize_failure: get(annotations::OSTREE_FINALIZE_STAGED_FAILURE),
            probe: get(annotations::PROBE),
            answered: get(annotations::ANSWERED),
            pinned: get(annotations::PINNED_IMAGE_SETS),
            survey: get(annotations::SURVEY),
        }
    }

    /// The lines that runbooks look for when the Node says something new.
    pub fn transitions(&self, new: &View) -> Vec<String> {
        fn word(text: &str) -> &str {
            if text.is_empty() { "none" } else { text }
        }
        let mut lines = Vec::new();
        if self.state != new.state {
            lines.push(format!("Transitioned from state: {} -> {}", word(&self.state), word(&new.state)));
        }
        if self.reason != new.reason {
            let (old, new) = (word(&self.reason), word(&new.reason));
            lines.push(format!("Transitioned from degraded/unreconcilable reason {old} -> {new}"));
        }
        lines
    }

    /// What this Node is still to be told of a machine's birth.
    ///
    /// A Node that has reported before belongs to a host that was made anew under its name: it keeps the pool it was first
    /// born into, which no node may write any more then.
    pub fn introduction<'a>(&self, birth: &'a BTreeMap<String, String>) -> BTreeMap<&'static str, &'a str> {
        let keys = [
            (annotations::DESIRED_CONFIG, self.desired.is_empty()),
            (annotations::FIRST_PIVOT_CONFIG, self.current.is_empty()),
        ];
        let wanted = keys.into_iter().filter(|(_, is_wanted)| *is_wanted);
        wanted.filter_map(|(key, _)| Some((key, birth.get(key)?.as_str()))).collect()
    }

    pub fn is_failing(&self) -> bool {
        DaemonState::parse(&self.state).is_failing()
    }

    /// Whether the last thing asked of the drain controller was to empty this node.
    pub fn is_drained_by_us(&self) -> bool {
        DrainRequest::parse(&self.desired_drain).is_some_and(|request| request.is_drain())
    }

    /// Whether the drain controller still has to answer.
    pub fn waits_for_drain(&self) -> bool {
        !self.desired_drain.is_empty() && self.desired_drain != self.last_applied_drain
    }
}

/// All annotations the daemon owns, as they shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub current: String,
    pub state: String,
    pub reason: String,
    pub desired_drain: String,
    pub post_action: String,
    pub reverted: String,
    /// Why the last reboot did not bring the OS that was staged.
    pub finalize_failure: String,
    /// The last probe that was seen.
    pub answered: String,
    /// How the host updates its operating system, for those who plan.
    pub os_updates: String,
}

impl Report {
    /// What was last reported, also by an earlier daemon.
    pub fn of(view: &View) -> Self {
        Self {
            current: view.current.clone(),
            state: view.state.clone(),
            reason: view.reason.clone(),
            desired_drain: view.desired_drain.clone(),
            post_action: view.post_action.clone(),
            reverted: view.reverted.clone(),
            finalize_failure: view.finalize_failure.clone(),
            answered: view.answered.clone(),
            os_updates: view.os_updates.clone(),
        }
    }

    /// The annotations of a daemon of this version.
    pub fn annotations(&self, daemon: &str) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::from([
            (annotations::STATE, self.state.clone()),
            (annotations::REASON, self.reason.chars().take(REASON_LIMIT).collect()),
            (annotations::POST_CONFIG_ACTION, self.post_action.clone()),
            (annotations::DAEMON, daemon.to_owned()),
            // Also while there was no probe: it shows that this daemon answers them.
            (annotations::ANSWERED, self.answered.clone()),
        ]);
        let optional = [
            (annotations::CURRENT_CONFIG, &self.current),
            (annotations::DESIRED_DRAIN, &self.desired_drain),
            (annotations::REVERTED, &self.reverted),
            (annotations::OSTREE_FINALIZE_STAGED_FAILURE, &self.finalize_failure),
            (annotations::OS_UPDATES, &self.os_updates),
        ];
        all.extend(
            optional.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.clone())),
        );
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_made_anew_does_not_tell_its_node_another_birth() {
        let birth = [annotations::CURRENT_CONFIG, annotations::DESIRED_CONFIG, annotations::FIRST_PIVOT_CONFIG]
            .map(|key| (key.to_owned(), "rendered-worker-2".to_owned()));
        let birth = BTreeMap::from(birth);
        let told = |view: View| view.introduction(&birth).into_keys().collect::<Vec<_>>();
        assert_eq!(told(View::default()), [annotations::DESIRED_CONFIG, annotations::FIRST_PIVOT_CONFIG]);
        let (current, desired) = ("rendered-worker-1".to_owned(), "rendered-worker-1".to_owned());
        assert_eq!(told(View { desired: desired.clone(), ..View::default() }), [annotations::FIRST_PIVOT_CONFIG]);
        assert_eq!(told(View { current: current.clone(), ..View::default() }), [annotations::DESIRED_CONFIG]);
        assert_eq!(told(View { current, desired, ..View::default() }), [""; 0]);
    }

    #[test]
    fn only_what_changed_is_told_and_nothing_is_left_blank() {
        let view = |state: &str, reason: &str| View { state: state.into(), reason: reason.into(), ..View::default() };
        let told = |old: View, new: View| old.transitions(&new).join("\n");
        assert_eq!(told(view("Working", ""), view("Done", "")), "Transitioned from state: Working -> Done");
        assert_eq!(told(view("", ""), view("Working", "")), "Transitioned from state: none -> Working");
        assert_eq!(told(view("Working", ""), view("", "")), "Transitioned from state: Working -> none");
        assert_eq!(
            told(view("Degraded", "no disk"), view("Done", "")),
            "Transitioned from state: Degraded -> Done\nTransitioned from degraded/unreconcilable reason no disk -> none"
        );
        assert_eq!(told(view("Done", ""), view("Done", "")), "");
    }
}
