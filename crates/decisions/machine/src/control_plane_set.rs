//! Decides how the machines of the control plane are replaced: one at a time, index by index, and never below quorum.
//!
//! Every machine has an index, the number at the end of its name. A machine that no longer looks like the template gets a
//! replacement with the same index first; when that is ready, the old one is deleted. What happens to the member of etcd on it
//! is not decided here: on OpenShift its operator holds the machine with a hook, elsewhere it is the installer's work.

mod domains;
mod facts;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::machine::{ControlPlaneMachineSet, ControlPlaneMachineSetStatus, Machine};
use jiff::Timestamp;

pub use domains::{DomainError, provider_specs};
pub use facts::{Etcd, Master};

/// The one name that such a set may have.
pub const NAME: &str = "cluster";

/// Everything that is known about the control plane.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub set: ControlPlaneMachineSet,
    /// The Machines that the set selects.
    pub masters: Vec<Master>,
    /// Names that are taken by other Machines.
    pub taken: BTreeSet<String>,
    /// Nodes of the control plane that no Machine has.
    pub unmanaged_nodes: Vec<String>,
    pub etcd: Etcd,
    /// Nodes could not be listed, so nobody knows which machines are ready.
    pub nodes_unknown: bool,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: ControlPlaneMachineSetStatus,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the set the controller of a Machine that has none.
    Adopt { name: String, uid: String },
    /// Create this Machine. If the name exists already, that is fine.
    Create(Box<Machine>),
    /// Delete this Machine and no other of its name.
    Delete { name: String, uid: String },
}

/// Nothing here depends on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange(Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// All machines are as they should be.
    Settled,
    Inactive,
    BeingDeleted,
    Degraded(Trouble),
    /// A machine is on its way in, and nothing else moves meanwhile.
    Replacement(String),
    /// A machine is on its way out.
    Removal(String),
    /// A machine that should stay is not ready.
    Unready(Vec<String>),
    /// Taking a machine away would cost etcd its quorum, or nobody knows whether it would.
    Quorum(Etcd),
    /// A machine stays because its heir runs no healthy member of etcd yet.
    Member {
        machine: String,
        index: u32,
    },
    /// Machines differ from the template and stay until somebody deletes them.
    Deletion(Vec<String>),
    /// Nodes could not be listed; their return is a change.
    Nodes,
}

/// What keeps the set from acting. The reason is the condition's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("Invalid strategy: spec.strategy.type {0:?} must be RollingUpdate or OnDelete")]
    InvalidStrategy(String),
    #[error("Observed {} machine(s) already owned by another controller: {}", .0.len(), .0.join(", "))]
    MachinesAlreadyOwned(Vec<String>),
    #[error("No ready control plane machines found")]
    NoReadyMachines,
    #[error("Found {} unmanaged node(s): {}", .0.len(), .0.join(", "))]
    UnmanagedNodes(Vec<String>),
    #[error("Observed {observed} indexes, but spec.replicas is {wanted}")]
    ExcessIndexes { observed: usize, wanted: usize },
    #[error("Observed {} machine(s) whose name does not end with an index: {}", .0.len(), .0.join(", "))]
    NoIndex(Vec<String>),
    #[error("Observed {} failed replacement(s): {}", .0.len(), .0.join(", "))]
    FailedReplacement(Vec<String>),
    #[error("spec.template.machines_v1beta1_machine_openshift_io is missing")]
    NoTemplate,
    #[error(transparent)]
    Domains(#[from] DomainError),
}

/// Decides the next move for the control plane.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let set = &snapshot.set;
    let unchanged = |waiting| Plan {
        actions: Vec::new(),
        status: set.status.clone().unwrap_or_default(),
        next: Next::OnChange(waiting),
    };
    if set.metadata.deletion_timestamp.is_some() {
        return unchanged(Waiting::BeingDeleted);
    }
    if set.spec.state.as_deref() != Some("Active") {
        return unchanged(Waiting::Inactive);
    }
    if snapshot.nodes_unknown {
        return unchanged(Waiting::Nodes);
    }
    let (actions, waiting) = match Round::of(snapshot) {
        Ok(round) => {
            let mut actions = round.adoptions();
            let (more, waiting) = round.decide();
            actions.extend(more);
            (actions, waiting)
        }
        Err(trouble) => (Vec::new(), Waiting::Degraded(trouble)),
    };
    let status = status::of(snapshot, &waiting);
    Plan { actions, status, next: Next::OnChange(waiting) }
}

