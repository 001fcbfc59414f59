//! A deterministic simulation of the machine half: the real planners of the crate `machine`, two processes with watches that
//! lag and fail, and a cloud with an account of its own.
//!
//! One seed is one run. The shells around the planners are written again here in the shape of the real ones: one write or
//! call at a time, so that anything can happen between two of them.

mod api;
mod build;
mod cloud;
mod ending;
mod etcd;
mod faults;
mod hosts;
mod jobs;
mod owed;
mod pass;
mod replica;
mod run;
mod view;
mod world;
mod write;

use std::fmt;

use ::machine::{control_plane_set, deployment, draining, health, lifecycle, link, orphans, set};

pub use crate::Scenario;

use run::Run;

/// The decision makers of a run: the real ones, or ones that are broken on purpose to see that the checks notice.
pub trait Parties: Sync {
    fn machine(&self, snapshot: &lifecycle::Snapshot) -> lifecycle::Plan {
        lifecycle::plan(snapshot)
    }

    fn drain(&self, snapshot: &draining::Snapshot) -> draining::Plan {
        draining::plan(snapshot)
    }

    fn set(&self, snapshot: &set::Snapshot) -> set::Plan {
        set::plan(snapshot)
    }

    fn deployment(&self, snapshot: &deployment::Snapshot) -> deployment::Plan {
        deployment::plan(snapshot)
    }

    fn check(&self, snapshot: &health::Snapshot) -> health::Plan {
        health::plan(snapshot)
    }

    fn control_plane(&self, snapshot: &control_plane_set::Snapshot) -> control_plane_set::Plan {
        control_plane_set::plan(snapshot)
    }

    fn link(&self, snapshot: &link::Snapshot) -> link::Plan {
        link::plan(snapshot)
    }

    fn orphans(&self, snapshot: &orphans::Snapshot) -> orphans::Plan {
        orphans::plan(snapshot)
    }

    /// Whether plans that take machines away are claimed first, as they must be.
    fn claims(&self) -> bool {
        true
    }
}

/// The product's own planners.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Parties for Real {}

pub type Violation = crate::Violation<Kind>;
pub type Outcome = crate::Outcome<Kind>;
pub type Summary = crate::Summary<Kind>;

/// The violated rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two instances of one Machine ran at once.
    DoubleCreate,
    /// An instance is left that belongs to no Machine.
    Leak,
    /// An instance that belongs to another Machine, another cluster or nobody was removed.
    Touched,
    /// An instance went while pods ran on its node.
    Undrained,
    /// A node outlives its Machine.
    GhostNode,
    /// A health check has more machines under remediation than its brake allows.
    Brake,
    /// A health check took machines away faster than others joined in their place.
    Unreplaced,
    /// A health check acted although more machines were unhealthy than `maxUnhealthy` allows.
    TooManyUnhealthy,
    /// A health check deleted a machine whose node was not unwell for long enough.
    Healthy,
    /// Two machines of the control plane were taken away at once.
    ControlPlane,
    /// A machine of the control plane was taken away that etcd needed for its quorum.
    Quorum,
    /// A set took away more machines than it had too many.
    Overkill,
    /// A deployment made more machines than `maxSurge` allows.
    Surge,
    /// Replicas do not converge although nothing goes wrong any more.
    Unfinished,
    /// Something stands still and no condition says why.
    Unexplained,
    /// A settled world is given more to do.
    Restless,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DoubleCreate => "two instances of one machine",
            Self::Leak => "an instance of no machine is left",
            Self::Touched => "an instance of somebody else was removed",
            Self::Undrained => "an instance went with its pods",
            Self::GhostNode => "a node outlives its machine",
            Self::Brake => "more machines under remediation than the brake allows",
            Self::Unreplaced => "more machines taken away and not replaced than the brake allows",
            Self::TooManyUnhealthy => "remediation beyond maxUnhealthy",
            Self::Healthy => "a machine was replaced that was not unwell for long enough",
            Self::ControlPlane => "two machines of the control plane were taken away at once",
            Self::Quorum => "etcd lost its quorum",
            Self::Overkill => "a set took away too many machines",
            Self::Surge => "a deployment made too many machines",
            Self::Unfinished => "replicas do not converge",
            Self::Unexplained => "something stands still, and no condition says why",
            Self::Restless => "a settled world is given more to do",
        })
    }
}

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
