//! Decides which machines of a health check are unhealthy, and which of them are remediated now.
//!
//! Three brakes keep a check from doing harm. `maxUnhealthy` stops it while too much is wrong, as upstream's does. At most a
//! tenth of its machines (and at least one) are under remediation at once. And it holds when the sick machines share a config,
//! an image or a spec that the healthy ones do not have, because replacing them would only make more of the same.
//!
//! `plan` performs nothing; it never drains and never looks at other checks.

mod brake;
mod check;
mod legacy;
mod remedy;
mod target;
mod verdict;

use std::collections::BTreeSet;
use std::fmt;

use api::machine::{MachineHealthCheckStatus, health_condition as types, severity};
use jiff::{SignedDuration, Timestamp};

use crate::condition;

pub use check::{Check, Invalid, Limit, Strategy, Symptom, TERMINATION_CHECK, termination_check};
pub use legacy::{CONFIG_MAP, ConfigMapError, symptoms_from_config_map};
pub use target::{NodeFacts, REBOOT, Target, TargetNode};
pub use verdict::{Cause, Verdict};

/// The longest time between two looks. Everything that matters also arrives as an event.
pub const AT_LEAST_HOURLY: SignedDuration = SignedDuration::from_hours(1);

/// How soon to look again when nodes could not be listed. The watch that comes back is an event of its own.
const NODES_UNKNOWN: SignedDuration = SignedDuration::from_secs(30);

/// Everything that is known about a check and its machines.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub check: Result<Check, Invalid>,
    pub status: MachineHealthCheckStatus,
    /// The machines that the check selects, by name.
    pub targets: Vec<Target>,
    /// Whether the remediation template exists. Only asked where the strategy is one.
    pub template_exists: bool,
    /// Names of the remediation requests that exist, which are the names of their machines.
    pub requests: BTreeSet<String>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was found about each machine, by name, also while nothing is done about it.
    pub verdicts: Vec<(String, Verdict)>,
    pub actions: Vec<Action>,
    pub status: MachineHealthCheckStatus,
    pub next: Next,
}

/// One thing to do. A failing one does not stop the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete this Machine and no other of its name; its set makes another.
    DeleteMachine {
        name: String,
        uid: String,
    },
    /// Ask the bare metal provider to power-cycle the machine.
    AnnotateMachine {
        name: String,
    },
    /// Ask the node's own agent for a reboot.
    RebootNode {
        node: String,
    },
    /// Make a remediation request from the template.
    CreateRequest {
        machine: String,
        uid: String,
    },
    /// The machine is well again, or gone.
    DeleteRequest {
        machine: String,
    },
    Event(Event),
}

/// An event about one machine, or about the check itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub machine: Option<String>,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// Every machine is well.
    Healthy,
    Paused,
    Invalid(Invalid),
    /// `maxUnhealthy` is exceeded.
    TooManyUnhealthy {
        total: usize,
        unhealthy: usize,
        limit: String,
    },
    /// The sick machines share something that the healthy ones do not have.
    SharedChange {
        what: String,
    },
    /// The template of the strategy does not exist.
    TemplateMissing(String),
    /// So many machines are under remediation, which is the limit; these wait for their turn.
    Brake {
        busy: usize,
        limit: usize,
        waiting: Vec<String>,
    },
    /// Machines are unhealthy and have time left, or boot.
    Timeouts,
    /// Machines are being remediated.
    Remediation,
    /// Nodes could not be listed.
    Nodes,
}

/// Decides the next move for one health check.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let check = match &snapshot.check {
        Ok(check) => check,
        Err(problem) => return invalid(snapshot, problem),
    };
    let verdicts: Vec<_> = snapshot.targets.iter().map(|target| verdict::of(check, target, snapshot.now)).collect();
    let named = snapshot.targets.iter().zip(&verdicts).map(|(target, verdict)| (target.name.clone(), verdict.clone()));
    let named: Vec<_> = named.collect();
    if check.paused {
        let next = Next::OnChange(Waiting::Paused);
        return Plan { verdicts: named, actions: Vec::new(), status: snapshot.status.clone(), next };
    }
    if snapshot.targets.iter().any(|target| matches!(target.node, TargetNode::Unknown(_))) {
        // Whoever is not known to be well keeps its remediation request, and the numbers stay those of the last look.
        let next = Next::After(NODES_UNKNOWN, Waiting::Nodes);
        return Plan { verdicts: named, actions: Vec::new(), status: snapshot.status.clone(), next };
    }
    let judged: Vec<_> = snapshot.targets.iter().zip(verdicts).collect();
    let round = Round { snapshot, check, judged };
    let Outcome { actions, status, waiting } = round.decide();
    let pending = round.judged.iter().filter_map(|(_, verdict)| verdict.next_look()).min();
    let next = match pending {
        Some(delay) => Next::After(delay.min(AT_LEAST_HOURLY), waiting),
        None => Next::OnChange(waiting),
    };
    Plan { verdicts: named, actions, status, next }
}

/// One look at all machines of a check.
struct Round<'a> {
    snapshot: &'a Snapshot,
    check: &'a Check,
    judged: Vec<(&'a Target, Verdict)>,
}

struct Outcome {
    actions: Vec<Action>,
    status: MachineHealthCheckStatus,
    waiting: Waiting,
}

