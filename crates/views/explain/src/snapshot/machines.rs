//! What Machines, MachineSets and MachineHealthChecks say, as far as an explanation needs it.

use std::collections::BTreeMap;

use api::machine::{
    LifecycleHook, Machine, MachineCondition, MachineHealthCheck, MachineSet, condition as types, health_condition,
};
use api::names::{MACHINE_API_NAMESPACE, status};
use api::selector::Selector;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

/// What a Machine says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFacts {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub created: Option<Timestamp>,
    pub deleting_since: Option<Timestamp>,
    /// When its status last changed.
    pub since: Option<Timestamp>,
    /// Empty before its controller first saw it.
    pub phase: String,
    pub provider_id: Option<String>,
    /// The node that it became.
    pub node: Option<String>,
    /// The MachineSet that made it.
    pub set: Option<String>,
    /// Why it failed for good.
    pub error: Option<String>,
    pub drained: bool,
    /// Name and owner of each hook that holds the drain.
    pub pre_drain_hooks: Vec<(String, String)>,
    /// Name and owner of each hook that holds the removal of the instance.
    pub pre_terminate_hooks: Vec<(String, String)>,
    pub invalid: Option<Trouble>,
    pub not_created: Option<Trouble>,
    pub not_updated: Option<Trouble>,
    pub not_deleted: Option<Trouble>,
    pub drain_trouble: Option<Trouble>,
    pub not_joined: Option<Trouble>,
    pub node_gone: Option<Trouble>,
    pub instance_gone: Option<Trouble>,
}

/// A condition that is false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

/// What a MachineSet says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineSetFacts {
    pub name: String,
    pub namespace: String,
    pub desired: i32,
    pub replicas: i32,
    pub ready: i32,
    pub available: i32,
    /// Why it cannot be acted on.
    pub error: Option<String>,
}

/// What a MachineHealthCheck asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthCheckFacts {
    pub name: String,
    pub namespace: String,
    pub selector: Selector,
    pub symptoms: Vec<Symptom>,
    pub max_unhealthy: Option<String>,
    pub startup_timeout: Option<String>,
    /// Leaves the repair to another controller.
    pub remediation_template: Option<String>,
    /// Why it replaces nobody, in the words of its condition.
    pub held: Option<Trouble>,
}

/// A node condition that makes a machine unhealthy when it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    pub type_: String,
    pub status: String,
    pub timeout: String,
}

impl MachineFacts {
    /// The zone that its controller has found it in.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        let zone = self.labels.get(api::labels::MACHINE_ZONE).or_else(|| self.labels.get(api::labels::ZONE));
        zone.map(String::as_str).filter(|zone| !zone.is_empty())
    }

    pub(super) fn keyed(machine: &Machine) -> (String, Self) {
        let facts = Self::from_object(machine);
        (key(&facts.namespace, &facts.name), facts)
    }

    fn from_object(machine: &Machine) -> Self {
        let said = machine.status.clone().unwrap_or_default();
        let hooks = machine.spec.lifecycle_hooks.clone().unwrap_or_default();
        let named = |hooks: Vec<LifecycleHook>| hooks.into_iter().map(|hook| (hook.name, hook.owner)).collect();
        let trouble = |type_: &str| trouble(&said.conditions, type_);
        let mut owners = machine.metadata.owner_references.iter().flatten();
        let set = owners.find(|owner| owner.kind == "MachineSet" && owner.controller == Some(true));
        let time = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| time.0;
        let created = machine.metadata.creation_timestamp.as_ref().map(time);
        Self {
            name: machine.name_any(),
            namespace: machine.namespace().unwrap_or_default(),
            labels: machine.labels().clone(),
            created,
            deleting_since: machine.metadata.deletion_timestamp.as_ref().map(time),
            since: said.last_updated.as_ref().map(time).or(created),
            phase: said.phase.clone().unwrap_or_default(),
            provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
            node: said.node_ref.as_ref().and_then(|node| node.name.clone()),
            set: set.map(|owner| owner.name.clone()),
            error: said.error_message.clone().or_else(|| said.error_reason.clone()),
            drained: said.conditions.iter().any(|it| it.type_ == types::DRAINED && it.status == status::TRUE),
            pre_drain_hooks: named(hooks.pre_drain),
            pre_terminate_hooks: named(hooks.pre_terminate),
            invalid: trouble(types::VALID),
            not_created: trouble(types::INSTANCE_CREATED),
            not_updated: trouble(types::INSTANCE_UPDATED),
            not_deleted: trouble(types::INSTANCE_DELETED),
            drain_trouble: trouble(types::DRAINED),
            not_joined: trouble(types::NODE_JOINED),
            node_gone: trouble(types::NODE_EXISTS),
            // One that was never made does not exist either, and is told by its creation.
            instance_gone: trouble(types::INSTANCE_EXISTS).filter(|trouble| trouble.reason == "InstanceMissing"),
        }
    }
}

fn trouble(conditions: &[MachineCondition], type_: &str) -> Option<Trouble> {
    let condition = conditions.iter().find(|it| it.type_ == type_ && it.status == status::FALSE)?;
    Some(Trouble {
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    })
}

impl MachineSetFacts {
    pub(super) fn keyed(set: &MachineSet) -> (String, Self) {
        let said = set.status.clone().unwrap_or_default();
        let facts = Self {
            name: set.name_any(),
            namespace: set.namespace().unwrap_or_default(),
            desired: set.spec.replicas.unwrap_or(1),
            replicas: said.replicas.unwrap_or(0),
            ready: said.ready_replicas.unwrap_or(0),
            available: said.available_replicas.unwrap_or(0),
            error: said.error_message.or(said.error_reason),
        };
        (key(&facts.namespace, &facts.name), facts)
    }
}

impl HealthCheckFacts {
    /// One whose selector cannot be read chooses nothing, and its own status says so.
    pub(super) fn from_object(check: &MachineHealthCheck) -> Option<Self> {
        let spec = &check.spec;
        let symptoms = spec.unhealthy_conditions.iter().map(|it| Symptom {
            type_: it.type_.clone().unwrap_or_default(),
            status: it.status.clone().unwrap_or_default(),
            timeout: it.timeout.clone().unwrap_or_default(),
        });
        Some(Self {
            name: check.name_any(),
            namespace: check.namespace().unwrap_or_default(),
            selector: Selector::parse(&spec.selector.clone().unwrap_or_default()).ok()?,
            symptoms: symptoms.collect(),
            max_unhealthy: spec.max_unhealthy.as_ref().map(|limit| match limit {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(text) => text.clone(),
            }),
            startup_timeout: spec.node_startup_timeout.clone(),
            remediation_template: spec.remediation_template.as_ref().and_then(|template| template.name.clone()),
            held: check
                .status
                .as_ref()
                .and_then(|status| trouble(&status.conditions, health_condition::REMEDIATION_ALLOWED)),
        })
    }

    /// Whether it watches over this machine.
    #[must_use]
    pub fn chooses(&self, machine: &MachineFacts) -> bool {
        self.namespace == machine.namespace && self.selector.matches(&machine.labels)
    }
}

fn key(namespace: &str, name: &str) -> String {
    if namespace == MACHINE_API_NAMESPACE { name.to_owned() } else { format!("{namespace}/{name}") }
}
