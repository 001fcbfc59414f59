//! The drain protocol with a node's daemon.
//!
//! The daemon asks with `desiredDrain` (`drain-<config>`, later `uncordon-<config>`); the controller does it and copies
//! the value to `lastAppliedDrain`. Whose cordon it is and since when the drain runs is written on the node in the same
//! patch as the cordon itself, so neither a restart nor a second leader loses it. A cordon that a person made before
//! the drain is never removed.

use std::collections::{BTreeMap, BTreeSet};

use api::known::{Fresh, Reading, Unread};
use api::names::{cordon, drain, node_condition, status};
use jiff::{SignedDuration, Timestamp};

use crate::eviction::{Blocked, Options, Refusal, Work, list, work};
use crate::pod::{DisruptionBudget, PodFacts};

/// Thresholds of upstream's runbooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From then on a drain that does not get on is called failing.
    pub failing_after: SignedDuration,
    /// From then on it is an alarm. It goes on being tried.
    pub alarm_after: SignedDuration,
    pub options: Options,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failing_after: SignedDuration::from_mins(10),
            alarm_after: SignedDuration::from_hours(1),
            options: Options::default(),
        }
    }
}

/// The input of [`plan`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub node: String,
    pub resource_version: String,
    pub unschedulable: bool,
    pub desired_drain: Option<String>,
    pub last_applied_drain: Option<String>,
    pub cordoned_by: Option<String>,
    pub started: Option<Timestamp>,
    /// The pods that are bound to the node.
    pub pods: Reading<Vec<PodFacts>>,
    /// The version of the Node that was known before these pods were last listed.
    pub listed_for: Option<String>,
    pub budgets: Vec<DisruptionBudget>,
    /// Answers to earlier evictions, by uid of the pod. They may be lost at any time.
    pub refusals: BTreeMap<String, Refusal>,
    /// DaemonSets that exist, as `namespace/name`.
    pub daemon_sets: Reading<BTreeSet<String>>,
    /// Why the node must not be emptied yet, if there is a reason. What has begun goes on.
    pub withheld: Reading<Option<String>>,
    pub settings: Settings,
    pub now: Timestamp,
}

/// What to do about one node's drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// Conditions of the node's MachineConfigNode that this controller owns.
    pub conditions: Vec<Condition>,
    /// To be published once the actions succeeded.
    pub events: Vec<Event>,
    /// Lines that runbooks look for in the log.
    pub log: Vec<String>,
    pub blocked: Vec<Blocked>,
    /// The drain lasts longer than the alarm's threshold: metric `mcc_drain_err`.
    pub alarm: bool,
    pub next: Next,
}

/// One write. Those to the Node carry the resource version of the snapshot and are dropped when it conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the node unschedulable and note on it whose cordon that is and since when, in one patch.
    Cordon { owner: &'static str, started: Timestamp },
    /// Note on a node that is cordoned already whose cordon that is and since when the drain runs.
    Adopt { owner: &'static str, started: Timestamp },
    /// The node is schedulable again and not by our doing: the note of the owner becomes this or goes, and the note of
    /// the start goes.
    Disown { owner: Option<&'static str> },
    /// Ask for the eviction of a pod, with its uid as a precondition.
    Evict(PodFacts),
    /// Confirm: `lastAppliedDrain` becomes this value and the note of the drain's start goes. With `uncordon` the node
    /// becomes schedulable, and with `forget_owner` the note of the cordon's owner goes, all in the same patch.
    Confirm { value: String, uncordon: bool, forget_owner: bool },
}

/// One condition of a MachineConfigNode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub type_: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

/// Something that people want to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub reason: &'static str,
    pub message: String,
}

/// When to plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// When the node, its pods or their budgets change.
    OnChange(Waiting),
    /// After this time, also when nothing changes.
    After(SignedDuration, Waiting),
}

/// What a drain waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The daemon asks for nothing.
    Request,
    /// The request cannot be understood.
    Misunderstood(String),
    /// The node has no place among those that may be away at one time.
    Place(String),
    /// Our own write to the node.
    Node,
    /// The answers to the evictions just asked for.
    Evictions,
    /// Pods that take their time to stop.
    Pods(usize),
    /// Pods that are protected.
    Blocked(usize),
    /// A new list of the pods.
    List,
    /// What a drain has to know cannot be read, so nothing is evicted and the drain is not confirmed.
    Unread(Unread),
}

