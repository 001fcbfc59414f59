//! What the daemon does next, from what it sees.

use protocol::DrainRequest;

use crate::View;

/// Where the host stands when the daemon starts, after unfinished work was carried on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No update is under way.
    Settled,
    /// All steps are done and the actions are not.
    Applied,
    /// A reboot was asked for and has not happened: same boot as before.
    WaitsForReboot,
    /// The new config is on trial.
    Trying,
    /// It went back and must still reboot to be back.
    MustRebootBack { reason: String },
    /// It went back. The reason is also in the store.
    WentBack { reason: String },
}

/// What the daemon sees.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// The config that a new machine was made with, until it is adopted.
    pub born: Option<&'a str>,
    /// The config on disk. `None` on a host that never had one.
    pub on_disk: Option<&'a str>,
    pub standing: &'a Standing,
    /// What the Node asks for; `None` until the API was heard.
    pub node: Option<&'a View>,
    /// The force file is there.
    pub forced: bool,
    /// The config that was tried here and given back.
    pub reverted: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing is asked of this node yet.
    Idle,
    /// The host has a config but no copy of it: take the one the Node names as what runs.
    Adopt { config: String },
    /// Bring the host to this config.
    Update { to: String, forced: bool },
    /// Carry out what makes an applied config take effect.
    Act,
    /// Ask for the reboot that was recorded and has not happened.
    Reboot,
    /// See whether the config on trial works.
    Try,
    /// The node stays as it is; this config was given back here.
    Held { config: String },
    /// Let pods return; `drain` is what the drain controller is asked.
    Release { drain: String },
    /// All is done; say so.
    Rest,
}

