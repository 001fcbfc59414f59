//! A deterministic simulation of rollouts: the real planners, virtual time, and everything that can go wrong.
//!
//! One seed is one run. Nothing here sleeps, uses the system's randomness or reads a clock, so a failing seed fails again.
//! The rollout and drain planners and the daemon's `decide` are the real ones. The `account` module checks them from the
//! state of machines and pods, independently of the planners' own counts. The crate stands outside the layers because it
//! combines parts of several processes; it is for tests and developer commands and is in no product binary.

mod account;
mod controller;
mod daemon;
mod drainer;
mod ending;
mod faults;
mod host;
pub mod machines;
mod outcome;
mod pods;
mod protocol;
mod random;
mod run;
mod scenario;
mod shrink;
mod sight;
mod summary;
mod violation;
mod watching;
mod world;

use rollout::{Plan, Snapshot};

pub use daemon::TrialClock;
pub use outcome::Outcome;
pub use scenario::{NotAScenario, Scenario};
pub use shrink::shrink;
pub use summary::Summary;
pub use violation::{Before, Kind, Violation};

use run::Run;

/// The decision makers of a run: the real ones, or ones that are broken on purpose to see that the checks notice.
pub trait Parties: Sync {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        rollout::plan(snapshot)
    }

    fn drain(&self, snapshot: &drain::Snapshot) -> drain::Plan {
        drain::plan(snapshot)
    }

    /// Whether targets carry the node's resource version, as they must.
    fn is_fenced(&self) -> bool {
        true
    }

    /// The clock that measures trials.
    fn trial_clock(&self) -> TrialClock {
        TrialClock::Boot
    }
}

/// The product's own planners and daemon.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Parties for Real {}

/// Runs one seed.
pub fn run(seed: u64, parties: &dyn Parties) -> Outcome {
    run_scenario(&Scenario::of(seed), parties)
}

/// Runs one scenario.
pub fn run_scenario(scenario: &Scenario, parties: &dyn Parties) -> Outcome {
    Run::new(scenario).play(parties).0
}

/// Runs one scenario and returns a trace of what happened.
pub fn trace(scenario: &Scenario, parties: &dyn Parties) -> (Outcome, Vec<String>) {
    let mut run = Run::new(scenario);
    run.world.trace = Some(Vec::new());
    run.play(parties)
}
