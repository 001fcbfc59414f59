//! What a health check knows of one machine and its node.

use api::annotations;
use api::labels;
use api::machine::{Machine, MachineHealthCheck, condition as types, phase};
use api::names::status::TRUE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use sha2::{Digest, Sha256};

use super::{Check, Snapshot, replacements, verdict};
use crate::condition;
use crate::lifecycle::Record;
use crate::link::is_linked;

/// One machine of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub uid: String,
    /// The version of the Machine that was looked at.
    pub resource_version: Option<String>,
    pub failed: bool,
    pub deleting: bool,
    /// Since when it could have got a node.
    pub started: Option<Timestamp>,
    /// Something controls the machine and would make another.
    pub controlled: bool,
    /// That something is a MachineSet.
    pub of_machine_set: bool,
    /// The set that controls the machine.
    pub set: Option<String>,
    /// The bare metal provider was asked to power-cycle it.
    pub externally_remediated: bool,
    /// It says of itself that it is part of the control plane.
    pub control_plane: bool,
    pub node: TargetNode,
    /// What makes machines like it: its MachineSet, or the deployment of that set.
    pub group: String,
    /// Tells specs apart. Empty where nobody compares them.
    pub spec: String,
}

/// The node of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TargetNode {
    /// It has none yet.
    #[default]
    None,
    /// It has a name and no node.
    Missing(String),
    /// Nodes could not be listed, so nothing follows.
    Unknown(String),
    Present(Box<NodeFacts>),
}

/// The facts of a node that health depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub name: String,
    /// Type, status and since when.
    pub conditions: Vec<(String, String, Option<Timestamp>)>,
    /// A config change is under way: the node drains, writes or reboots on purpose.
    pub planned_work: bool,
    pub control_plane: bool,
    /// The config that the node runs or is going to.
    pub config: Option<String>,
    /// The OS image that the node runs or is going to.
    pub image: Option<String>,
    /// The node was asked to reboot.
    pub rebooting: bool,
}

/// Asks a node's own agent for a reboot.
pub const REBOOT: &str = "healthchecking.openshift.io/machine-remediation-reboot";

impl Snapshot {
    /// Reads a check, the machines of its namespace and their nodes; machines of other namespaces are left out. `node` gives `Err` when nodes could not be listed.
    pub fn from_objects<'a>(
        check: &MachineHealthCheck,
        machines: impl IntoIterator<Item = &'a Machine>,
        node: impl Fn(&str) -> Result<Option<&'a Node>, ()>,
        now: Timestamp,
    ) -> Self {
        let parsed = Check::from_object(check);
        let selects = |machine: &&Machine| {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            machine.metadata.namespace == check.metadata.namespace
                && parsed.as_ref().is_ok_and(|check| check.selector.matches(&labels))
        };
        let machines = machines.into_iter().filter(selects);
        let targets = machines.map(|machine| (machine, Target::from_object(machine, &node)));
        let targets = compared(parsed.as_ref().ok(), targets.collect(), now);
        Self {
            check: parsed,
            status: check.status.clone().unwrap_or_default(),
            targets,
            template_exists: true,
            template_unread: None,
            requests: Default::default(),
            suspected: None,
            sets: Default::default(),
            strength: None,
            now,
        }
    }
}

/// The targets by name. Their specs are told apart only if several machines are unhealthy: reading ten thousand of them with
/// every event of a node would cost more than everything else.
pub(super) fn compared(check: Option<&Check>, mut targets: Vec<(&Machine, Target)>, now: Timestamp) -> Vec<Target> {
    let is_sick =
        |target: &Target| check.is_some_and(|check| verdict::of(check, target, None, now).needs_remediation());
    if targets.iter().filter(|(_, target)| is_sick(target)).nth(1).is_some() {
        for (machine, target) in &mut targets {
            let text = serde_json::to_vec(&machine.spec.provider_value()).unwrap_or_default();
            target.spec = hex::encode(Sha256::digest(text));
        }
    }
    let mut targets: Vec<_> = targets.into_iter().map(|(_, target)| target).collect();
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    targets
}

/// Since when a machine could have got a node: since its instance was asked for or, where that is not recorded, since it was
/// seen. `lastUpdated` moves with every condition and is only asked when nothing else is known.
fn started(machine: &Machine) -> Option<Timestamp> {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let exists = condition::find(conditions, types::INSTANCE_EXISTS).filter(|exists| exists.status == TRUE);
    let exists = exists.and_then(|exists| exists.last_transition_time.as_ref());
    let updated = machine.status.as_ref().and_then(|status| status.last_updated.as_ref());
    let created = machine.metadata.creation_timestamp.as_ref();
    let told = exists.or(updated).or(created).map(|time| time.0);
    Record::of(machine).map(|record| record.last_try).or(told)
}

