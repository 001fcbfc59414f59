//! Decides which machines of a health check are unhealthy, and which of them are remediated now.
//!
//! Three brakes keep a check from doing harm. `maxUnhealthy` stops it while too much is wrong, as upstream's does. At most a
//! tenth of its machines (and at least one) are under remediation at once. And sick machines wait that share a config, an image
//! or a spec which healthy ones of their pool or set do not have: replacing them would only make more of the same.
//!
//! `plan` performs nothing; it never drains and never looks at other checks.

mod brake;
mod check;
mod legacy;
mod remedy;
mod replacements;
mod target;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::machine::{MachineCondition, MachineHealthCheckStatus, health_condition as types, severity};
use jiff::{SignedDuration, Timestamp};

use crate::condition;

pub use check::{Check, Invalid, Limit, Strategy, Symptom, TERMINATION_CHECK, termination_check};
pub use legacy::{CONFIG_MAP, ConfigMapError, symptoms_from_config_map};
pub use remedy::report_requests;
pub use replacements::Wanted;
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
    /// Why the template or its requests could not be read.
    pub template_unread: Option<String>,
    /// Names of the remediation requests that exist, which are the names of their machines.
    pub requests: BTreeSet<String>,
    /// Since when earlier plans have found machines, each with its node, suspect or worse, from [`Plan::suspected`]. Machines are announced once,
    /// and a symptom lasts no longer than it was seen. `None` when nobody keeps it; then the nodes' own clocks count.
    pub suspected: Option<BTreeMap<String, Timestamp>>,
    /// What the sets want that make machines for the check, by name, from [`Snapshot::with_sets`].
    pub sets: BTreeMap<String, Wanted>,
    /// In how many places of each set earlier plans have seen machines, from [`Plan::strength`]. `None` when nobody keeps it;
    /// then every place that no machine holds counts as one whose machine was taken away.
    pub strength: Option<BTreeMap<String, usize>>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was found about each machine, by name, also while nothing is done about it.
    pub verdicts: Vec<(String, Verdict)>,
    pub actions: Vec<Action>,
    pub status: MachineHealthCheckStatus,
    /// What the next plan is to know of the places of sets.
    pub strength: Option<BTreeMap<String, usize>>,
    pub next: Next,
}

