//! What a MachineSet's status says.

use api::machine::{MachineCondition, MachineSet, MachineSetStatus, severity};
use jiff::{SignedDuration, Timestamp};

use super::{Invalid, Member, Readiness, Waiting, selector_text};
use crate::condition;

/// The only reason that the schema of MachineSets knows.
const INVALID_CONFIGURATION: &str = "InvalidConfiguration";

/// The numbers, from the Machines as they were before scaling.
pub(super) fn of_members(set: &MachineSet, kept: &[&Member], now: Timestamp) -> MachineSetStatus {
    let template = set.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let wears_all = |member: &&&Member| {
        template.is_none_or(|template| template.labels.iter().all(|(key, value)| member.labels.get(key) == Some(value)))
    };
    let old = set.status.clone().unwrap_or_default();
    MachineSetStatus {
        replicas: count(kept.len()),
        fully_labeled_replicas: count(kept.iter().filter(wears_all).count()),
        ready_replicas: count(kept.iter().filter(|member| member.readiness != Readiness::NotReady).count()),
        available_replicas: count(kept.iter().filter(|member| is_available(member, min_ready(set), now)).count()),
        observed_generation: set.metadata.generation,
        label_selector: set.spec.selector.as_ref().map(selector_text),
        conditions: conditions(old.conditions, kept, now),
        error_reason: None,
        error_message: None,
    }
}

/// False while Machines of the set have failed.
const MACHINES_HEALTHY: &str = "MachinesHealthy";
/// So many names tell people where to look; a condition is not a list.
const NAMED: usize = 10;

/// A Machine that has failed still counts as a replica, so nothing replaces it until somebody deletes it.
fn conditions(mut conditions: Vec<MachineCondition>, kept: &[&Member], now: Timestamp) -> Vec<MachineCondition> {
    let failed: Vec<_> = kept.iter().filter(|member| member.failed).map(|member| member.name.as_str()).collect();
    if failed.is_empty() {
        condition::clear(&mut conditions, MACHINES_HEALTHY);
        return conditions;
    }
    let more = if failed.len() > NAMED { ", …" } else { "" };
    let message = format!(
        "{} machines have failed and still count as replicas: {}{more}; delete them, or let a MachineHealthCheck do it",
        failed.len(),
        failed[..failed.len().min(NAMED)].join(", "),
    );
    let told = condition::is_false(MACHINES_HEALTHY, severity::WARNING, "MachinesFailed", message);
    condition::set(&mut conditions, told, now);
    conditions
}

/// False while the provider has no capacity for more Machines.
const MACHINES_CREATED: &str = "MachinesCreated";

/// Says so if the set waits for the provider's capacity.
pub(super) fn with_capacity(mut status: MachineSetStatus, waiting: &Waiting, now: Timestamp) -> MachineSetStatus {
    if let Waiting::Capacity { .. } = waiting {
        let told = condition::is_false(MACHINES_CREATED, severity::WARNING, "NoCapacity", waiting.to_string());
        condition::set(&mut status.conditions, told, now);
    } else {
        condition::clear(&mut status.conditions, MACHINES_CREATED);
    }
    status
}

/// The last known numbers, and why they are not brought up to date.
pub(super) fn of_invalid(old: MachineSetStatus, problem: &Invalid) -> MachineSetStatus {
    MachineSetStatus {
        error_reason: Some(INVALID_CONFIGURATION.to_owned()),
        error_message: Some(problem.to_string()),
        ..old
    }
}

/// When the next ready Machine becomes available by the passing of time alone.
pub(super) fn next_available(set: &MachineSet, kept: &[&Member], now: Timestamp) -> Option<SignedDuration> {
    let min_ready = min_ready(set);
    let waiting = kept.iter().filter(|member| !is_available(member, min_ready, now));
    let left = waiting.filter_map(|member| match member.readiness {
        // Strictly after, so the moment itself is one nanosecond too early.
        Readiness::Ready(Some(since)) => Some(min_ready - now.duration_since(since) + SignedDuration::from_nanos(1)),
        Readiness::Ready(None) | Readiness::NotReady => None,
    });
    left.min().map(|delay| delay.max(SignedDuration::ZERO))
}

fn is_available(member: &Member, min_ready: SignedDuration, now: Timestamp) -> bool {
    match member.readiness {
        Readiness::NotReady => false,
        Readiness::Ready(_) if min_ready.is_zero() => true,
        // Without the time of its last change nobody can say for how long it has been ready.
        Readiness::Ready(None) => false,
        Readiness::Ready(Some(since)) => now.duration_since(since) > min_ready,
    }
}

fn min_ready(set: &MachineSet) -> SignedDuration {
    SignedDuration::from_secs(set.spec.min_ready_seconds.unwrap_or(0).max(0).into())
}

fn count(number: usize) -> Option<i32> {
    Some(i32::try_from(number).unwrap_or(i32::MAX))
}
