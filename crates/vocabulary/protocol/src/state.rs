//! The state that a daemon reports in the annotation `state`.

use std::fmt;

/// The state of a node as its daemon reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DaemonState {
    /// The annotation is missing or empty: the daemon never reported. This is not `Done`.
    #[default]
    Unreported,
    /// The node runs the desired config.
    Done,
    /// The daemon is applying its target.
    Working,
    /// There is an error; the daemon retries by itself.
    Degraded,
    /// The target cannot be reached from the current config; only another target helps.
    Unreconcilable,
    /// A value that no known daemon writes.
    Other(String),
}

impl DaemonState {
    pub const DONE: &'static str = "Done";
    pub const WORKING: &'static str = "Working";
    pub const DEGRADED: &'static str = "Degraded";
    pub const UNRECONCILABLE: &'static str = "Unreconcilable";
    /// Today this is only a value of the annotation `post-config-action`; older daemons wrote it as a state.
    pub const REBOOTING: &'static str = "Rebooting";

    /// Parses the annotation's value.
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unreported,
            Self::DONE => Self::Done,
            // A daemon that is rebooting is not done.
            Self::WORKING | Self::REBOOTING => Self::Working,
            Self::DEGRADED => Self::Degraded,
            Self::UNRECONCILABLE => Self::Unreconcilable,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the annotation's value; empty if nothing was reported.
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

    /// Whether the daemon reports an error.
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
    fn every_state_survives_parsing_and_writing() {
        for word in ["", "Done", "Working", "Degraded", "Unreconcilable", "Confused"] {
            assert_eq!(DaemonState::parse(word).as_str(), word);
        }
    }

    #[test]
    fn a_missing_state_is_not_done() {
        assert_eq!(DaemonState::parse(""), DaemonState::Unreported);
    }

    #[test]
    fn a_rebooting_daemon_is_working() {
        assert_eq!(DaemonState::parse("Rebooting"), DaemonState::Working);
    }
}