/// One thing to do. A failing one does not stop the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete this Machine and no other of its name, and only as it was judged: its link to a node may have changed since.
    /// Its set makes another.
    DeleteMachine {
        name: String,
        uid: String,
        resource_version: Option<String>,
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
    /// The provider has no capacity or no quota to replace what their sets lost already; these wait for that.
    Starved {
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
    let seen = |target: &Target| {
        let suspected = snapshot.suspected.as_ref()?;
        Some(suspected.get(&target.suspect()).copied().unwrap_or(snapshot.now))
    };
    let targets = snapshot.targets.iter();
    let verdicts: Vec<_> = targets.map(|target| verdict::of(check, target, seen(target), snapshot.now)).collect();
    let named = snapshot.targets.iter().zip(&verdicts).map(|(target, verdict)| (target.name.clone(), verdict.clone()));
    let named: Vec<_> = named.collect();
    if check.paused {
        let next = Next::OnChange(Waiting::Paused);
        return Plan::unchanged(named, snapshot, next);
    }
    if snapshot.targets.iter().any(|target| matches!(target.node, TargetNode::Unknown(_))) {
        // A machine that is not known to be well keeps its remediation request, and the counts stay those of the last look.
        let next = Next::After(NODES_UNKNOWN, Waiting::Nodes);
        return Plan::unchanged(named, snapshot, next);
    }
    let judged: Vec<_> = snapshot.targets.iter().zip(verdicts).collect();
    let round = Round { snapshot, check, judged };
    let Outcome { actions, status, waiting } = round.decide();
    let overdue = round.next_overdue().filter(|_| matches!(waiting, Waiting::Brake { .. }));
    let pending = round.judged.iter().filter_map(|(_, verdict)| verdict.next_look()).chain(overdue).min();
    let next = match pending {
        Some(delay) => Next::After(delay.min(AT_LEAST_HOURLY), waiting),
        None => Next::OnChange(waiting),
    };
    Plan { verdicts: named, actions, status, strength: Some(round.strength()), next }
}

impl Plan {
    fn unchanged(verdicts: Vec<(String, Verdict)>, snapshot: &Snapshot, next: Next) -> Self {
        let Snapshot { status, strength, .. } = snapshot.clone();
        Self { verdicts, actions: Vec::new(), status, strength, next }
    }

    /// What the next plan is to know of earlier ones: since when each machine has been suspect or worse.
    pub fn suspected(&self, snapshot: &Snapshot) -> BTreeMap<String, Timestamp> {
        let before = |suspect: &String| snapshot.suspected.as_ref().and_then(|all| all.get(suspect)).copied();
        let of = |(target, (_, verdict)): (&Target, &(String, Verdict))| {
            let suspect = target.suspect();
            let since = match verdict {
                Verdict::Well | Verdict::Booting(_) => None,
                Verdict::Unknown => before(&suspect),
                Verdict::Late(_) | Verdict::Suspect(_) | Verdict::PlannedWork(_) | Verdict::Unhealthy(_) => {
                    Some(before(&suspect).unwrap_or(snapshot.now))
                }
            };
            Some((suspect, since?))
        };
        snapshot.targets.iter().zip(&self.verdicts).filter_map(of).collect()
    }
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
        let Some(shared) = brake::shared_change(self.check, &self.judged) else {
            self.set(&mut status, condition::is_true(types::REMEDIATION_ALLOWED));
            let waiting = self.remediate(&BTreeSet::new(), &mut actions, &mut status);
            return Outcome { actions, status, waiting };
        };
        let waiting = Waiting::SharedChange { what: shared.what };
        let sick = self.judged.iter().filter(|(_, verdict)| verdict.needs_remediation());
        if sick.count() > shared.machines.len() {
            actions.extend(self.hold_some(&mut status, &waiting, &shared.machines));
            self.remediate(&shared.machines, &mut actions, &mut status);
        } else {
            actions.extend(self.restrict(&mut status, &waiting));
        }
        Outcome { actions, status, waiting }
    }

    /// Says in status, and once in an event, which machines are not remediated while others are.
    fn hold_some(
        &self,
        status: &mut MachineHealthCheckStatus,
        why: &Waiting,
        held: &BTreeSet<String>,
    ) -> Option<Action> {
        let names: Vec<_> = held.iter().map(String::as_str).collect();
        let message = format!("Remediation of {} is not allowed, {why}", names.join(", "));
        let condition = MachineCondition {
            reason: Some("SharedChange".to_owned()),
            message: Some(message.clone()),
            ..condition::is_true(types::REMEDIATION_ALLOWED)
        };
        let event = Event { machine: None, warning: true, reason: "RemediationRestricted", message };
        self.set(status, condition).then_some(Action::Event(event))
    }

    /// Machines whose node shows a symptom and has time left are announced. Booting ones are not unhealthy.
    fn announcements(&self) -> Vec<Action> {
        let pending = self.judged.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Suspect(_)));
        let news = pending.filter(|(target, _)| self.is_news(target));
        news.map(|(target, _)| {
            let message = format!("Machine {} has unhealthy node {}", self.full_name(target), target.node_name());
            self.event(target, "DetectedUnhealthy", message)
        })
        .collect()
    }

    /// Whether no earlier plan has told of this machine.
    fn is_news(&self, target: &Target) -> bool {
        self.snapshot.suspected.as_ref().is_none_or(|all| !all.contains_key(&target.suspect()))
    }

    fn restriction(&self, total: usize, unhealthy: usize, limit: i64) -> Option<Waiting> {
        (count(unhealthy) > limit).then(|| {
            let limit = self.check.max_unhealthy.to_string();
            Waiting::TooManyUnhealthy { total, unhealthy, limit }
        })
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

    fn set(&self, status: &mut MachineHealthCheckStatus, condition: MachineCondition) -> bool {
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
        strength: snapshot.strength.clone(),
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
                    "{busy} machines are under remediation or not replaced yet, the limit is {limit}; waiting: {}",
                    waiting.join(", ")
                )
            }
            Self::Starved { waiting } => {
                let names = waiting.join(", ");
                write!(f, "the provider has nothing to replace what their sets lost before; waiting: {names}")
            }
            Self::Timeouts => write!(f, "machines are unhealthy or booting and have time left"),
            Self::Remediation => write!(f, "machines are being remediated"),
            Self::Nodes => write!(f, "nodes could not be listed"),
        }
    }
}