/// How soon the API is looked at again when it could not be read. It is being asked all the time; this only picks up the
/// answer.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// How far our clock and the API server's, which dates pods, may be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Plans one node's drain.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let desired = snapshot.desired_drain.as_deref().unwrap_or_default();
    if desired == snapshot.last_applied_drain.as_deref().unwrap_or_default() {
        return plan_leftovers(snapshot, desired);
    }
    if desired.is_empty() {
        return plan_leftovers(snapshot, snapshot.last_applied_drain.as_deref().unwrap_or_default());
    }
    match desired.split('-').next() {
        Some(drain::DRAIN) => plan_drain(snapshot, desired),
        Some(drain::UNCORDON) => plan_uncordon(snapshot, desired),
        verb => {
            let (node, verb) = (&snapshot.node, verb.unwrap_or_default());
            let message = format!("node {node}: non-recognized drain verb detected {verb}");
            let mut plan = Plan::idle();
            plan.log.push(message.clone());
            plan.next = Next::OnChange(Waiting::Misunderstood(message));
            plan
        }
    }
}

/// The daemon asks for nothing new, but our own notes may say that something was left behind.
///
/// A daemon that asks for a drain, changes its mind and asks for the same uncordon as last time seems to be answered
/// already, while its node is still cordoned, or while the note of the drain's start would let the next drain begin without
/// a place. And once somebody else has uncordoned a node, the next cordon is not ours.
fn plan_leftovers(snapshot: &Snapshot, applied: &str) -> Plan {
    let is_ours = snapshot.cordoned_by.as_deref() == Some(cordon::MACHINIST);
    let is_left = snapshot.unschedulable && (is_ours || snapshot.started.is_some());
    if is_left && !applied.starts_with("drain-") {
        return plan_uncordon(snapshot, applied);
    }
    // In the middle of a change the note says that whoever cordons the node now is not us; without any note, the cordon
    // would be taken for the one of that drain.
    let is_noted = snapshot.cordoned_by.is_some() || snapshot.started.is_some();
    let disown = if snapshot.unschedulable || !is_noted {
        None
    } else if !applied.starts_with("drain-") {
        Some(None)
    } else {
        is_ours.then_some(Some(cordon::PERSON))
    };
    let mut plan = Plan::idle();
    if let Some(owner) = disown {
        plan.actions.push(Action::Disown { owner });
        plan.next = Next::OnChange(Waiting::Node);
    }
    plan
}

fn plan_drain(snapshot: &Snapshot, desired: &str) -> Plan {
    let node = &snapshot.node;
    if snapshot.started.is_none() {
        let (why, next) = match snapshot.withheld.fresh("poolledgers", snapshot.now).map(Fresh::into_inner) {
            Ok(None) => (None, Next::OnChange(Waiting::Node)),
            Ok(Some(why)) => (Some(why.clone()), Next::OnChange(Waiting::Place(why.clone()))),
            Err(unread) => (Some(unread.to_string()), Next::After(READ_AGAIN, Waiting::Unread(unread))),
        };
        if let Some(why) = why {
            return plan_withheld(snapshot, &why, next);
        }
    }
    if !snapshot.unschedulable {
        return plan_cordon(snapshot);
    }
    let (Some(_), Some(started)) = (&snapshot.cordoned_by, snapshot.started) else {
        let owner = snapshot.cordoned_by.as_deref().map_or_else(|| guess_owner(snapshot), known_owner);
        let mut plan = Plan::waiting(Waiting::Node);
        plan.actions.push(Action::Adopt { owner, started: snapshot.now });
        plan.conditions.push(cordoned());
        plan.log.push(format!("node {node}: initiating drain"));
        return plan;
    };
    let work = match look(snapshot) {
        Ok(work) => work,
        Err(unread) => return plan_unread(snapshot, desired, started, unread),
    };
    if work.is_done() && snapshot.listed_for.as_ref() != Some(&snapshot.resource_version) {
        return plan_list(snapshot, desired);
    }
    if work.is_done() {
        let mut plan = Plan::waiting(Waiting::Node);
        plan.actions.push(Action::Confirm { value: desired.to_owned(), uncordon: false, forget_owner: false });
        plan.log.push(format!("node {node}: operation successful; applying completion annotation"));
        plan.conditions.push(drained(
            status::TRUE,
            format!("Drained node. The drain is complete as the desired drainer matches current drainer: {desired}"),
        ));
        return plan;
    }
    plan_evictions(snapshot, desired, started, work)
}

/// A watch that broke without a word shows the node as it was. Somebody may have uncordoned it since then, and pods may have
/// come before it was cordoned again. So a drain is confirmed on pods that were listed after the Node was read, with a
/// write to that version of the Node.
fn plan_list(snapshot: &Snapshot, desired: &str) -> Plan {
    let mut plan = Plan::waiting(Waiting::List);
    plan.log.push(format!("node {}: no pods are left; they are listed once more", snapshot.node));
    plan.conditions.push(cordoned());
    plan.conditions.push(draining(snapshot, desired));
    plan
}

