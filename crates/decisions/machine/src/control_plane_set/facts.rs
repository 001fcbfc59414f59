//! What is known of the machines of the control plane, and what a new one looks like.

use std::collections::BTreeMap;
use std::fmt;

use api::labels::MACHINE_CLUSTER;
use api::machine::{ControlPlaneMachineSet, Machine, ProviderSpec, annotation, phase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};

use super::domains::{self, DomainError};
use super::{NAME, Snapshot};
use crate::link::is_linked;
use crate::set::Readiness;
use crate::template::ALPHABET;

/// One machine of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Master {
    pub name: String,
    pub uid: String,
    /// The number at the end of its name.
    pub index: Option<u32>,
    /// The set controls it.
    pub owned: bool,
    pub owned_by_other: bool,
    pub deleting: bool,
    /// It runs and its node is ready.
    pub ready: bool,
    /// The node that it has or had. Without one it is on its way in.
    pub node: Option<String>,
    pub failed: bool,
    pub up_to_date: bool,
    /// Which of the set's failure domains it is in.
    pub domain: Option<usize>,
}

/// What is known about etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Etcd {
    /// A setting says that it cannot be seen from here: its quorum is the installer's work.
    Elsewhere,
    /// Nobody has seen it, so nothing may be taken from it.
    #[default]
    Unknown,
    Members {
        /// The nodes whose members are seen, and whether each of these is healthy.
        seen: BTreeMap<String, bool>,
        /// How many members there are, also those that are not seen: a member whose node is gone is one until etcd removes it.
        all: usize,
    },
}

impl Etcd {
    /// Whether one healthy member may go for good. A rollout, which gives the node back, may spare a member of two.
    pub(super) fn survives_a_loss(&self) -> bool {
        match self {
            Self::Elsewhere => true,
            Self::Unknown => false,
            // The member that goes is counted among all until it is removed.
            Self::Members { seen, all } => healthy(seen).saturating_sub(1) > all / 2,
        }
    }

    /// Whether the member on one node, if it has one, has a successor on one of the others. A node that has booted is not yet
    /// a member, and may never be: off OpenShift somebody else makes it one.
    pub(super) fn has_successor<'a>(
        &self,
        node: Option<&str>,
        mut heirs: impl Iterator<Item = Option<&'a str>>,
    ) -> bool {
        let Self::Members { seen, all } = self else { return true };
        // While a member is not seen, any node may be the one that runs it.
        let is_member = *all > seen.len() || node.is_some_and(|node| seen.contains_key(node));
        !is_member || heirs.any(|heir| heir.is_some_and(|heir| seen.get(heir) == Some(&true)))
    }
}

fn healthy(seen: &BTreeMap<String, bool>) -> usize {
    seen.values().filter(|is_healthy| **is_healthy).count()
}

impl fmt::Display for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere => write!(f, "etcd cannot be seen from here"),
            Self::Unknown => write!(f, "etcd did not answer"),
            Self::Members { seen, all } => write!(f, "{} of {all} members of etcd are healthy", healthy(seen)),
        }
    }
}

impl Snapshot {
    /// Reads the set, the Machines it selects, and their nodes.
    pub fn from_objects<'a>(
        set: &ControlPlaneMachineSet,
        machines: impl IntoIterator<Item = &'a Machine>,
        node: impl Fn(&str) -> Option<&'a Node>,
        etcd: Etcd,
        now: Timestamp,
    ) -> Self {
        let selector = api::selector::Selector::parse(&set.spec.selector).ok();
        let selects = |machine: &&Machine| {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&labels))
        };
        let (ours, others): (Vec<_>, Vec<_>) = machines.into_iter().partition(|machine| selects(machine));
        let mut masters: Vec<_> = ours.iter().map(|machine| Master::of(set, machine, &node)).collect();
        masters.sort_by(|one, other| (one.index, &one.name).cmp(&(other.index, &other.name)));
        let taken = others.iter().filter_map(|machine| machine.metadata.name.clone()).collect();
        Self { set: set.clone(), masters, taken, unmanaged_nodes: Vec::new(), etcd, nodes_unknown: false, now }
    }
}

impl Master {
    fn of<'a>(set: &ControlPlaneMachineSet, machine: &Machine, node: impl Fn(&str) -> Option<&'a Node>) -> Self {
        let metadata = &machine.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        let status = machine.status.clone().unwrap_or_default();
        let linked = status.node_ref.as_ref();
        let found =
            linked.and_then(|it| node(it.name.as_deref().unwrap_or_default()).filter(|node| is_linked(it, node)));
        let ready = found.is_some_and(|node| Readiness::of_node(node) != Readiness::NotReady);
        let domain = domains::of_machine(set, machine);
        Self {
            index: name.rsplit('-').next().and_then(|digits| digits.parse().ok()),
            uid: metadata.uid.clone().unwrap_or_default(),
            owned: controller.is_some_and(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()),
            owned_by_other: controller.is_some_and(|owner| Some(&owner.uid) != set.metadata.uid.as_ref()),
            deleting: metadata.deletion_timestamp.is_some(),
            ready: ready && status.phase.as_deref() == Some(phase::RUNNING),
            node: linked.map(|it| it.name.clone().unwrap_or_default()),
            failed: status.phase.as_deref() == Some(phase::FAILED),
            up_to_date: domains::is_up_to_date(set, machine, domain),
            domain,
            name,
        }
    }
}

/// A new machine for an index. Its name follows from the machines that are at the index, so a plan from a view that does not
/// show it yet asks for the same name again.
pub(super) fn replacement(snapshot: &Snapshot, index: u32) -> Result<Machine, DomainError> {
    let set = &snapshot.set;
    let template = set.spec.template.machines.clone().unwrap_or_default();
    let domain = domains::choose(snapshot, index)?;
    let value = domains::provider_spec(set, domain)?;
    let mut annotations = template.metadata.annotations;
    annotations.insert(annotation::TEMPLATE_HASH.to_owned(), domains::hash(&value));
    let mut spec = template.spec.unwrap_or_default();
    spec.provider_spec = Some(ProviderSpec { value: Some(value) });
    spec.provider_config = None;
    // A template that was written from a Machine may still name that Machine's instance.
    spec.provider_id = None;
    let labels = template.metadata.labels;
    let cluster = labels.get(MACHINE_CLUSTER).cloned().unwrap_or_default();
    let prefix = set.spec.machine_name_prefix.clone().unwrap_or_else(|| format!("{cluster}-master"));
    Ok(Machine {
        metadata: ObjectMeta {
            name: Some(free_name(snapshot, &prefix, index)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{}/v1", api::machine::GROUP),
                kind: "ControlPlaneMachineSet".to_owned(),
                name: set.metadata.name.clone().unwrap_or(NAME.to_owned()),
                uid: set.metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    })
}

fn free_name(snapshot: &Snapshot, prefix: &str, index: u32) -> String {
    let here: Vec<_> = snapshot
        .masters
        .iter()
        .filter(|master| master.index == Some(index))
        .map(|master| master.uid.as_str())
        .collect();
    let uid = snapshot.set.metadata.uid.as_deref().unwrap_or_default();
    let name = |salt: u32| {
        let digest = Sha256::digest(format!("{uid}/{index}/{}/{salt}", here.join(",")));
        let middle: String =
            digest.iter().take(5).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect();
        format!("{prefix}-{middle}-{index}")
    };
    let is_taken =
        |name: &String| snapshot.taken.contains(name) || snapshot.masters.iter().any(|master| master.name == *name);
    (0..).map(name).find(|name| !is_taken(name)).expect("the salts do not end, and the names that are taken do")
}
