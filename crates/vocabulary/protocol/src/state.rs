//! What a daemon says of itself in the annotation `state`.

use std::fmt;

/// The daemon's own word for how its node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DaemonState {
    /// The annotation is missing or empty: the daemon never reported. This is not `Done`.
    #[default]
    Unreported,
    /// The node runs what it was asked to run.
    Done,
    /// The daemon works on its target.
    Working,
    /// Something is wrong; the daemon tries again by itself.
    Degraded,
    /// The target cannot be reached from what the node runs; only another target helps.
    Unreconcilable,
    /// A word that no known daemon writes.
    Other(String),
}

impl DaemonState {
    pub const DONE: &'static str = "Done";
    pub const WORKING: &'static str = "Working";
    pub const DEGRADED: &'static str = "Degraded";
    pub const UNRECONCILABLE: &'static str = "Unreconcilable";
    /// Today only a value of the annotation `post-config-action`; older daemons wrote it as a state.
    pub const REBOOTING: &'static str = "Rebooting";

    /// Reads the annotation's value.
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unreported,
            Self::DONE => Self::Done,
            // A daemon that reboots has not finished.
            Self::WORKING | Self::REBOOTING => Self::Working,
            Self::DEGRADED => Self::Degraded,
            Self::UNRECONCILABLE => Self::Unreconcilable,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word as the annotation holds it; empty when nothing was reported.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unreported => "",
            Self::Done => Self::DONE,
            Self::Working => Self::WORKING,
            Self::Degraded => Self::DEGRADED,
            Self::Unreconcilable => Self::UNRECONCILABLE,
            Self::Other(word) => word,
        }
    }

    /// The daemon reports that something is wrong.
    pub fn is_failing(&self) -> bool {
        matches!(self, Self::Degraded | Self::Unreconcilable)
    }
}

impl fmt::Display for DaemonState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_survives_being_read_and_written() {
        for word in ["", "Done", "Working", "Degraded", "Unreconcilable", "Confused"] {
            assert_eq!(DaemonState::parse(word).as_str(), word);
        }
    }

    #[test]
    fn a_missing_state_is_not_done() {
        assert_eq!(DaemonState::parse(""), DaemonState::Unreported);
    }

    #[test]
    fn a_daemon_that_reboots_is_at_work() {
        assert_eq!(DaemonState::parse("Rebooting"), DaemonState::Working);
    }
}