/// The condition of a drain that goes on.
fn draining(snapshot: &Snapshot, desired: &str) -> Condition {
    drained(status::UNKNOWN, format!("Draining node. {}", until(snapshot, desired)))
}

fn until(snapshot: &Snapshot, desired: &str) -> String {
    let applied = snapshot.last_applied_drain.as_deref().unwrap_or_default();
    format!("The drain will not be complete until desired drainer {desired} matches current drainer {applied}")
}

fn plan_withheld(snapshot: &Snapshot, why: &str, next: Next) -> Plan {
    let mut plan = Plan { next, ..Plan::idle() };
    plan.log.push(format!("node {}: drain is withheld: {why}", snapshot.node));
    plan.conditions.push(drained(status::UNKNOWN, format!("The drain has not begun: {why}")));
    plan
}

/// What there is to do, if everything that it depends on is known.
fn look(snapshot: &Snapshot) -> Result<Work, Unread> {
    let Snapshot { budgets, refusals, settings, now, .. } = snapshot;
    let pods = snapshot.pods.fresh("pods", *now)?.map(Vec::as_slice);
    let daemon_sets = snapshot.daemon_sets.fresh("daemonsets", *now)?;
    if let Some(pod) = pods.iter().find(|pod| is_of_unseen_daemon_set(pod, &snapshot.daemon_sets)) {
        return Err(Unread::new("daemonsets", format!("pod {} is newer than what was read", pod.full_name())));
    }
    if let Some(ours) = settings.options.ours.as_ref().filter(|ours| pods.iter().any(|pod| ours.has(pod))) {
        ours.may_leave.fresh("nodes", *now)?;
    }
    Ok(work(pods, budgets, refusals, daemon_sets, &settings.options, *now))
}

/// Whether a pod may belong to a DaemonSet that exists and has not been seen: the pod is not older than the list in which
/// its DaemonSet is missing.
fn is_of_unseen_daemon_set(pod: &PodFacts, daemon_sets: &Reading<BTreeSet<String>>) -> bool {
    if pod.finished || pod.terminating.is_some() {
        return false;
    }
    let (Some(owner), Some(created)) = (pod.daemon_set(), pod.created) else { return false };
    match daemon_sets {
        Reading::Known { value, as_of } => !value.contains(&owner) && as_of.duration_since(created) < CLOCK_SKEW,
        Reading::NotInstalled | Reading::Unknown(_) => true,
    }
}

fn plan_unread(snapshot: &Snapshot, desired: &str, started: Timestamp, unread: Unread) -> Plan {
    let node = &snapshot.node;
    let mut plan = plan_evictions(snapshot, desired, started, Work::default());
    plan.log.push(format!("node {node}: nothing is evicted: {unread}"));
    let message = format!("Drain of node {node} waits, because nothing may be evicted unseen: {unread}");
    plan.events.push(Event { reason: "DrainBlocked", message });
    plan.conditions.retain(|condition| condition.type_ != node_condition::DRAINED);
    plan.conditions.push(drained(status::UNKNOWN, format!("Error: Node Drain has not succeeded. Error is: {unread}")));
    plan.next = Next::After(READ_AGAIN, Waiting::Unread(unread));
    plan
}

fn plan_cordon(snapshot: &Snapshot) -> Plan {
    let node = &snapshot.node;
    let mut plan = Plan::waiting(Waiting::Node);
    // Someone who uncordons in the middle of a drain lets new pods in: it begins again.
    if snapshot.cordoned_by.is_some() && snapshot.started.is_some() {
        plan.log.push(format!("External actor has unexpectedly uncordoned node {node}, cordoning again..."));
    }
    plan.log.push(format!("node {node}: initiating cordon (currently schedulable: true)"));
    plan.log.push(format!("node {node}: initiating drain"));
    plan.actions.push(Action::Cordon { owner: cordon::MACHINIST, started: snapshot.now });
    plan.conditions.push(cordoned());
    plan
}