/// What makes machines like this one. The sets of one deployment differ in the hash at the end of their names.
fn group(machine: &Machine) -> String {
    let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
    let name = owners.iter().find(|owner| owner.controller == Some(true)).map_or("", |owner| owner.name.as_str());
    let hash = machine.metadata.labels.as_ref().and_then(|all| all.get(labels::MACHINE_TEMPLATE_HASH));
    let base = hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    base.unwrap_or(name).to_owned()
}

impl Target {
    pub fn from_object<'a>(machine: &Machine, node: impl Fn(&str) -> Result<Option<&'a Node>, ()>) -> Self {
        let metadata = &machine.metadata;
        let status = machine.status.as_ref();
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let label = |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let annotated = |key: &str| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
        let linked = status.and_then(|status| status.node_ref.as_ref());
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            failed: status.and_then(|status| status.phase.as_deref()) == Some(phase::FAILED),
            deleting: metadata.deletion_timestamp.is_some(),
            started: started(machine),
            controlled: owners.iter().any(|owner| owner.controller == Some(true)),
            set: replacements::set_of(machine),
            of_machine_set: owners.iter().any(|owner| owner.kind == "MachineSet"),
            externally_remediated: annotated(annotations::EXTERNAL_REMEDIATION),
            control_plane: [labels::MACHINE_ROLE, labels::MACHINE_TYPE].iter().any(|key| label(key) == Some("master")),
            node: linked.map_or(TargetNode::None, |reference| {
                let name = reference.name.clone().unwrap_or_default();
                match node(&name).map(|node| node.filter(|node| is_linked(reference, node))) {
                    Ok(Some(node)) => TargetNode::Present(Box::new(NodeFacts::from_object(node))),
                    Ok(None) => TargetNode::Missing(name),
                    Err(()) => TargetNode::Unknown(name),
                }
            }),
            group: group(machine),
            spec: String::new(),
        }
    }

    pub(super) fn node_name(&self) -> &str {
        match &self.node {
            TargetNode::None => "",
            TargetNode::Missing(name) | TargetNode::Unknown(name) => name,
            TargetNode::Present(node) => &node.name,
        }
    }

    /// What a suspicion is about: the machine without a node, or with this one. One that waited long for its node has not
    /// been unwell with it for as long.
    pub(super) fn suspect(&self) -> String {
        match &self.node {
            TargetNode::None => self.name.clone(),
            TargetNode::Missing(node) => format!("{} without {node}", self.name),
            TargetNode::Present(node) => format!("{} with {}", self.name, node.name),
            TargetNode::Unknown(node) => format!("{} with {node}", self.name),
        }
    }

    pub(super) fn node(&self) -> Option<&NodeFacts> {
        match &self.node {
            TargetNode::Present(node) => Some(node),
            TargetNode::None | TargetNode::Missing(_) | TargetNode::Unknown(_) => None,
        }
    }
}

impl NodeFacts {
    pub fn from_object(node: &Node) -> Self {
        let metadata = &node.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let present = |key: &str| annotation(key).filter(|value| !value.is_empty());
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let differs = |one: &str, other: &str| present(one).is_some() && annotation(one) != annotation(other);
        let roles = [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER];
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            conditions: conditions
                .iter()
                .map(|it| (it.type_.clone(), it.status.clone(), it.last_transition_time.as_ref().map(|time| time.0)))
                .collect(),
            planned_work: differs(annotations::DESIRED_CONFIG, annotations::CURRENT_CONFIG)
                || differs(annotations::DESIRED_DRAIN, annotations::LAST_APPLIED_DRAIN)
                || present(annotations::POST_CONFIG_ACTION).is_some()
                || annotation(annotations::STATE) == Some(api::names::state::WORKING),
            control_plane: roles.iter().any(|role| metadata.labels.as_ref().is_some_and(|all| all.contains_key(*role))),
            config: present(annotations::DESIRED_CONFIG).map(str::to_owned),
            image: present(annotations::DESIRED_IMAGE).map(str::to_owned),
            rebooting: annotation(REBOOT).is_some(),
        }
    }
}
