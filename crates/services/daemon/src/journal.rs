//! What is under way on this host, written before it happens.
//!
//! The whole plan is recorded before its first step, and every later phase before it begins. Steps can be repeated, so after
//! a crash the daemon does not need to know where it stopped: it does the recorded steps again, or their reverse.

use change::policy::Action;
use change::step::Step;
use serde::{Deserialize, Serialize};

use crate::trial::Clock;

pub use ::node::trial::{Check, Trial};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    pub version: u32,
    pub from: String,
    pub to: String,
    pub phase: Phase,
    /// The boot in which it began: what was staged then and not booted yet can simply be dropped. On disk it has another
    /// name, because the phase beside it has a `boot` of its own.
    #[serde(rename = "begunInBoot")]
    pub boot: String,
    /// What leads from `from` to `to`, in order.
    pub steps: Vec<Step>,
    /// What makes the change take effect.
    pub actions: Vec<PostAction>,
    pub trial: Option<Trial>,
    /// All steps were done once. A config that is given back after that was tried, and is not tried again by itself; one
    /// that never got so far is.
    #[serde(default)]
    pub tried: bool,
    /// Every original was kept, so that writes may have begun. Journals of version 1 do not know.
    #[serde(default)]
    pub kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "name")]
pub enum Phase {
    /// Steps are being carried out.
    Applying,
    /// All steps are done; services have not picked them up yet.
    Applied,
    /// A reboot was asked for while this boot was running.
    Rebooting { boot: String },
    /// It took effect; its checks must pass.
    Trying(Clock),
    /// Steps are being taken back.
    Undoing { reason: String },
    /// All steps were taken back.
    Undone { reason: String },
    /// All steps were taken back; a reboot was asked for while this boot was running.
    RebootingBack { boot: String, reason: String },
}

impl Phase {
    /// Its name in the journal.
    pub fn word(&self) -> &'static str {
        match self {
            Phase::Applying => "applying",
            Phase::Applied => "applied",
            Phase::Rebooting { .. } => "rebooting",
            Phase::Trying(_) => "trying",
            Phase::Undoing { .. } => "undoing",
            Phase::Undone { .. } => "undone",
            Phase::RebootingBack { .. } => "rebootingBack",
        }
    }

    /// Whether the way leads to the old config.
    pub fn goes_back(&self) -> bool {
        matches!(self, Phase::Undoing { .. } | Phase::Undone { .. } | Phase::RebootingBack { .. })
    }
}

/// Disruption as it is kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "action", content = "unit")]
pub enum PostAction {
    DaemonReload,
    Reload(String),
    Restart(String),
    Reboot,
}

impl Journal {
    /// Newer daemons finish older journals; older ones refuse newer. Version 1 timed trials by the wall clock.
    pub const VERSION: u32 = 2;

    pub fn reboots(&self) -> bool {
        self.actions.contains(&PostAction::Reboot)
    }
}

impl PostAction {
    /// `runtime` is the unit that the policies' special action means.
    pub fn of(action: &Action, runtime: &str) -> Option<Self> {
        match action {
            // Drains happen before the first write.
            Action::None | Action::Drain => None,
            Action::DaemonReload => Some(PostAction::DaemonReload),
            Action::Reload(unit) => Some(PostAction::Reload(unit.clone())),
            Action::Restart(unit) => Some(PostAction::Restart(unit.clone())),
            Action::Special => Some(PostAction::Reload(runtime.to_owned())),
            Action::Reboot => Some(PostAction::Reboot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_each_phase_can_be_read_again() {
        let boot = || "boot".to_owned();
        let reason = || "reason".to_owned();
        let phases = [
            Phase::Applying,
            Phase::Applied,
            Phase::Rebooting { boot: boot() },
            Phase::Trying(Clock::start("boot", 1)),
            Phase::Undoing { reason: reason() },
            Phase::Undone { reason: reason() },
            Phase::RebootingBack { boot: boot(), reason: reason() },
        ];
        for phase in phases {
            let journal = Journal {
                version: Journal::VERSION,
                from: "a".to_owned(),
                to: "b".to_owned(),
                phase,
                tried: false,
                kept: true,
                boot: "first".to_owned(),
                steps: Vec::new(),
                actions: Vec::new(),
                trial: None,
            };
            let text = serde_json::to_string(&journal).expect("a journal is JSON");
            assert!(text.contains(&format!("\"name\":\"{}\"", journal.phase.word())), "{text}");
            assert_eq!(serde_json::from_str::<Journal>(&text).ok(), Some(journal), "{text}");
        }
    }

    #[test]
    fn a_trial_that_an_older_daemon_began_is_timed_anew() {
        let phase: Phase = serde_json::from_str(r#"{"name":"trying","since":1700000000}"#).expect("version 1");
        let Phase::Trying(clock) = phase else { panic!("{phase:?}") };
        assert_eq!(clock.carry_on("boot", 100).elapsed(100), 0);
    }
}