fn plan_evictions(snapshot: &Snapshot, desired: &str, started: Timestamp, work: Work) -> Plan {
    let (node, settings) = (&snapshot.node, &snapshot.settings);
    let lasted = snapshot.now.duration_since(started);
    let until = until(snapshot, desired);
    let mut plan = Plan::waiting(Waiting::Evictions);
    plan.alarm = lasted > settings.alarm_after;
    plan.conditions.push(cordoned());
    if plan.alarm {
        let message =
            format!("node {node}: drain exceeded timeout: {}. Will continue to retry.", long(settings.alarm_after));
        plan.log.push(message.clone());
        plan.events.push(Event { reason: "DrainFailed", message });
    }
    if work.blocked.is_empty() {
        plan.conditions.push(draining(snapshot, desired));
    } else {
        let error = list(&work.blocked);
        let message = if lasted > settings.failing_after {
            let minutes = settings.failing_after.as_mins();
            let message = format!(
                "Drain failed. Drain has been failing for more than {minutes} minutes. Waiting 5 minutes then retrying. \
                 Error message from drain: {error}"
            );
            plan.events.push(Event { reason: "DrainThresholdExceeded", message: message.clone() });
            message
        } else {
            plan.events
                .push(Event { reason: "DrainBlocked", message: format!("Drain of node {node} is blocked: {error}") });
            format!("Drain failed. Waiting 1 minute then retrying. Error message from drain: {error}")
        };
        plan.log.push(format!("node {node}: {message}"));
        plan.conditions
            .push(drained(status::UNKNOWN, format!("Error: Node Drain has not succeeded. Error is: {error} {until}")));
    }
    let waiting = match (work.evict.is_empty(), work.blocked.len(), work.terminating.len()) {
        (false, ..) => Waiting::Evictions,
        (true, 0, terminating) => Waiting::Pods(terminating),
        (true, blocked, _) => Waiting::Blocked(blocked),
    };
    plan.next = match work.retry_at {
        _ if work.queued > 0 => Next::After(SignedDuration::ZERO, waiting),
        Some(at) => Next::After(at.duration_since(snapshot.now).max(SignedDuration::ZERO), waiting),
        None => Next::OnChange(waiting),
    };
    plan.actions.extend(work.evict.into_iter().map(Action::Evict));
    plan.blocked = work.blocked;
    plan
}

fn plan_uncordon(snapshot: &Snapshot, desired: &str) -> Plan {
    let node = &snapshot.node;
    let owner = snapshot.cordoned_by.as_deref().map_or_else(|| guess_owner(snapshot), known_owner);
    let ours = owner == cordon::MACHINIST;
    let uncordon = snapshot.unschedulable && ours;
    let mut plan = Plan::waiting(Waiting::Node);
    plan.log.push(format!("node {node}: uncordoning"));
    plan.actions.push(Action::Confirm { value: desired.to_owned(), uncordon, forget_owner: true });
    plan.conditions.push(Condition {
        type_: node_condition::UNCORDONED,
        status: status::TRUE,
        reason: "UpdateCompleteUncordoned".to_owned(),
        message: format!("UnCordoned node. The node is reporting Unschedulable = {}", snapshot.unschedulable && !ours),
    });
    plan
}

/// Whose cordon a node has that we did not write a note on. After a drain that was not followed by an uncordon it is
/// the one of whoever did that drain, another controller; else a person made it.
fn guess_owner(snapshot: &Snapshot) -> &'static str {
    let mid_drain = snapshot.last_applied_drain.as_deref().is_some_and(|applied| applied.starts_with("drain-"));
    if mid_drain { cordon::MACHINIST } else { cordon::PERSON }
}

fn known_owner(note: &str) -> &'static str {
    if note == cordon::PERSON { cordon::PERSON } else { cordon::MACHINIST }
}

fn cordoned() -> Condition {
    Condition {
        type_: node_condition::CORDONED,
        status: status::TRUE,
        reason: "UpdateExecutedCordoned".to_owned(),
        message: "Cordoned node. The node is reporting Unschedulable = true".to_owned(),
    }
}

fn drained(status: &'static str, message: String) -> Condition {
    Condition { type_: node_condition::DRAINED, status, reason: "UpdateExecutedDrained".to_owned(), message }
}

/// A duration as upstream prints it: `1h0m0s`.
fn long(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

impl Plan {
    /// Why the drain does not get on, in one line.
    pub fn obstacle(&self) -> Option<String> {
        let (Next::OnChange(waiting) | Next::After(_, waiting)) = &self.next;
        match waiting {
            Waiting::Unread(unread) => Some(unread.to_string()),
            _ if self.blocked.is_empty() => None,
            _ => Some(list(&self.blocked)),
        }
    }

    fn idle() -> Self {
        Self::waiting(Waiting::Request)
    }

    fn waiting(waiting: Waiting) -> Self {
        Self {
            actions: Vec::new(),
            conditions: Vec::new(),
            events: Vec::new(),
            log: Vec::new(),
            blocked: Vec::new(),
            alarm: false,
            next: Next::OnChange(waiting),
        }
    }
}
