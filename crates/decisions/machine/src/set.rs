//! Decides what a MachineSet does next: adopt, release, create, delete, and what its status says.
//!
//! `plan` performs nothing. New Machines get names that follow from the set and a slot number, so a plan made from a list
//! that does not show the latest Machines yet asks for the same names again, and the API server refuses the second one.

mod facts;
mod naming;
mod order;
mod selector;
mod status;

use std::collections::BTreeSet;
use std::fmt;

use api::machine::{Machine, MachineSet, MachineSetStatus, annotation};
use jiff::{SignedDuration, Timestamp};

pub use facts::{Member, Owner, Readiness};
pub use naming::name_prefix;
pub use order::{DeletePolicy, UnknownPolicy, priority, victims};
pub(crate) use selector::{labels_do_not_match, selector_problem, template_labels};
pub use selector::{selector_text, validate_selector};

/// How many Machines are made in one pass. They are made at the same time; more at once would only queue at the API server.
pub const BATCH: usize = 100;

/// The watch shows the last batch within this time; a plan made earlier would ask for the same names again.
const NEXT_BATCH: SignedDuration = SignedDuration::from_millis(100);

/// Everything that is known about a set and the Machines of its namespace.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub set: MachineSet,
    /// The Machines of the namespace that this set owns or could adopt, in any order.
    pub members: Vec<Member>,
    /// Names that are taken by other Machines. Nodes without a Machine belong here too: a new Machine of that name would find
    /// the old Node object where hosts are called as their Machines are.
    pub taken: BTreeSet<String>,
    /// Nodes could not be listed, so nobody knows which Machines are ready.
    pub nodes_unknown: bool,
    pub now: Timestamp,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: MachineSetStatus,
    pub next: Next,
}

/// One thing to do. Actions of one plan do not depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the set the controller of a Machine that has none.
    Adopt { name: String, uid: String },
    /// Take the set's owner reference off a Machine whose labels no longer match.
    Release { name: String, uid: String },
    /// Create this Machine. If the name exists already, that is fine.
    Create(Box<Machine>),
    /// Delete this Machine and no other of its name.
    Delete { name: String, uid: String },
    /// Write on a Machine whether it looks like the set's template.
    Mark { name: String, matches: bool },
}

/// When to look again.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// All is as it should be.
    Settled,
    /// The set is being deleted; its Machines go with it.
    BeingDeleted,
    /// The set cannot be acted on.
    Invalid(Invalid),
    /// Machines that were asked for or deleted have not shown up yet.
    Machines,
    /// So many Machines are still to be made in the next pass.
    MoreToCreate(usize),
    /// So many Machines are still to be deleted in the next pass.
    MoreToDelete(usize),
    /// The set's deployment makes new Machines elsewhere.
    NoNewMachines,
    /// The provider has no capacity for this Machine, so no further one is made.
    Capacity { machine: String },
    /// Nodes are ready and not yet for long enough.
    MinReadySeconds,
    /// Nodes could not be listed; their return is a change.
    Nodes,
}

/// Why a set cannot be acted on. The text names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("{set:?} machineset validation failed: {problem}")]
    Selector { set: String, problem: String },
    #[error(
        "failed to sync machines: the Replicas field in Spec for machineset {set} is nil, this should not be allowed"
    )]
    NoReplicas { set: String },
    #[error("failed to sync machines: spec.replicas of machineset {set} is {replicas}: it must not be negative")]
    NegativeReplicas { set: String, replicas: i32 },
    #[error("failed to sync machines: {0}")]
    Policy(#[from] UnknownPolicy),
}

