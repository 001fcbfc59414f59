//! Decides how a MachineDeployment's sets replace one another.
//!
//! One plan is one step: make or grow the new set, shrink the old ones, as far as `maxSurge` and `maxUnavailable` allow. The
//! sets do the rest. The new set is found by what its template says, and its name is chosen so that it is free.
//!
//! With the annotation `machinist.dev/update-strategy: OnDelete` nothing is taken away: an old machine is replaced by a new
//! one when somebody deletes it.

pub mod conditions;
mod facts;
mod naming;
mod paused;
mod revision;
mod rolling;
mod sizes;

use std::collections::BTreeMap;
use std::fmt;

use api::machine::{MachineDeployment, MachineDeploymentStatus, MachineSet};
use api::selector::Selector;
use jiff::{SignedDuration, Timestamp};

pub use revision::{RollbackError, rollback};
pub use sizes::{Allowance, AllowanceError};

use facts::Family;

/// Everything that is known about a deployment and the MachineSets of its namespace.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub deployment: MachineDeployment,
    /// All MachineSets of the namespace: those of others block names.
    pub sets: Vec<MachineSet>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In this order; one that fails ends the pass.
    pub actions: Vec<Action>,
    pub status: MachineDeploymentStatus,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the deployment the controller of a set that has none.
    Adopt {
        name: String,
        uid: String,
    },
    Create(Box<MachineSet>),
    /// Change these fields of a set. `None` takes an annotation away.
    Update {
        name: String,
        uid: String,
        change: SetChange,
    },
    /// Delete a set of the history, which has no machines.
    Delete {
        name: String,
        uid: String,
    },
    /// Annotate the deployment itself.
    Annotate(BTreeMap<String, String>),
}

/// What changes on a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    pub replicas: Option<i32>,
    pub min_ready_seconds: Option<i32>,
    pub annotations: BTreeMap<String, Option<String>>,
}

/// Only the deadline for progress depends on time; availability reaches the deployment through its sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

impl Next {
    pub fn waiting(&self) -> &Waiting {
        match self {
            Self::OnChange(waiting) | Self::After(_, waiting) => waiting,
        }
    }
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// All machines are of the template and available.
    Complete,
    BeingDeleted,
    Invalid(Invalid),
    /// The deployment is paused: sizes follow, templates do not.
    Paused,
    /// Machines come and go.
    Progress {
        updated: i32,
        available: i32,
        wanted: i32,
    },
    /// So many old machines stay until somebody deletes them.
    Deletion {
        old: i32,
    },
}

/// Why a deployment cannot be acted on. The text names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("spec.selector: {0}")]
    Selector(String),
    #[error("spec.selector: empty selector is not valid for MachineDeployment {0:?}")]
    EmptySelector(String),
    #[error(
        "failed validation on MachineDeployment {0:?} label selector, cannot match any machines: spec.template.metadata.labels lacks its labels"
    )]
    Labels(String),
    #[error("unexpected deployment strategy type: {0}: spec.strategy.type must be RollingUpdate")]
    Strategy(String),
    #[error("spec.replicas is {0}: it must not be negative")]
    Replicas(i32),
    #[error(transparent)]
    Allowance(#[from] AllowanceError),
}

/// Decides the next step of a deployment.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let deployment = &snapshot.deployment;
    let old = || deployment.status.clone().unwrap_or_default();
    if deployment.metadata.deletion_timestamp.is_some() {
        return Plan { actions: Vec::new(), status: old(), next: Next::OnChange(Waiting::BeingDeleted) };
    }
    let goal = match Goal::of(deployment) {
        Ok(goal) => goal,
        Err(problem) => {
            let actions = conditions::of_invalid(snapshot, &problem).into_iter().collect();
            return Plan { actions, status: old(), next: Next::OnChange(Waiting::Invalid(problem)) };
        }
    };
    let mut family = Family::of(snapshot, &goal);
    let mut actions = family.adoptions();
    match goal.mode {
        Mode::Paused => paused::step(&goal, &mut family),
        Mode::Rolling => rolling::step(&goal, &mut family),
        Mode::OnDelete => rolling::step_on_delete(&goal, &mut family),
    }
    actions.extend(family.actions(&goal));
    let status = family.status(&goal);
    let waiting = family.waiting(&goal, &status);
    if waiting == Waiting::Complete {
        actions.extend(family.prune(&goal));
    }
    let (told, deadline) = conditions::judge(snapshot, &goal, &status, &waiting);
    actions.extend(told);
    let next = match deadline {
        Some(left) => Next::After(left, waiting),
        None => Next::OnChange(waiting),
    };
    Plan { actions, status, next }
}

/// What a deployment asks for, with its defaults.
struct Goal<'a> {
    deployment: &'a MachineDeployment,
    selector: Selector,
    replicas: i32,
    allowance: Allowance,
    mode: Mode,
    min_ready_seconds: i32,
    history: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rolling,
    OnDelete,
    Paused,
}

impl<'a> Goal<'a> {
    fn of(deployment: &'a MachineDeployment) -> Result<Self, Invalid> {
        let spec = &deployment.spec;
        let name = || deployment.metadata.name.clone().unwrap_or_default();
        let selector = Selector::parse(&spec.selector).map_err(|problem| Invalid::Selector(problem.to_string()))?;
        if selector.is_empty() {
            return Err(Invalid::EmptySelector(name()));
        }
        let labels = spec.template.metadata.as_ref().map(|metadata| metadata.labels.clone()).unwrap_or_default();
        if !selector.matches(&labels) {
            return Err(Invalid::Labels(name()));
        }
        let replicas = spec.replicas.unwrap_or(1);
        if replicas < 0 {
            return Err(Invalid::Replicas(replicas));
        }
        Ok(Self {
            deployment,
            selector,
            replicas,
            allowance: Allowance::of(deployment, replicas)?,
            mode: Mode::of(deployment)?,
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            history: usize::try_from(spec.revision_history_limit.unwrap_or(1)).unwrap_or(0),
        })
    }

    /// How many machines there may be at once.
    fn most(&self) -> i32 {
        self.replicas.saturating_add(self.allowance.surge)
    }
}

impl Mode {
    fn of(deployment: &MachineDeployment) -> Result<Self, Invalid> {
        let kind = deployment.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()).unwrap_or_default();
        let key = api::machine::annotation::UPDATE_STRATEGY;
        let annotated = deployment.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        match (kind, annotated) {
            ("" | "RollingUpdate", _) if deployment.spec.paused == Some(true) => Ok(Self::Paused),
            ("" | "RollingUpdate", Some("OnDelete")) => Ok(Self::OnDelete),
            ("" | "RollingUpdate", None | Some("" | "RollingUpdate")) => Ok(Self::Rolling),
            ("" | "RollingUpdate", Some(other)) => Err(Invalid::Strategy(format!("{other} in annotation {key}"))),
            (other, _) => Err(Invalid::Strategy(other.to_owned())),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => write!(f, "all machines are of the template and available"),
            Self::BeingDeleted => write!(f, "the deployment is being deleted"),
            Self::Invalid(problem) => write!(f, "{problem}"),
            Self::Paused => write!(f, "the deployment is paused"),
            Self::Progress { updated, available, wanted } => {
                write!(f, "{updated} of {wanted} machines are updated, {available} available")
            }
            Self::Deletion { old } => write!(f, "{old} machines of an older template stay until they are deleted"),
        }
    }
}
