//! Decides what to tell people: the state of each pool and node, since when, what it waits for, and what would move it.
//!
//! [`node`] and [`pool`] explain one object, [`doctor`] looks for every failure we know of. All of them read one
//! [`Snapshot`] and do nothing: `status`, `why` and `doctor` print what is said here, and a repair is carried out by
//! whoever asked. How pools choose nodes is decided elsewhere; that decision is part of the snapshot.

pub mod doctor;
mod node;
mod pool;
mod snapshot;
mod span;

use jiff::Timestamp;
use serde::Serialize;

pub use doctor::{Finding, Fix, Repair, Severity, doctor};
pub use node::node;
pub use pool::pool;
pub use snapshot::{
    Blocker, Certificate, Claim, Generator, Held, Member, NodeFacts, Objects, PoolFacts, Snapshot, Standstill, Workload,
};
pub use span::{ago, span};

/// Where one pool or node stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub name: String,
    pub state: State,
    /// Since when it is in this state, as far as anybody wrote it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The state in one sentence.
    pub summary: String,
    /// What it waits for, most important first, each a sentence.
    pub waiting_for: Vec<String>,
    /// What would move it.
    pub moves: Vec<Move>,
}

/// A state in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// It is where it should be.
    Updated,
    /// It gets there without anybody's help.
    Updating,
    /// It waits for its turn, and its turn will come.
    Waiting,
    /// A person said that it should not move.
    Paused,
    /// Something that only a person can move stands in the way.
    Blocked,
    /// It tried and failed, or is not what it says it is.
    Degraded,
    /// Nobody looks after it.
    Unmanaged,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Updated => "Updated",
            Self::Updating => "Updating",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
            Self::Blocked => "Blocked",
            Self::Degraded => "Degraded",
            Self::Unmanaged => "Unmanaged",
        })
    }
}

/// Something a person can do, and the command that does it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    pub what: String,
    pub command: String,
}

impl Move {
    pub(crate) fn new(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self { what: what.into(), command: command.into() }
    }
}
