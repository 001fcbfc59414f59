//! The way out: drain, hooks, instance, node, finalizer.

use api::machine::{condition as types, phase};
use jiff::SignedDuration;

use super::creation::settling;
use super::report::Report;
use super::validation::provider_spec;
use super::{
    Action, Answer, Call, LinkedNode, POLL, Plan, Record, Snapshot, Waiting, claims, has_finalizer, poll, retry,
};
use crate::draining;
use crate::provider::{Deletion, Error, ErrorKind};

/// No call to a provider lasts longer than this.
const LONGEST_CALL: SignedDuration = SignedDuration::from_mins(2);

/// Decides the next move for a Machine that is being deleted. What is wrong with the Machine does not matter any more.
pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    let machine = &snapshot.machine;
    let mut report = Report::new(snapshot);
    report.set_phase(phase::DELETING);
    if !has_finalizer(machine) {
        return Plan::wait(Vec::new(), report.finish(), Waiting::OtherFinalizers);
    }
    if !snapshot.rivals.is_empty() {
        return claims::plan_removal(snapshot, report);
    }
    report.clear(types::INSTANCE_UNIQUE);
    match &snapshot.answer {
        None => first_round(snapshot, report),
        Some(Answer::Deleted(answer)) => answered(snapshot, report, answer),
        // The deletion came between a question and its answer; the next pass starts over.
        Some(Answer::Created(_) | Answer::Updated(_)) => Plan::wait(Vec::new(), report.finish(), Waiting::OwnWrite),
    }
}

fn first_round(snapshot: &Snapshot, report: Report) -> Plan {
    let machine = &snapshot.machine;
    let is_undrained = matches!(snapshot.node, LinkedNode::Present { undrained: true, .. });
    if is_undrained || !draining::is_drained(machine) {
        return Plan::wait(Vec::new(), report.finish(), Waiting::Drain);
    }
    let hooks = machine.spec.lifecycle_hooks.as_ref().map(|hooks| hooks.pre_terminate.as_slice()).unwrap_or_default();
    if !hooks.is_empty() {
        let names = hooks.iter().map(|hook| hook.name.clone()).collect();
        return Plan::wait(Vec::new(), report.finish(), Waiting::PreTerminateHook(names));
    }
    if provider_spec(machine).is_none() && !may_have_instance(snapshot, &report) {
        return finish(snapshot, report);
    }
    Plan::ask(Vec::new(), report.finish(), Call::Delete)
}

/// Whether anything hints at an instance.
fn may_have_instance(snapshot: &Snapshot, report: &Report) -> bool {
    let was_asked = Record::of(&snapshot.machine).is_some_and(|record| !made_nothing(&record, report));
    was_asked || report.was_provisioned() || report.has_provider_status()
}

/// Whether the provider was asked once, and refused the spec: such a creation makes nothing.
fn made_nothing(record: &Record, report: &Report) -> bool {
    let refusal = report.refusal(types::INSTANCE_CREATED);
    record.tries <= 1
        && record.intent.attempt <= 1
        && refusal.is_some_and(|refusal| refusal.kind == ErrorKind::InvalidSpec)
}

fn answered(snapshot: &Snapshot, mut report: Report, answer: &Result<Deletion, Error>) -> Plan {
    match answer {
        Ok(deletion) => {
            report.clear(types::INSTANCE_DELETED);
            // Once a lookup followed the deletion, it is the lookup that counts.
            match (deletion, &snapshot.sighting, may_appear(snapshot, &report)) {
                (Deletion::Gone, None, None) => finish(snapshot, report),
                (Deletion::Gone | Deletion::Requested, _, _) => look(snapshot, report, None),
            }
        }
        // With a spec that the provider never accepted there cannot be an instance, unless addresses prove one.
        Err(error) if is_forgiven(error, &report) => look(snapshot, report, Some(error)),
        Err(error) => refused(report, error),
    }
}

/// How much longer an instance may appear that the last answer did not show. A creation that was never answered may still be
/// under way in a process that led before, and what it makes at its very end takes its time to show.
fn may_appear(snapshot: &Snapshot, report: &Report) -> Option<SignedDuration> {
    let is_answered = report.was_provisioned()
        || report
            .refusal(types::INSTANCE_CREATED)
            .is_some_and(|refusal| !matches!(refusal.kind, ErrorKind::Unreachable | ErrorKind::Other));
    let asked = Record::of(&snapshot.machine).filter(|_| !is_answered).map(|record| record.last_try);
    let longest = LONGEST_CALL + snapshot.settling;
    let left = asked.map(|asked| (longest - snapshot.told_after(asked)).min(longest));
    settling(snapshot).max(left.filter(SignedDuration::is_positive))
}

fn is_forgiven(error: &Error, report: &Report) -> bool {
    error.kind == ErrorKind::InvalidSpec && !report.has_addresses()
}

fn refused(mut report: Report, error: &Error) -> Plan {
    report.trouble(types::INSTANCE_DELETED, &error.kind.to_string(), error.to_string());
    let delay = retry::after(error, report.lasting(types::INSTANCE_DELETED));
    Plan::after(Vec::new(), report.finish(), delay, Waiting::Provider(error.clone()))
}

/// Waits until the cloud itself no longer shows the instance. `refusal` is what the deletion was forgiven for.
fn look(snapshot: &Snapshot, report: Report, refusal: Option<&Error>) -> Plan {
    // One from before this pass is older than the deletion.
    match snapshot.sighting.as_ref().filter(|_| snapshot.seen.is_none()) {
        None => Plan::ask(Vec::new(), report.finish(), Call::Look),
        Some(Ok(instances)) if !instances.is_empty() => match refusal {
            Some(error) => refused(report, error),
            None => {
                let delay = poll(report.lasting(types::DRAINED));
                Plan::after(Vec::new(), report.finish(), delay, Waiting::Instance)
            }
        },
        Some(Ok(_)) => match may_appear(snapshot, &report) {
            Some(left) => Plan::after(Vec::new(), report.finish(), left, Waiting::Settling),
            None => finish(snapshot, report),
        },
        // The same cause that the deletion was forgiven for.
        Some(Err(error)) if is_forgiven(error, &report) && !may_have_instance(snapshot, &report) => {
            finish(snapshot, report)
        }
        Some(Err(error)) => refused(report, error),
    }
}

/// The instance is gone: so goes its node, then the Machine.
fn finish(snapshot: &Snapshot, report: Report) -> Plan {
    let node = match &snapshot.node {
        LinkedNode::Unknown => return Plan::after(Vec::new(), report.finish(), POLL, Waiting::Nodes),
        LinkedNode::Unlinked | LinkedNode::Missing => None,
        LinkedNode::Present { name, uid, .. } => Some(Action::DeleteNode { name: name.clone(), uid: uid.clone() }),
    };
    let_go(node.into_iter().collect(), report)
}

/// Ends the Machine after these actions.
pub(super) fn let_go(mut actions: Vec<Action>, report: Report) -> Plan {
    actions.push(Action::RemoveFinalizer);
    Plan::wait(actions, report.finish(), Waiting::OtherFinalizers)
}
