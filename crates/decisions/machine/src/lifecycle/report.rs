//! The status of a Machine while a plan is made.
//!
//! Upstream's rules: `Drainable` and `Terminable` are computed anew with every write, errors are there only while the phase
//! is `Failed`, and `lastUpdated` moves only when phase, errors or conditions change.

use api::labels;
use api::machine::{LifecycleHook, Machine, MachineCondition, MachineStatus, condition as types, phase, severity};
use api::{annotations, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Amendment, Contested, LinkedNode, Snapshot};
use crate::condition;
use crate::provider::{Error, ErrorKind, Instance};

/// Why an instance is not a Machine's alone: another Machine names it.
pub(super) const CLAIMED_TWICE: &str = "ProviderIDClaimedTwice";

pub(super) struct Report<'a> {
    machine: &'a Machine,
    status: MachineStatus,
    now: Timestamp,
}

impl<'a> Report<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let status = snapshot.machine.status.clone().unwrap_or_default();
        Self { machine: &snapshot.machine, status, now: snapshot.now }
    }

    /// The status as the Machine has it.
    pub(super) fn unchanged(&self) -> MachineStatus {
        self.machine.status.clone().unwrap_or_default()
    }

    pub(super) fn phase(&self) -> Option<&str> {
        self.status.phase.as_deref()
    }

    pub(super) fn set_phase(&mut self, phase: &str) {
        self.status.phase = Some(phase.to_owned());
    }

    pub(super) fn set(&mut self, condition: MachineCondition) -> bool {
        condition::set(&mut self.status.conditions, condition, self.now)
    }

    pub(super) fn clear(&mut self, type_: &str) {
        condition::clear(&mut self.status.conditions, type_);
    }

    /// Sets one of our conditions that are there only while something is wrong. Says whether that is news.
    pub(super) fn trouble(&mut self, type_: &str, reason: &str, message: String) -> bool {
        self.set(condition::is_false(type_, severity::WARNING, reason, message))
    }

    /// The refusal that a condition of trouble tells of.
    pub(super) fn refusal(&self, type_: &str) -> Option<Error> {
        let condition = condition::find(&self.status.conditions, type_)?;
        let kind = match condition.reason.as_deref().unwrap_or_default() {
            "NotFound" => ErrorKind::NotFound,
            "InvalidSpec" => ErrorKind::InvalidSpec,
            "NoCapacity" => ErrorKind::NoCapacity,
            "Quota" => ErrorKind::Quota,
            "Throttled" => ErrorKind::Throttled { retry_after: None },
            "Credentials" => ErrorKind::Credentials,
            "Unreachable" => ErrorKind::Unreachable,
            _ => ErrorKind::Other,
        };
        Some(Error::new(kind, condition.message.clone().unwrap_or_default()))
    }

    /// For how long a condition has been what it is.
    pub(super) fn lasting(&self, type_: &str) -> SignedDuration {
        let since = condition::find(&self.status.conditions, type_).and_then(|it| it.last_transition_time.as_ref());
        since.map_or(SignedDuration::ZERO, |since| self.now.duration_since(since.0))
    }

    /// Whether the Machine once had an instance.
    pub(super) fn was_provisioned(&self) -> bool {
        self.has_addresses() || self.machine.spec.provider_id.as_deref().is_some_and(|id| !id.is_empty())
    }

    pub(super) fn has_addresses(&self) -> bool {
        !self.status.addresses.is_empty()
    }

    pub(super) fn has_provider_status(&self) -> bool {
        self.status.provider_status.as_ref().and_then(Value::as_object).is_some_and(|status| !status.is_empty())
    }

    /// Whether the instance can be told from others now.
    pub(super) fn is_identified(&self, instance: &Instance) -> bool {
        self.was_provisioned() || instance.provider_id.is_some()
    }

    /// Takes over an instance's facts. What lives outside the status is returned, if any of it is new.
    pub(super) fn absorb(&mut self, instance: &Instance) -> Option<Amendment> {
        self.status.addresses.clone_from(&instance.addresses);
        if instance.provider_status.is_some() {
            self.status.provider_status.clone_from(&instance.provider_status);
        }
        let metadata = &self.machine.metadata;
        let mut wanted = Amendment {
            provider_id: instance.provider_id.clone().filter(|_| {
                let known = self.machine.spec.provider_id.as_deref();
                known.is_none_or(str::is_empty)
            }),
            labels: instance.labels.clone(),
            annotations: instance.annotations.clone(),
            node_labels: Default::default(),
        };
        for (key, value) in [
            (labels::MACHINE_REGION, &instance.region),
            (labels::MACHINE_ZONE, &instance.zone),
            (labels::MACHINE_INSTANCE_TYPE, &instance.instance_type),
        ] {
            wanted.labels.extend(value.clone().map(|value| (key.to_owned(), value)));
        }
        // Clouds name zones as they like; one value that the API server refuses would refuse everything beside it.
        wanted.labels.retain(|_, value| is_label_value(value));
        if !instance.state_word.is_empty() {
            wanted.annotations.insert(annotations::INSTANCE_STATE.to_owned(), instance.state_word.clone());
        }
        if instance.interruptible {
            wanted.labels.insert(labels::INTERRUPTIBLE_INSTANCE.to_owned(), String::new());
            wanted.node_labels.insert(labels::INTERRUPTIBLE_INSTANCE.to_owned(), String::new());
        }
        let node_labels = self.machine.spec.metadata.as_ref().map(|metadata| &metadata.labels);
        wanted.labels.retain(|key, value| metadata.labels.as_ref().and_then(|all| all.get(key)) != Some(value));
        wanted
            .annotations
            .retain(|key, value| metadata.annotations.as_ref().and_then(|all| all.get(key)) != Some(value));
        wanted.node_labels.retain(|key, value| node_labels.and_then(|all| all.get(key)) != Some(value));
        (wanted != Amendment::default()).then_some(wanted)
    }

    /// Takes back everything that is known of an instance that the cloud gave up on.
    pub(super) fn forget_instance(&mut self) -> Option<Amendment> {
        self.status.addresses.clear();
        self.status.provider_status = None;
        let has_id = self.machine.spec.provider_id.as_deref().is_some_and(|id| !id.is_empty());
        has_id.then(|| Amendment { provider_id: Some(String::new()), ..Amendment::default() })
    }

    /// Says so if more than one instance belongs to the Machine, or another one than it names.
    pub(super) fn several(&mut self, sighting: Option<&Result<Vec<Instance>, Error>>) {
        let Some(Ok(instances)) = sighting else { return };
        let mut ids: Vec<_> =
            instances.iter().map(|it| it.provider_id.as_deref().unwrap_or("one without an id")).collect();
        // Providers list in any order, and another order would be another message.
        ids.sort_unstable();
        let named = self.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        if ids.len() > 1 {
            let message = format!("{} instances carry this machine's mark: {}", ids.len(), ids.join(", "));
            self.trouble(types::INSTANCE_UNIQUE, "SeveralInstances", message);
        } else if let (Some(named), [Instance { provider_id: Some(found), .. }]) = (named, instances.as_slice())
            && named != found
        {
            let message = format!("spec.providerID is {named}, but the provider found {found}");
            self.trouble(types::INSTANCE_UNIQUE, "ProviderIDMismatch", message);
        } else {
            self.clear(types::INSTANCE_UNIQUE);
        }
    }

    /// Takes back that another Machine claims the instance. What [`Self::several`] says stays until it looks again: a
    /// condition that is taken away and set again in every pass would be written in every pass.
    pub(super) fn clear_claim(&mut self) {
        let told = condition::find(&self.status.conditions, types::INSTANCE_UNIQUE);
        if told.is_some_and(|told| told.reason.as_deref() == Some(CLAIMED_TWICE)) {
            self.clear(types::INSTANCE_UNIQUE);
        }
    }

    /// Says so if other Machines have the address of the Machine's node.
    pub(super) fn contest(&mut self, contested: Option<&Contested>) {
        let Some(Contested { node, others }) = contested else { return self.clear(types::NODE_UNIQUE) };
        let message = format!(
            "node {node} is linked to no machine, because {} has its address too; correct or delete one of them",
            others.join(", ")
        );
        self.trouble(types::NODE_UNIQUE, "AddressClaimedTwice", message);
    }

    /// Says so if the node that the Machine had is gone.
    pub(super) fn node(&mut self, node: &LinkedNode) {
        match node {
            LinkedNode::Missing => {
                let name = self.status.node_ref.as_ref().and_then(|it| it.name.clone()).unwrap_or_default();
                self.trouble(types::NODE_EXISTS, "NodeMissing", format!("node {name} is gone"));
            }
            LinkedNode::Present { .. } => self.clear(types::NODE_EXISTS),
            LinkedNode::Unlinked | LinkedNode::Unknown => {}
        }
    }

    /// Ends a Machine for good. The state that the provider last gave is no longer known.
    pub(super) fn fail(&mut self, reason: Option<&str>, message: &str) -> Amendment {
        self.set_phase(phase::FAILED);
        self.status.error_reason = reason.map(str::to_owned);
        self.status.error_message = Some(message.to_owned());
        if let Some(Value::Object(status)) = &mut self.status.provider_status {
            for key in ["instanceState", "vmState"] {
                if let Some(state) = status.get_mut(key) {
                    *state = names::status::UNKNOWN.into();
                }
            }
        }
        let state = (annotations::INSTANCE_STATE.to_owned(), names::status::UNKNOWN.to_owned());
        Amendment { annotations: [state].into(), ..Amendment::default() }
    }

    /// The status to write.
    pub(super) fn finish(mut self) -> MachineStatus {
        let hooks = self.machine.spec.lifecycle_hooks.clone().unwrap_or_default();
        self.set(hook_condition(types::DRAINABLE, "Drain", &hooks.pre_drain));
        self.set(hook_condition(types::TERMINABLE, "Terminate", &hooks.pre_terminate));
        self.bare()
    }

    /// The status to write, without the conditions of the hooks.
    pub(super) fn bare(mut self) -> MachineStatus {
        if self.phase() != Some(phase::FAILED) {
            self.status.error_reason = None;
            self.status.error_message = None;
        }
        let old = self.unchanged();
        let moved = old.phase != self.status.phase
            || old.error_reason != self.status.error_reason
            || old.error_message != self.status.error_message
            || old.conditions != self.status.conditions;
        if moved {
            self.status.last_updated = Some(condition::whole_seconds(self.now));
        }
        self.status
    }
}

fn is_label_value(value: &str) -> bool {
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
    value.len() <= 63
        && value.chars().all(is_inner)
        && is_end(value.chars().next())
        && is_end(value.chars().next_back())
}

fn hook_condition(type_: &str, operation: &str, hooks: &[LifecycleHook]) -> MachineCondition {
    if hooks.is_empty() {
        return condition::is_true(type_);
    }
    let message = format!("{operation} operation currently blocked by: {}", hook_list(hooks));
    condition::is_false(type_, severity::WARNING, "HookPresent", message)
}

/// Hooks as upstream prints them.
pub(crate) fn hook_list(hooks: &[LifecycleHook]) -> String {
    let all: Vec<_> = hooks.iter().map(|hook| format!("{{Name:{} Owner:{}}}", hook.name, hook.owner)).collect();
    format!("[{}]", all.join(" "))
}
