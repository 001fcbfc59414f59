//! Decides what to tell people: the state of each pool, node, Machine and MachineSet, since when, what it waits for, and what
//! would move it.
//!
//! [`node`], [`pool`], [`machine`](fn@machine) and [`machine_set`](fn@machine_set) explain one object, [`doctor`] looks for every failure we know of. All of them read one
//! [`Snapshot`] and do nothing: `status`, `why` and `doctor` print what is said here, and a repair is carried out by
//! whoever asked. How pools choose nodes, what a pool waits for and which pods a drain cannot move is asked of the planners
//! ([`decided`]), so that nothing is said here that the controllers would not do.

pub mod decided;
pub mod doctor;
pub mod fleet;
mod machine;
mod machine_set;
mod node;
mod phase;
mod pool;
mod snapshot;
mod span;
mod unread;

use jiff::Timestamp;
use serde::Serialize;

pub use decided::Drains;
pub use doctor::{Finding, Fix, Repair, Severity, doctor};
pub use fleet::Fleet;
pub use machine::machine;
pub use machine_set::machine_set;
pub use node::{drift, node};
pub use phase::Phase;
pub use pool::pool;
pub use snapshot::{
    Blocker, Certificate, Claim, DaemonFacts, DaemonPod, Generator, HealthCheckFacts, Held, MachineFacts,
    MachineSetFacts, Member, NodeFacts, Objects, OperatorFacts, PoolFacts, Refused, RequestFacts, Snapshot, Standstill,
    Symptom, Trouble, Workload,
};
pub use span::{ago, span};
pub use unread::{Input, Unread};

/// Where one pool, node, Machine or MachineSet stands.
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
    /// A machine has its node, or a set has all its machines.
    Running,
    /// It gets there without anybody's help.
    Updating,
    /// A machine is on its way to a node without anybody's help.
    Provisioning,
    /// A machine goes away without anybody's help.
    Deleting,
    /// It waits for its turn, and its turn will come.
    Waiting,
    /// A person said that it should not move.
    Paused,
    /// Something that only a person can move stands in the way.
    Blocked,
    /// It tried and failed, or is not what it says it is.
    Degraded,
    /// A machine does not recover; somebody has to delete it.
    Failed,
    /// Nobody looks after it.
    Unmanaged,
    /// What it would be told from was not read.
    Unknown,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Updated => "Updated",
            Self::Running => "Running",
            Self::Updating => "Updating",
            Self::Provisioning => "Provisioning",
            Self::Deleting => "Deleting",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
            Self::Blocked => "Blocked",
            Self::Degraded => "Degraded",
            Self::Failed => "Failed",
            Self::Unmanaged => "Unmanaged",
            Self::Unknown => "Unknown",
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