pub fn decide(situation: &Situation<'_>) -> Move {
    match situation.standing {
        Standing::Applied => return Move::Act,
        Standing::WaitsForReboot | Standing::MustRebootBack { .. } => return Move::Reboot,
        Standing::Trying => return Move::Try,
        Standing::Settled | Standing::WentBack { .. } => {}
    }
    // What was given back here must not be forgotten before it is known what is wanted.
    let Some(node) = situation.node else { return Move::Idle };
    if let Some(born) = situation.born {
        return Move::Adopt { config: born.to_owned() };
    }
    let Some(on_disk) = situation.on_disk else {
        return match (node.current.as_str(), node.desired.as_str()) {
            ("", "") => Move::Idle,
            // A fresh host that is told its first config.
            ("", desired) => Move::Update { to: desired.to_owned(), forced: false },
            (current, _) => Move::Adopt { config: current.to_owned() },
        };
    };
    let desired = if node.desired.is_empty() { on_disk } else { node.desired.as_str() };
    let forced = situation.forced || (!node.forced.is_empty() && node.forced == desired);
    if desired != on_disk {
        if situation.reverted == Some(desired) && !forced {
            return Move::Held { config: desired.to_owned() };
        }
        return Move::Update { to: desired.to_owned(), forced };
    }
    // At rest the annotation asks for nothing; on a node that is not what it says it is, it asks for everything anew. It is
    // taken off when that begins.
    if situation.forced || (forced && node.is_failing()) {
        return Move::Update { to: desired.to_owned(), forced: true };
    }
    let release = DrainRequest::Uncordon(on_disk.into()).to_string();
    if node.is_drained_by_us() || (node.desired_drain == release && node.waits_for_drain()) {
        return Move::Release { drain: release };
    }
    Move::Rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(current: &str, desired: &str) -> View {
        View { current: current.into(), desired: desired.into(), ..View::default() }
    }

    #[track_caller]
    fn check(on_disk: Option<&str>, standing: &Standing, node: &View, expected: &Move) {
        let situation = Situation { born: None, on_disk, standing, node: Some(node), forced: false, reverted: None };
        assert_eq!(decide(&situation), *expected);
    }

    #[test]
    fn nothing_new_is_begun_before_the_api_was_heard_and_work_under_way_goes_on() {
        let unheard = |standing| Situation {
            born: None,
            on_disk: Some("a"),
            standing,
            node: None,
            forced: false,
            reverted: Some("b"),
        };
        assert_eq!(decide(&unheard(&Standing::Settled)), Move::Idle);
        assert_eq!(decide(&unheard(&Standing::Trying)), Move::Try);
    }

    #[test]
    fn a_fresh_host_waits_until_it_is_told_a_config() {
        check(None, &Standing::Settled, &node("", ""), &Move::Idle);
        check(None, &Standing::Settled, &node("", "a"), &Move::Update { to: "a".into(), forced: false });
    }

    #[test]
    fn a_host_without_its_own_copy_takes_the_config_its_node_names() {
        check(None, &Standing::Settled, &node("a", "b"), &Move::Adopt { config: "a".into() });
    }

    #[test]
    fn a_new_machine_is_taken_for_what_it_was_made_with_whatever_first_boot_left_on_disk() {
        let (node, standing) = (node("", "b"), Standing::Settled);
        let situation = Situation {
            born: Some("a"),
            on_disk: Some("a"),
            standing: &standing,
            node: Some(&node),
            forced: false,
            reverted: None,
        };
        assert_eq!(decide(&situation), Move::Adopt { config: "a".into() });
    }

    #[test]
    fn the_disk_is_believed_and_not_the_annotation() {
        check(Some("b"), &Standing::Settled, &node("a", "b"), &Move::Rest);
        check(Some("a"), &Standing::Settled, &node("b", "b"), &Move::Update { to: "b".into(), forced: false });
    }

    #[test]
    fn a_degraded_node_that_is_forced_to_what_it_has_writes_it_anew() {
        let failing = View { forced: "b".into(), state: "Degraded".into(), ..node("b", "b") };
        check(Some("b"), &Standing::Settled, &failing, &Move::Update { to: "b".into(), forced: true });
        let resting = View { state: "Done".into(), ..failing };
        check(Some("b"), &Standing::Settled, &resting, &Move::Rest);
    }

    #[test]
    fn work_under_way_comes_before_anything_new() {
        check(Some("b"), &Standing::Applied, &node("a", "c"), &Move::Act);
        check(Some("b"), &Standing::WaitsForReboot, &node("a", "c"), &Move::Reboot);
        check(Some("b"), &Standing::Trying, &node("a", "c"), &Move::Try);
    }

    #[test]
    fn a_config_that_was_given_back_is_not_tried_again_until_another_is_wanted_or_it_is_forced() {
        let mut node = node("a", "b");
        let standing = Standing::Settled;
        let mut situation = Situation {
            born: None,
            on_disk: Some("a"),
            standing: &standing,
            node: Some(&node),
            forced: false,
            reverted: Some("b"),
        };
        assert_eq!(decide(&situation), Move::Held { config: "b".into() });
        situation.forced = true;
        assert_eq!(decide(&situation), Move::Update { to: "b".into(), forced: true });
        node.desired = "c".into();
        let situation = Situation {
            born: None,
            on_disk: Some("a"),
            standing: &standing,
            node: Some(&node),
            forced: false,
            reverted: Some("b"),
        };
        assert_eq!(decide(&situation), Move::Update { to: "c".into(), forced: false });
    }

    #[test]
    fn the_force_file_works_on_a_node_that_is_done() {
        let (node, standing) = (node("a", "a"), Standing::Settled);
        let situation = Situation {
            born: None,
            on_disk: Some("a"),
            standing: &standing,
            node: Some(&node),
            forced: true,
            reverted: None,
        };
        assert_eq!(decide(&situation), Move::Update { to: "a".into(), forced: true });
    }

    #[test]
    fn a_node_that_was_drained_is_released_when_it_is_where_it_should_be() {
        let release = Move::Release { drain: "uncordon-b".into() };
        let drained = View { desired_drain: "drain-b".into(), last_applied_drain: "drain-b".into(), ..node("b", "b") };
        check(Some("b"), &Standing::Settled, &drained, &release);
        let asked = View { desired_drain: "uncordon-b".into(), last_applied_drain: "drain-b".into(), ..node("b", "b") };
        check(Some("b"), &Standing::Settled, &asked, &release);
        let released =
            View { desired_drain: "uncordon-b".into(), last_applied_drain: "uncordon-b".into(), ..node("b", "b") };
        check(Some("b"), &Standing::Settled, &released, &Move::Rest);
    }
}
