//! Violations: which rule, when, and a sentence about it.

use std::fmt;

use jiff::Timestamp;

/// A rule was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K = Kind> {
    pub kind: K,
    /// Simulated time.
    pub at: Timestamp,
    pub sentence: String,
}

/// The violated rule. Shrinking preserves it, and summaries count by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// We took away more nodes of a pool at one time than `maxUnavailable` allows; says how the last one was before.
    Budget(Before),
    /// We took away more than one node of the control plane at one time.
    ControlPlane(Before),
    /// A serving node was targeted although `maxUnavailable` nodes were visibly unavailable already.
    Unavailable,
    /// A node was taken away that etcd needed for its quorum.
    Quorum,
    /// The same, by a controller whose list of etcd members was missing or stale.
    QuorumUnseen,
    /// A pod of an existing DaemonSet was evicted.
    DaemonSet,
    /// A node was rebooted while pods were running that had not been evicted.
    RunningPods,
    /// A good config failed its trial.
    GoodReverted,
    /// A trial does not end although nothing is wrong.
    EndlessTrial,
    /// A person's cordon was removed.
    PersonsCordon,
    /// A node stays cordoned by us for ever.
    LeftCordon,
    /// A node was targeted or taken away without a claim in the ledger.
    Unclaimed,
    /// A node was given a target that is not the pool's newest.
    NotNewest,
    /// A foreign daemon was given another target while Working.
    Foreign,
    /// A node that a person holds was targeted.
    Held,
    /// A node was targeted although the planner knew that the pool was paused.
    Paused,
    /// A place or a target was given by a controller that had not heard of nodes, pools or ledgers for too long.
    Unseen,
    /// The ledger went back to an older generation of the pool.
    Backwards,
    /// The fleet does not converge although there are no faults any more.
    Unfinished,
    /// The fleet stood still for hours without faults before it continued.
    Stalled,
    /// A failed or cordoned node waits for ever behind a dead one.
    Starved,
    /// Nodes may rightly wait, but the plan does not say why.
    Unexplained,
    /// The rollout has finished, but claims, taints or a wrong status are left.
    LeftOver,
    /// The planner keeps planning writes for a settled fleet.
    Restless,
}

/// The condition of a node before it was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// Serving.
    Serving,
    /// Serving, but without a first config.
    Unconfigured,
    /// Cordoned by a person, and still serving the pods it had.
    Cordoned,
    /// Unreachable when it was targeted, or between that and now.
    Unreachable,
    /// Its last update had failed.
    Broken,
}

impl<K: fmt::Display> fmt::Display for Violation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} [{}]", clock(self.at), self.sentence, self.kind)
    }
}

/// The time as printed in traces and sentences.
pub(crate) fn clock(at: Timestamp) -> impl fmt::Display {
    at.strftime("%H:%M:%S%.3f")
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Budget(before) => return write!(f, "budget exceeded by a node that was {before}"),
            Self::ControlPlane(before) => {
                return write!(f, "two of the control plane at once, the second was {before}");
            }
            Self::Unavailable => "budget exceeded with nodes that others took down",
            Self::Quorum => "quorum of etcd lost",
            Self::QuorumUnseen => "quorum of etcd lost unseen",
            Self::DaemonSet => "pod of a DaemonSet evicted",
            Self::RunningPods => "rebooted under running pods",
            Self::GoodReverted => "good config given back",
            Self::EndlessTrial => "endless trial",
            Self::PersonsCordon => "a person's cordon removed",
            Self::LeftCordon => "cordon left behind",
            Self::Unclaimed => "no claim",
            Self::NotNewest => "not the newest target",
            Self::Foreign => "foreign daemon retargeted while it worked",
            Self::Held => "held node targeted",
            Self::Paused => "paused pool targeted",
            Self::Unseen => "planned unseen",
            Self::Backwards => "ledger went backwards",
            Self::Unfinished => "does not come to its end",
            Self::Stalled => "stood still for hours",
            Self::Starved => "starved behind a dead node",
            Self::Unexplained => "stands still without a reason",
            Self::LeftOver => "left over",
            Self::Restless => "never rests",
        };
        f.write_str(words)
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Unconfigured => "serving without a first config",
            Self::Cordoned => "cordoned by a person",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
        })
    }
}
