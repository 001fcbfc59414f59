//! What a change of machines, sets and deployments would do: which machines are created, drained and deleted, in which order.
//!
//! The planners of the machine controllers are asked again and again about a fleet in memory, in which every machine that is
//! asked for runs at once and every machine that is deleted is gone at once. What they ask for is the plan. Nothing is read or
//! written.

mod change;
mod departure;
mod rehearsal;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::known::Reading;
use api::machine::{ControlPlaneMachineSet, Machine, MachineDeployment, MachineSet};
use drain::PodFacts;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use serde_json::Value;

use crate::manifest::Manifest;
use rehearsal::Rehearsal;

pub use text::report;

/// The kinds that are planned here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Machine,
    MachineSet,
    MachineDeployment,
    ControlPlaneMachineSet,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Machine, Self::MachineSet, Self::MachineDeployment, Self::ControlPlaneMachineSet];

    /// The kind with this name, as manifests (`MachineSet`) and command lines (`machineset`, `machinesets`) write it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let is = |kind: &Self| {
            let own = kind.to_string().to_ascii_lowercase();
            name == own || name.strip_suffix('s') == Some(own.as_str())
        };
        Self::ALL.into_iter().find(is)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// API groups of the kinds.
const GROUPS: [&str; 2] = ["machine.openshift.io", "cluster.k8s.io"];

/// Whether a manifest is planned here, and not as a change of configs.
#[must_use]
pub fn is_planned(manifest: &Manifest) -> bool {
    GROUPS.contains(&manifest.group()) && Kind::named(&manifest.kind).is_some()
}

/// The pods that drains would move, by node.
#[must_use]
pub fn moved(pods: &[Pod], daemon_sets: &Reading<BTreeSet<String>>, now: Timestamp) -> BTreeMap<String, Vec<String>> {
    let mut moved: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let facts = PodFacts::from_object(pod);
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
            && drain::eviction::is_moved(&facts, daemon_sets, now)
        {
            moved.entry(node).or_default().push(facts.full_name());
        }
    }
    moved
}

/// The machines of a cluster as they were read.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub machines: Vec<Machine>,
    pub sets: Vec<MachineSet>,
    pub deployments: Vec<MachineDeployment>,
    pub control_planes: Vec<ControlPlaneMachineSet>,
    pub nodes: Vec<Node>,
    /// The pods that a drain would move, as `namespace/name`, by node. Absent where pods could not be read.
    pub pods: Option<BTreeMap<String, Vec<String>>>,
    pub now: Timestamp,
}

/// What a user would do.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Manifests of the kinds of [`Kind`].
    pub apply: Vec<Value>,
    pub delete: Vec<Name>,
}

/// An object that is named on a command line. Without a namespace it is looked for in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
}

impl Name {
    /// Reads `machineset/NAME` or `machineset/NAMESPACE/NAME`; `None` for any other kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, rest),
        };
        Some(Self { kind: Kind::named(kind)?, namespace, name: name.to_owned() })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{kind} {name:?}: {problem}")]
    Object { kind: Kind, name: String, problem: String },
    #[error("there is no {kind} {name} to delete")]
    NothingToDelete { kind: Kind, name: String },
    #[error(
        "{kind} {name:?} cannot be planned: plan takes Machine, MachineSet, MachineDeployment, ControlPlaneMachineSet"
    )]
    Unknown { kind: String, name: String },
}

/// What the change would do. The same words for people and for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// What happens together, in order: a later round waits for the machines of the earlier ones.
    pub rounds: Vec<Round>,
    /// What does not change, what does not converge, and why.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    pub create: Vec<Arrival>,
    pub delete: Vec<Departure>,
}

/// A machine that would be created.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrival {
    pub machine: String,
    /// Who asks for it, as `MachineSet worker-a`.
    pub by: String,
}

/// A machine that would be deleted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Departure {
    pub machine: String,
    pub by: String,
    /// Why this one and not another.
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub drains: bool,
    /// Pods that would move, as `namespace/name`; absent where pods could not be read.
    pub pods: Option<Vec<String>>,
    /// Pods whose budget would hold the drain now.
    pub blocked: Vec<BlockedPod>,
    /// Lifecycle hooks that hold the machine until their owners take them off.
    pub hooks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockedPod {
    pub pod: String,
    pub why: String,
}

impl Plan {
    /// Whether no machine comes or goes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Every pod that would move, as `namespace/name`.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<String> {
        let leaving = self.rounds.iter().flat_map(|round| &round.delete);
        leaving.flat_map(|it| it.pods.iter().flatten().cloned()).collect()
    }

    /// Notes why pods would not be evicted now.
    pub fn block(&mut self, why: &BTreeMap<String, String>) {
        for leaving in self.rounds.iter_mut().flat_map(|round| &mut round.delete) {
            let held = |pod: &String| Some(BlockedPod { pod: pod.clone(), why: why.get(pod)?.clone() });
            leaving.blocked = leaving.pods.iter().flatten().filter_map(held).collect();
        }
    }
}

/// Decides what the change would do to the fleet.
///
/// # Errors
/// When a manifest does not fit its kind, or what would be deleted does not exist.
pub fn plan(fleet: &Fleet, change: &Change) -> Result<Plan, Error> {
    let mut rehearsal = Rehearsal::new(fleet);
    for manifest in &change.apply {
        rehearsal.apply(manifest)?;
    }
    for name in &change.delete {
        rehearsal.delete(name)?;
    }
    Ok(rehearsal.play())
}

#[cfg(test)]
mod tests;