impl Round<'_> {
    fn decide(&self) -> Outcome {
        let mut actions = self.announcements();
        let total = self.judged.len();
        let healthy = self.judged.iter().filter(|(target, verdict)| verdict::is_healthy(target, verdict)).count();
        let booting = self.judged.iter().filter(|(target, verdict)| verdict::is_booting(target, verdict)).count();
        let unhealthy = total - healthy - booting;
        let limit = self.check.max_unhealthy.of(total);
        let mut status = MachineHealthCheckStatus {
            expected_machines: Some(count(total)),
            current_healthy: Some(count(healthy)),
            remediations_allowed: Some(i32::try_from((limit - count(unhealthy)).max(0)).unwrap_or(i32::MAX)),
            ..self.snapshot.status.clone()
        };
        if let Some(waiting) = self.restriction(total, unhealthy, limit) {
            actions.extend(self.restrict(&mut status, &waiting));
            return Outcome { actions, status, waiting };
        }
        self.set(&mut status, condition::is_true(types::REMEDIATION_ALLOWED));
        let waiting = self.remediate(&mut actions, &mut status);
        Outcome { actions, status, waiting }
    }

    /// Machines whose node shows a symptom and has time left are announced. Booting ones are not unhealthy.
    fn announcements(&self) -> Vec<Action> {
        let pending = self.judged.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Suspect(_)));
        pending
            .map(|(target, _)| {
                let message = format!("Machine {} has unhealthy node {}", self.full_name(target), target.node_name());
                self.event(target, "DetectedUnhealthy", message)
            })
            .collect()
    }

    fn restriction(&self, total: usize, unhealthy: usize, limit: i64) -> Option<Waiting> {
        if count(unhealthy) > limit {
            let limit = self.check.max_unhealthy.to_string();
            return Some(Waiting::TooManyUnhealthy { total, unhealthy, limit });
        }
        brake::shared_change(self.check, &self.judged).map(|what| Waiting::SharedChange { what })
    }

    /// Says in status, and once in an event, why nothing is remediated.
    fn restrict(&self, status: &mut MachineHealthCheckStatus, why: &Waiting) -> Option<Action> {
        let (reason, message, told) = match why {
            Waiting::TooManyUnhealthy { total, unhealthy, limit } => {
                let numbers = format!("(total: {total}, unhealthy: {unhealthy}, maxUnhealthy: {limit})");
                (
                    "TooManyUnhealthy",
                    format!(
                        "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy {numbers}"
                    ),
                    format!("Remediation restricted due to exceeded number of unhealthy machines {numbers}"),
                )
            }
            other => (
                "SharedChange",
                format!("Remediation is not allowed, {other}"),
                format!("Remediation restricted, {other}"),
            ),
        };
        let is_news =
            self.set(status, condition::is_false(types::REMEDIATION_ALLOWED, severity::WARNING, reason, message));
        let event = Event { machine: None, warning: true, reason: "RemediationRestricted", message: told };
        is_news.then_some(Action::Event(event))
    }

    fn set(&self, status: &mut MachineHealthCheckStatus, condition: api::machine::MachineCondition) -> bool {
        condition::set(&mut status.conditions, condition, self.snapshot.now)
    }

    /// `namespace/check/machine/node`, as upstream's events have it.
    fn full_name(&self, target: &Target) -> String {
        format!("{}/{}/{}/{}", self.check.namespace, self.check.name, target.name, target.node_name())
    }

    fn event(&self, target: &Target, reason: &'static str, message: String) -> Action {
        Action::Event(Event { machine: Some(target.name.clone()), warning: false, reason, message })
    }
}

fn invalid(snapshot: &Snapshot, problem: &Invalid) -> Plan {
    let mut status = snapshot.status.clone();
    let condition =
        condition::is_false(types::REMEDIATION_ALLOWED, severity::ERROR, "InvalidConfiguration", problem.to_string());
    let is_news = condition::set(&mut status.conditions, condition, snapshot.now);
    let event = Event { machine: None, warning: true, reason: "ReconcileError", message: problem.to_string() };
    Plan {
        verdicts: Vec::new(),
        actions: is_news.then_some(Action::Event(event)).into_iter().collect(),
        status,
        next: Next::OnChange(Waiting::Invalid(problem.clone())),
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => write!(f, "every machine is healthy"),
            Self::Paused => write!(f, "the check is paused"),
            Self::Invalid(problem) => write!(f, "{problem}"),
            Self::TooManyUnhealthy { total, unhealthy, limit } => {
                write!(f, "{unhealthy} of {total} machines are unhealthy, which exceeds maxUnhealthy {limit}")
            }
            Self::SharedChange { what } => {
                write!(f, "the unhealthy machines share {what}, which no healthy majority has")
            }
            Self::TemplateMissing(template) => write!(f, "{template}"),
            Self::Brake { busy, limit, waiting } => {
                write!(
                    f,
                    "{busy} machines are under remediation, the limit is {limit}; waiting: {}",
                    waiting.join(", ")
                )
            }
            Self::Timeouts => write!(f, "machines are unhealthy or booting and have time left"),
            Self::Remediation => write!(f, "machines are being remediated"),
            Self::Nodes => write!(f, "nodes could not be listed"),
        }
    }
}
