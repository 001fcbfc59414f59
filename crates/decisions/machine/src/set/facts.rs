//! What a set knows of each Machine, and which Machines are its own.

use std::collections::BTreeMap;

use api::annotations;
use api::machine::{Machine, MachineDeployment, MachineSet, annotation};
use api::selector::Selector;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{Action, Snapshot};
use crate::lifecycle;
use crate::link::is_linked;
use crate::template::{self, Fingerprint};

/// The facts of one Machine that its set depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub owner: Owner,
    pub deleting: bool,
    pub created: Option<Timestamp>,
    /// It has a node, or had one.
    pub linked: bool,
    /// Its status has an error.
    pub failed: bool,
    /// A person or the autoscaler asked for it to go first.
    pub delete_me: bool,
    /// The provider had no capacity or no quota for it.
    pub starved: bool,
    pub readiness: Readiness,
    /// Whether it looks like the set's template, or that of the set's deployment.
    pub matches_template: bool,
    /// What it says about that itself.
    pub says_matches: Option<bool>,
}

/// Who controls a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    Nobody,
    ThisSet,
    Somebody,
}

/// Whether a Machine's node is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    #[default]
    NotReady,
    /// Since when, if the node says so.
    Ready(Option<Timestamp>),
}

impl Snapshot {
    /// Reads a set, the Machines of its namespace and their nodes. Machines that somebody else controls only block names.
    pub fn from_objects<'a>(
        set: &MachineSet,
        machines: impl IntoIterator<Item = &'a Machine>,
        node: impl Fn(&str) -> Option<&'a Node>,
        now: Timestamp,
    ) -> Self {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let template = set.spec.template.clone().unwrap_or_default();
        let template = Fingerprint::of(&template);
        let members = machines.into_iter().map(|machine| Member {
            matches_template: template.matches(machine),
            ..Member::from_object(machine, uid, &node)
        });
        let (members, others): (Vec<_>, Vec<_>) = members.partition(|member| member.owner != Owner::Somebody);
        let taken = others.into_iter().map(|member| member.name).collect();
        Self { set: set.clone(), members, taken, nodes_unknown: false, now }
    }
}

impl Snapshot {
    /// With the deployment that controls the set, if one does. Machines of a set that is not of the deployment's present template
    /// look like that of the set and are outdated all the same.
    #[must_use]
    pub fn with_deployment(mut self, deployment: Option<&MachineDeployment>) -> Self {
        let own = self.set.spec.template.clone().unwrap_or_default();
        let recorded = self.set.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TEMPLATE_HASH));
        let is_present = deployment.is_none_or(|deployment| {
            let wanted = &deployment.spec.template;
            recorded.is_some_and(|hash| *hash == template::hash(wanted)) || template::is_same(&own, wanted)
        });
        self.members.iter_mut().for_each(|member| member.matches_template &= is_present);
        self
    }
}

impl Member {
    /// Reads a Machine as the set with this uid sees it.
    pub fn from_object<'a>(machine: &Machine, set_uid: &str, node: impl Fn(&str) -> Option<&'a Node>) -> Self {
        let metadata = &machine.metadata;
        let status = machine.status.as_ref();
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
        let reference = status.and_then(|status| status.node_ref.as_ref());
        let found =
            reference.and_then(|it| node(it.name.as_deref().unwrap_or_default()).filter(|node| is_linked(it, node)));
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            owner: match controller {
                None => Owner::Nobody,
                Some(owner) if owner.uid == set_uid => Owner::ThisSet,
                Some(_) => Owner::Somebody,
            },
            deleting: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            linked: reference.is_some(),
            failed: status.is_some_and(|status| status.error_reason.is_some() || status.error_message.is_some()),
            delete_me: [annotations::DELETE_MACHINE, annotations::DELETE_MACHINE_OLD]
                .iter()
                .any(|key| annotation(key).is_some_and(|value| !value.is_empty())),
            starved: status.is_some_and(|status| lifecycle::is_starved(&status.conditions)),
            readiness: found.map_or(Readiness::NotReady, Readiness::of_node),
            matches_template: true,
            says_matches: annotation(annotation::MATCHES_TEMPLATE).and_then(|value| value.parse().ok()),
        }
    }
}

impl Readiness {
    /// Reads a node.
    pub fn of_node(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        match conditions.iter().find(|condition| condition.type_ == "Ready") {
            Some(ready) if ready.status == api::names::status::TRUE => {
                Self::Ready(ready.last_transition_time.as_ref().map(|time| time.0))
            }
            Some(_) | None => Self::NotReady,
        }
    }
}

/// The Machines of a snapshot by what they are to the set.
pub(super) struct Sorted<'a> {
    /// The set's own, adopted ones included, that are not being deleted, by name.
    pub(super) kept: Vec<&'a Member>,
    adopted: Vec<&'a Member>,
    released: Vec<&'a Member>,
}

/// Sorts the Machines of a snapshot. Only as many orphans are adopted as the set lacks: one that it adopted to delete it could
/// be another set's by then.
pub(super) fn sort<'a>(snapshot: &'a Snapshot, selector: &Selector) -> Sorted<'a> {
    let mut sorted = Sorted { kept: Vec::new(), adopted: Vec::new(), released: Vec::new() };
    let mut orphans = Vec::new();
    for member in snapshot.members.iter().filter(|member| !member.deleting) {
        match (&member.owner, selector.matches(&member.labels)) {
            (Owner::ThisSet, true) => sorted.kept.push(member),
            (Owner::Nobody, true) => orphans.push(member),
            (Owner::ThisSet, false) => sorted.released.push(member),
            (Owner::Nobody, false) | (Owner::Somebody, _) => {}
        }
    }
    let wanted = snapshot.set.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(0);
    orphans.sort_by(|one, other| one.name.cmp(&other.name));
    orphans.truncate(wanted.saturating_sub(sorted.kept.len()));
    sorted.kept.extend(&orphans);
    sorted.adopted = orphans;
    sorted.kept.sort_by(|one, other| one.name.cmp(&other.name));
    sorted
}

impl Sorted<'_> {
    /// Machines whose word about the template is missing or wrong.
    pub(super) fn marks(&self) -> impl Iterator<Item = Action> {
        let wrong = self.kept.iter().filter(|member| member.says_matches != Some(member.matches_template));
        wrong.map(|member| Action::Mark { name: member.name.clone(), matches: member.matches_template })
    }

    pub(super) fn ownership_actions(&self) -> Vec<Action> {
        let adopt = |member: &&Member| Action::Adopt { name: member.name.clone(), uid: member.uid.clone() };
        let release = |member: &&Member| Action::Release { name: member.name.clone(), uid: member.uid.clone() };
        self.adopted.iter().map(adopt).chain(self.released.iter().map(release)).collect()
    }
}
