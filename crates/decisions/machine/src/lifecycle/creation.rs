//! From no instance to an instance.

use api::machine::{condition as types, phase, severity};
use jiff::SignedDuration;

use super::report::Report;
use super::{Action, Call, LinkedNode, POLL, Plan, Record, Snapshot, Waiting, retry, settle_into};
use crate::condition;
use crate::provider::{Deletion, Error, Instance, State};

/// Nothing was found in the cloud.
pub(super) fn absent(snapshot: &Snapshot, mut report: Report) -> Plan {
    if let Some(left) = settling(snapshot) {
        return Plan::after(Vec::new(), report.unchanged(), left, Waiting::Settling);
    }
    if report.was_provisioned() && gave_up(snapshot, &report) {
        let amendment = report.forget_instance();
        let actions = amendment.map(Action::Amend).into_iter().collect();
        return Plan::wait(actions, report.finish(), Waiting::OwnWrite);
    }
    if report.was_provisioned() {
        report.set(condition::is_false(
            types::INSTANCE_EXISTS,
            severity::WARNING,
            "InstanceMissing",
            "Instance not found on provider",
        ));
        if may_still_run(&snapshot.node) {
            return Plan::after(Vec::new(), report.finish(), POLL, Waiting::Missing);
        }
        let amendment = report.fail(None, "can't find created instance");
        return Plan::wait(vec![Action::Amend(amendment)], report.finish(), Waiting::Failed);
    }
    not_created(&mut report);
    if report.phase().is_none_or(str::is_empty) {
        report.set_phase(phase::PROVISIONING);
        return Plan::wait(Vec::new(), report.finish(), Waiting::OwnWrite);
    }
    if let Some((left, error)) = pausing(snapshot, &report) {
        return Plan::after(Vec::new(), report.finish(), left, Waiting::Provider(error));
    }
    if Record::of(&snapshot.machine).is_some_and(|record| record.has_moved(&snapshot.draft)) {
        // An answer that was lost, or a child resource, may have left something in the place that the spec named before.
        return Plan::ask(Vec::new(), report.unchanged(), Call::Delete);
    }
    let record = Record::next_try(&snapshot.machine, &snapshot.draft, snapshot.now);
    let intent = Box::new(record.intent.clone());
    Plan::ask(vec![Action::RecordIntent(Box::new(record))], report.unchanged(), Call::Create(intent))
}

/// Whether the cloud gave up on the instance before it had a node, so that another one is made and not missed.
pub(super) fn gave_up(snapshot: &Snapshot, report: &Report) -> bool {
    snapshot.node == LinkedNode::Unlinked && report.refusal(types::INSTANCE_CREATED).is_some()
}

/// Whether the node contradicts a cloud that shows no instance. Credentials of another account make a whole fleet look
/// like that, and a Machine that has failed does not recover; a kubelet that reports is better evidence.
fn may_still_run(node: &LinkedNode) -> bool {
    match node {
        LinkedNode::Present { ready, .. } => *ready,
        LinkedNode::Unknown => true,
        LinkedNode::Unlinked | LinkedNode::Missing => false,
    }
}

/// How much longer an empty answer proves nothing, because the provider was just asked for an instance.
pub(super) fn settling(snapshot: &Snapshot) -> Option<SignedDuration> {
    let record = Record::of(&snapshot.machine)?;
    let left = snapshot.settling - snapshot.told_after(record.last_try);
    // The time was written by the clock of whoever led then, which may be ahead of ours.
    let left = left.min(snapshot.settling);
    left.is_positive().then_some(left)
}

/// How much longer a refused creation rests.
fn pausing(snapshot: &Snapshot, report: &Report) -> Option<(SignedDuration, Error)> {
    let record = Record::of(&snapshot.machine)?;
    let refusal = report.refusal(types::INSTANCE_CREATED)?;
    let pause = retry::pause(&refusal.kind.to_string(), record.tries);
    let left = pause - snapshot.now.duration_since(record.last_try);
    let left = left.min(pause);
    left.is_positive().then_some((left, refusal))
}

fn not_created(report: &mut Report) {
    report.set(condition::is_false(
        types::INSTANCE_EXISTS,
        severity::WARNING,
        "InstanceNotCreated",
        "Instance has not been created",
    ));
}

/// The provider answered a creation.
pub(super) fn created(snapshot: &Snapshot, mut report: Report, answer: &Result<Instance, Error>) -> Plan {
    match answer {
        Ok(Instance { state: State::Failed(error), .. }) => failed_in_the_cloud(snapshot, report, error),
        Ok(instance) => settle_into(snapshot, report, instance),
        Err(error) => {
            not_created(&mut report);
            report.trouble(types::INSTANCE_CREATED, &error.kind.to_string(), error.to_string());
            refused(snapshot, report, error)
        }
    }
}

/// The provider refused. What can never work fails the Machine, all else is tried again.
fn refused(snapshot: &Snapshot, mut report: Report, error: &Error) -> Plan {
    if error.is_final() {
        let amendment = report.fail(Some("InvalidConfiguration"), &error.message);
        return Plan::wait(vec![Action::Amend(amendment)], report.finish(), Waiting::Failed);
    }
    let tries = Record::of(&snapshot.machine).map_or(1, |record| record.tries);
    let delay = error.retry_after().unwrap_or_else(|| retry::pause(&error.kind.to_string(), tries));
    Plan::after(Vec::new(), report.finish(), delay, Waiting::Provider(error.clone()))
}

/// The cloud accepted a creation and gave up on it later. What is left is removed, and the next attempt has another token,
/// because the old one stands for what failed. The new token is recorded first: after a crash nobody could tell.
pub(super) fn failed_in_the_cloud(snapshot: &Snapshot, mut report: Report, error: &Error) -> Plan {
    if error.is_final() {
        return refused(snapshot, report, error);
    }
    report.trouble(types::INSTANCE_CREATED, &error.kind.to_string(), error.to_string());
    let record = Record::next_attempt(&snapshot.machine, &snapshot.draft, snapshot.now);
    Plan::ask(vec![Action::RecordIntent(Box::new(record))], report.finish(), Call::Delete)
}

/// The provider answered the removal of what a failed attempt left.
pub(super) fn cleaned_up(snapshot: &Snapshot, mut report: Report, answer: &Result<Deletion, Error>) -> Plan {
    let refusal = report.refusal(types::INSTANCE_CREATED);
    if answer.is_ok() {
        report.clear(types::INSTANCE_DELETED);
    }
    let tries = Record::of(&snapshot.machine).map_or(1, |record| record.tries);
    if *answer == Ok(Deletion::Gone)
        && let Some(record) = Record::in_new_place(&snapshot.machine, &snapshot.draft, snapshot.now)
    {
        return Plan::wait(vec![Action::RecordIntent(Box::new(record))], report.finish(), Waiting::OwnWrite);
    }
    match (answer, refusal) {
        (Ok(Deletion::Gone), Some(refusal)) => {
            let pause = retry::pause(&refusal.kind.to_string(), tries);
            Plan::after(Vec::new(), report.finish(), pause, Waiting::Provider(refusal))
        }
        (Ok(_), _) => Plan::after(Vec::new(), report.finish(), POLL, Waiting::Instance),
        (Err(error), _) => {
            report.trouble(types::INSTANCE_DELETED, &error.kind.to_string(), error.to_string());
            let delay = retry::after(error, report.lasting(types::INSTANCE_DELETED));
            Plan::after(Vec::new(), report.finish(), delay, Waiting::Provider(error.clone()))
        }
    }
}