/// Decides the next move for one MachineSet.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let Snapshot { set, members: _, taken: _, nodes_unknown, now } = snapshot;
    let unchanged = || set.status.clone().unwrap_or_default();
    if set.metadata.deletion_timestamp.is_some() {
        return Plan { actions: Vec::new(), status: unchanged(), next: Next::OnChange(Waiting::BeingDeleted) };
    }
    if *nodes_unknown {
        return Plan { actions: Vec::new(), status: unchanged(), next: Next::OnChange(Waiting::Nodes) };
    }
    let invalid = |problem: Invalid| Plan {
        actions: Vec::new(),
        status: status::of_invalid(unchanged(), &problem),
        next: Next::OnChange(Waiting::Invalid(problem)),
    };
    let selector = match validate_selector(set) {
        Ok(selector) => selector,
        Err(problem) => return invalid(Invalid::Selector { set: name(set), problem }),
    };
    let sorted = facts::sort(snapshot, &selector);
    let mut actions = sorted.ownership_actions();
    let wanted = match replicas(set) {
        Ok(wanted) => wanted,
        Err(problem) => return invalid(problem),
    };
    actions.extend(sorted.marks());
    let status = status::of_members(set, &sorted.kept, *now);
    let waiting = match scale(snapshot, &sorted.kept, wanted, &mut actions) {
        Ok(waiting) => waiting,
        Err(problem) => return invalid(problem),
    };
    let status = status::with_capacity(status, &waiting, *now);
    let next = match (waiting, status::next_available(set, &sorted.kept, *now)) {
        (waiting @ (Waiting::MoreToCreate(_) | Waiting::MoreToDelete(_)), _) => Next::After(NEXT_BATCH, waiting),
        (_, Some(delay)) => Next::After(delay, Waiting::MinReadySeconds),
        (waiting, None) => Next::OnChange(waiting),
    };
    Plan { actions, status, next }
}

fn name(set: &MachineSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

fn replicas(set: &MachineSet) -> Result<usize, Invalid> {
    let replicas = set.spec.replicas.ok_or_else(|| Invalid::NoReplicas { set: name(set) })?;
    usize::try_from(replicas).map_err(|_| Invalid::NegativeReplicas { set: name(set), replicas })
}

/// Adds what brings the number of Machines to the wanted one, and says what is waited for then.
fn scale(snapshot: &Snapshot, kept: &[&Member], wanted: usize, actions: &mut Vec<Action>) -> Result<Waiting, Invalid> {
    let Snapshot { set, members, taken, nodes_unknown: _, now } = snapshot;
    if kept.len() > wanted {
        let policy = set.spec.delete_policy.as_deref().unwrap_or_default().parse()?;
        let delete = |member: &&Member| Action::Delete { name: member.name.clone(), uid: member.uid.clone() };
        // In batches, as machines are made: whose turn it is is noted by name before any of them goes.
        let surplus = kept.len() - wanted;
        actions.extend(victims(kept, policy, surplus.min(BATCH), *now).iter().map(delete));
        return Ok(if surplus > BATCH { Waiting::MoreToDelete(surplus - BATCH) } else { Waiting::Machines });
    }
    let missing = wanted - kept.len();
    if missing == 0 {
        return Ok(Waiting::Settled);
    }
    if set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::NO_NEW_MACHINES)) {
        return Ok(Waiting::NoNewMachines);
    }
    if let Some(starved) = kept.iter().find(|member| member.starved) {
        return Ok(Waiting::Capacity { machine: starved.name.clone() });
    }
    let used: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let names = naming::free_names(set, |name| used.contains(name) || taken.contains(name));
    let now_made = missing.min(BATCH);
    actions.extend(names.take(now_made).map(|name| Action::Create(Box::new(naming::machine(set, name)))));
    Ok(if missing > now_made { Waiting::MoreToCreate(missing - now_made) } else { Waiting::Machines })
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => write!(f, "all machines are there"),
            Self::BeingDeleted => write!(f, "the set is being deleted"),
            Self::Invalid(problem) => write!(f, "{problem}"),
            Self::Machines => write!(f, "machines are being created or deleted"),
            Self::MoreToDelete(more) => write!(f, "{more} more machines are to be deleted"),
            Self::MoreToCreate(more) => write!(f, "{more} more machines are to be created"),
            Self::NoNewMachines => write!(f, "the set makes no new machines, because its deployment has a newer one"),
            Self::Capacity { machine } => {
                write!(f, "the provider has no capacity for machine {machine}, so no further one is made")
            }
            Self::Nodes => write!(f, "nodes could not be listed"),
            Self::MinReadySeconds => write!(f, "nodes have not been ready for minReadySeconds yet"),
        }
    }
}