/// The control plane by index.
struct Round<'a> {
    snapshot: &'a Snapshot,
    on_delete: bool,
    wanted: usize,
    by_index: BTreeMap<u32, Vec<&'a Master>>,
}

impl<'a> Round<'a> {
    fn of(snapshot: &'a Snapshot) -> Result<Self, Trouble> {
        let spec = &snapshot.set.spec;
        let strategy = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate");
        if !matches!(strategy, "RollingUpdate" | "OnDelete") {
            return Err(Trouble::InvalidStrategy(strategy.to_owned()));
        }
        if spec.template.machines.is_none() {
            return Err(Trouble::NoTemplate);
        }
        let masters = &snapshot.masters;
        let names = |is: fn(&Master) -> bool| -> Vec<String> {
            masters.iter().filter(|master| is(master)).map(|master| master.name.clone()).collect()
        };
        let foreign = names(|master| master.owned_by_other);
        if !foreign.is_empty() {
            return Err(Trouble::MachinesAlreadyOwned(foreign));
        }
        if !snapshot.unmanaged_nodes.is_empty() {
            return Err(Trouble::UnmanagedNodes(snapshot.unmanaged_nodes.clone()));
        }
        let nameless = names(|master| master.index.is_none());
        if !nameless.is_empty() {
            return Err(Trouble::NoIndex(nameless));
        }
        if !masters.iter().any(|master| master.ready) {
            return Err(Trouble::NoReadyMachines);
        }
        let mut by_index: BTreeMap<u32, Vec<&Master>> = BTreeMap::new();
        for master in masters {
            by_index.entry(master.index.unwrap_or_default()).or_default().push(master);
        }
        let wanted = usize::try_from(spec.replicas.unwrap_or(3)).unwrap_or(0);
        if by_index.len() > wanted {
            return Err(Trouble::ExcessIndexes { observed: by_index.len(), wanted });
        }
        let failed = names(|master| master.failed && master.up_to_date && !master.deleting);
        if !failed.is_empty() {
            return Err(Trouble::FailedReplacement(failed));
        }
        Ok(Self { snapshot, on_delete: strategy == "OnDelete", wanted, by_index })
    }

    fn adoptions(&self) -> Vec<Action> {
        let orphans = self.snapshot.masters.iter().filter(|master| !master.owned && !master.deleting);
        orphans.map(|master| Action::Adopt { name: master.name.clone(), uid: master.uid.clone() }).collect()
    }

    /// One move at a time: first what is missing, then what is too much, then what is outdated.
    fn decide(&self) -> (Vec<Action>, Waiting) {
        let nothing = |waiting| (Vec::new(), waiting);
        if let Some(arriving) = self.arriving() {
            return nothing(Waiting::Replacement(arriving));
        }
        if let Some(index) = self.lowest_without_heir() {
            return self.create(index);
        }
        if let Some(old) = self.replaced() {
            return self.delete(old);
        }
        if let Some(leaving) = self.snapshot.masters.iter().find(|master| master.deleting) {
            return nothing(Waiting::Removal(leaving.name.clone()));
        }
        let outdated: Vec<_> = self.snapshot.masters.iter().filter(|master| !master.up_to_date).collect();
        if self.on_delete && !outdated.is_empty() {
            return nothing(Waiting::Deletion(outdated.iter().map(|master| master.name.clone()).collect()));
        }
        let unready = self.unready();
        if !unready.is_empty() {
            return nothing(Waiting::Unready(unready));
        }
        match outdated.iter().min_by_key(|master| master.index) {
            Some(next) => self.create(next.index.unwrap_or_default()),
            None => nothing(Waiting::Settled),
        }
    }

    /// A machine of the present template that has not had a node yet.
    fn arriving(&self) -> Option<String> {
        let is_arriving =
            |master: &&Master| master.up_to_date && !master.ready && !master.deleting && master.node.is_none();
        self.snapshot.masters.iter().find(is_arriving).map(|master| master.name.clone())
    }

    /// The lowest index that has no machine, or only machines on their way out.
    fn lowest_without_heir(&self) -> Option<u32> {
        let leaving = |masters: &Vec<&Master>| masters.iter().all(|master| master.deleting);
        let bereft = self.by_index.iter().find(|(_, masters)| leaving(masters)).map(|(index, _)| *index);
        bereft.or_else(|| {
            let missing = self.by_index.len() < self.wanted;
            missing.then(|| (0..).find(|index| !self.by_index.contains_key(index)).unwrap_or_default())
        })
    }

    /// An outdated machine whose replacement is ready.
    fn replaced(&self) -> Option<&'a Master> {
        self.by_index.values().find_map(|masters| {
            let heir = masters.iter().any(|master| master.up_to_date && master.ready && !master.deleting);
            masters.iter().find(|master| heir && !master.up_to_date && !master.deleting).copied()
        })
    }

    fn unready(&self) -> Vec<String> {
        self.snapshot.masters.iter().filter(|master| !master.ready).map(|master| master.name.clone()).collect()
    }

    fn create(&self, index: u32) -> (Vec<Action>, Waiting) {
        match facts::replacement(self.snapshot, index) {
            Ok(machine) => {
                let name = machine.metadata.name.clone().unwrap_or_default();
                (vec![Action::Create(Box::new(machine))], Waiting::Replacement(name))
            }
            Err(error) => (Vec::new(), Waiting::Degraded(error.into())),
        }
    }

    fn delete(&self, old: &Master) -> (Vec<Action>, Waiting) {
        if let Some(leaving) = self.snapshot.masters.iter().find(|master| master.deleting) {
            return (Vec::new(), Waiting::Removal(leaving.name.clone()));
        }
        let others: Vec<_> = self.unready().into_iter().filter(|name| *name != old.name).collect();
        if !others.is_empty() {
            return (Vec::new(), Waiting::Unready(others));
        }
        if !self.snapshot.etcd.survives_a_loss() {
            return (Vec::new(), Waiting::Quorum(self.snapshot.etcd.clone()));
        }
        let index = old.index.unwrap_or_default();
        let heirs = self.by_index[&index].iter().filter(|master| master.uid != old.uid && !master.deleting);
        if !self.snapshot.etcd.has_successor(old.node.as_deref(), heirs.map(|heir| heir.node.as_deref())) {
            return (Vec::new(), Waiting::Member { machine: old.name.clone(), index });
        }
        let delete = Action::Delete { name: old.name.clone(), uid: old.uid.clone() };
        (vec![delete], Waiting::Removal(old.name.clone()))
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => write!(f, "all machines of the control plane are up to date"),
            Self::Inactive => write!(f, "the set is not Active"),
            Self::BeingDeleted => write!(f, "the set is being deleted"),
            Self::Degraded(trouble) => write!(f, "{trouble}"),
            Self::Replacement(name) => write!(f, "machine {name} is on its way in"),
            Self::Removal(name) => write!(f, "machine {name} is on its way out"),
            Self::Unready(names) => write!(f, "not ready: {}", names.join(", ")),
            Self::Quorum(etcd) => write!(f, "taking a machine away is not safe: {etcd}"),
            Self::Member { machine, index } => {
                write!(
                    f,
                    "machine {machine} stays until its replacement with index {index} runs a healthy member of etcd"
                )
            }
            Self::Nodes => write!(f, "nodes could not be listed"),
            Self::Deletion(names) => write!(f, "older machines stay until they are deleted: {}", names.join(", ")),
        }
    }
}
