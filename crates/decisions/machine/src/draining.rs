//! Decides how the node of a Machine that is being deleted is emptied.
//!
//! This is the frame around the drain: whether there is one, who goes first, and what the Machine says meanwhile. Which pods
//! are evicted is decided by the same code that drains for a config change; its progress comes in as [`Emptying`].
//!
//! `Drained` is written here and nowhere else. The removal of the instance waits for it to be true.

mod facts;

use std::fmt;

use api::machine::{Machine, MachineCondition, MachineStatus, condition as types, phase, severity};
use api::names::status::TRUE;
use jiff::{SignedDuration, Timestamp};

use crate::condition;
use crate::lifecycle::hook_list;

pub(crate) use facts::is_open_again;
pub use facts::{Colleague, DrainNode, cordoned, takes_controllers};

/// How long a control-plane node waits before it asks again whether it may go.
pub const TURN: SignedDuration = SignedDuration::from_secs(20);

/// How long a drain with pods left waits before it looks again. A disruption budget that refused an eviction may allow it
/// without any event that reaches us, and the drain's own timeout comes without one.
pub const EVICTIONS: SignedDuration = SignedDuration::from_secs(5);

/// Everything that is known about the drain of one Machine's node.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub machine: Machine,
    pub node: DrainNode,
    /// The other nodes of the control plane, and the Machines of theirs that are being deleted.
    pub colleagues: Vec<Colleague>,
    /// Other Machines that claim the same instance, as `namespace/name`. Their node is not ours to drain.
    pub rivals: Vec<String>,
    /// How far the emptying is, once it was looked at in this pass.
    pub emptying: Option<Emptying>,
    pub now: Timestamp,
}

/// How far the node's pods are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emptying {
    /// Pods that still have to be evicted or to end.
    pub left: usize,
    /// One sentence for each pod that cannot be evicted, with the budget that protects it.
    pub blocked: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: MachineStatus,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the node unschedulable.
    Cordon {
        node: String,
    },
    Event {
        warning: bool,
        reason: &'static str,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Evict what may be evicted now, then plan again with how far that is.
    Empty {
        node: String,
        /// The kubelet is silent: pods that have been terminating for over a second are no longer waited for.
        unreachable: bool,
    },
    OnChange(Waiting),
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// There is nothing to drain: the Machine stays, or another one claims the instance and only the last to go drains it.
    Nothing,
    Drained,
    PreDrainHook(Vec<String>),
    /// Another node of the control plane is on its way out.
    Turn {
        node: String,
    },
    Pods(Emptying),
    /// Nodes could not be listed.
    Nodes,
}

/// Decides the next move of a drain.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let status = snapshot.machine.status.clone().unwrap_or_default();
    let is_leaving =
        snapshot.machine.metadata.deletion_timestamp.is_some() && status.phase.as_deref() == Some(phase::DELETING);
    if !is_leaving {
        return Plan { actions: Vec::new(), status, next: Next::OnChange(Waiting::Nothing) };
    }
    let open_again = matches!(snapshot.node, DrainNode::Present { open_again: true, .. });
    if is_drained(&snapshot.machine) && !open_again {
        return Plan { actions: Vec::new(), status, next: Next::OnChange(Waiting::Drained) };
    }
    if !snapshot.rivals.is_empty() {
        // To say that the node is drained would let the last claimant remove the instance with all pods on it.
        return Plan { actions: Vec::new(), status, next: Next::OnChange(Waiting::Nothing) };
    }
    if let Some(why) = skipped(snapshot) {
        let event = event("DrainSkipped", "Node drain skipped");
        return drained(snapshot, vec![event], why);
    }
    let hooks = pre_drain_hooks(&snapshot.machine);
    if !hooks.is_empty() {
        let names = hooks.iter().map(|hook| hook.name.clone()).collect();
        let event = event("DrainBlocked", "Drain blocked by pre-drain hook");
        return Plan { actions: vec![event], status, next: Next::OnChange(Waiting::PreDrainHook(names)) };
    }
    drain(snapshot)
}

/// What `Drained` begins with when nothing was drained.
const SKIPPED: &str = "Node drain skipped";

/// Whether the node of a Machine is drained, or need not be. A drain that was skipped because there was no node does not count
/// any more once there is one: it may have registered, and got pods, while the cloud did not answer.
pub(crate) fn is_drained(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let condition = status.and_then(|status| condition::find(&status.conditions, types::DRAINED));
    let Some(drained) = condition.filter(|it| it.status == TRUE) else { return false };
    let was_skipped = drained.message.as_deref().is_some_and(|message| message.starts_with(SKIPPED));
    let has_node = status.is_some_and(|status| status.node_ref.is_some());
    !(was_skipped && has_node) || is_excluded(machine)
}

/// Whether somebody wants the node not to be drained.
fn is_excluded(machine: &Machine) -> bool {
    let annotations = machine.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(api::annotations::EXCLUDE_NODE_DRAINING))
}

/// What `Drained` says when nothing is drained.
fn skipped(snapshot: &Snapshot) -> Option<String> {
    let Snapshot { machine, node, .. } = snapshot;
    if !is_excluded(machine) && *node != DrainNode::Unlinked {
        return None;
    }
    let hooks = pre_drain_hooks(machine);
    Some(match hooks {
        [] => SKIPPED.to_owned(),
        hooks => format!("{SKIPPED}, without waiting for pre-drain hooks {}", hook_list(hooks)),
    })
}

fn pre_drain_hooks(machine: &Machine) -> &[api::machine::LifecycleHook] {
    machine.spec.lifecycle_hooks.as_ref().map(|hooks| hooks.pre_drain.as_slice()).unwrap_or_default()
}

fn drain(snapshot: &Snapshot) -> Plan {
    let DrainNode::Present { name, cordoned, control_plane, unreachable, open_again } = &snapshot.node else {
        return without_node(snapshot);
    };
    if *control_plane && let Some(first) = facts::goes_first(snapshot) {
        return refused(snapshot, first);
    }
    if *open_again {
        // Before anything else: a cordon that stands beside the old word would make it look true.
        let next = Next::After(SignedDuration::ZERO, Waiting::Pods(Emptying::default()));
        return Plan { actions: Vec::new(), status: begun_again(snapshot), next };
    }
    match &snapshot.emptying {
        None => {
            let mut actions = Vec::new();
            if !cordoned || old_condition(snapshot).is_none() {
                actions.push(event("DrainProceeds", "Node drain proceeds"));
            }
            actions.extend((!cordoned).then(|| Action::Cordon { node: name.clone() }));
            let next = Next::Empty { node: name.clone(), unreachable: *unreachable };
            let status = snapshot.machine.status.clone().unwrap_or_default();
            Plan { actions, status, next }
        }
        Some(Emptying { left: 0, blocked: _ }) => {
            let actions = vec![
                event("Deleted", format!("Node {name:?} drained")),
                event("DrainSucceeded", "Node drain succeeded"),
            ];
            drained(snapshot, actions, "Drain finished successfully".to_owned())
        }
        Some(emptying) => emptying_on(snapshot, emptying),
    }
}

/// Takes back that the node is drained: it has registered again since, or was uncordoned, and has room for pods.
fn begun_again(snapshot: &Snapshot) -> MachineStatus {
    let message = "the node is not cordoned any more: it has registered again, or somebody uncordoned it";
    report(snapshot, condition::is_false(types::DRAINED, severity::INFO, "Draining", message)).0
}

fn without_node(snapshot: &Snapshot) -> Plan {
    if snapshot.node == DrainNode::Unknown {
        let status = snapshot.machine.status.clone().unwrap_or_default();
        return Plan { actions: Vec::new(), status, next: Next::After(TURN, Waiting::Nodes) };
    }
    let actions = vec![event("DrainProceeds", "Node drain proceeds"), event("DrainSucceeded", "Node drain succeeded")];
    drained(snapshot, actions, "Drain finished successfully".to_owned())
}

/// Another node of the control plane goes first.
fn refused(snapshot: &Snapshot, first: String) -> Plan {
    let why = format!("waiting for control-plane node {first}: only one may be taken away at a time");
    let (status, is_news) =
        report(snapshot, condition::is_false(types::DRAINED, severity::WARNING, "DrainError", &why));
    let event = is_news.then(|| event("DrainRequeued", format!("Node drain requeued: {why}")));
    let next = Next::After(TURN, Waiting::Turn { node: first });
    Plan { actions: event.into_iter().collect(), status, next }
}

/// Pods are left. After the Machine's own drain timeout they are left behind.
fn emptying_on(snapshot: &Snapshot, emptying: &Emptying) -> Plan {
    if facts::is_overdue(snapshot) {
        let why = format!("Node drain given up after its timeout with {} pods left", emptying.left);
        let event = Action::Event { warning: true, reason: "DrainTimedOut", message: why.clone() };
        return drained(snapshot, vec![event], why);
    }
    let condition = match emptying.blocked.as_slice() {
        [] => condition::is_false(
            types::DRAINED,
            severity::INFO,
            "Draining",
            "Node is being drained: pods are still being evicted",
        ),
        blocked => {
            let mut blocked = blocked.to_vec();
            blocked.sort_unstable();
            condition::is_false(types::DRAINED, severity::WARNING, "DrainError", blocked.join("; "))
        }
    };
    let message = condition.message.clone().unwrap_or_default();
    let (status, is_news) = report(snapshot, condition);
    let tells = is_news && !emptying.blocked.is_empty();
    let event = tells.then(|| event("DrainRequeued", format!("Node drain requeued: {message}")));
    let delay =
        facts::time_left(snapshot).map_or(EVICTIONS, |left| left.clamp(SignedDuration::from_secs(1), EVICTIONS));
    let next = Next::After(delay, Waiting::Pods(emptying.clone()));
    Plan { actions: event.into_iter().collect(), status, next }
}

fn drained(snapshot: &Snapshot, actions: Vec<Action>, message: String) -> Plan {
    let condition = MachineCondition { message: Some(message), ..condition::is_true(types::DRAINED) };
    let (status, _) = report(snapshot, condition);
    Plan { actions, status, next: Next::OnChange(Waiting::Drained) }
}

fn old_condition(snapshot: &Snapshot) -> Option<&MachineCondition> {
    condition::find(&snapshot.machine.status.as_ref()?.conditions, types::DRAINED)
}

fn report(snapshot: &Snapshot, condition: MachineCondition) -> (MachineStatus, bool) {
    let mut status = snapshot.machine.status.clone().unwrap_or_default();
    let is_news = condition::set(&mut status.conditions, condition, snapshot.now);
    if is_news {
        status.last_updated = Some(condition::whole_seconds(snapshot.now));
    }
    (status, is_news)
}

fn event(reason: &'static str, message: impl Into<String>) -> Action {
    Action::Event { warning: false, reason, message: message.into() }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "there is nothing to drain"),
            Self::Drained => write!(f, "the node is drained"),
            Self::PreDrainHook(hooks) => write!(f, "held by preDrain hooks {}", hooks.join(", ")),
            Self::Turn { node } => write!(f, "control-plane node {node} goes first"),
            Self::Pods(Emptying { left, blocked }) if blocked.is_empty() => write!(f, "{left} pods are being evicted"),
            Self::Pods(Emptying { left: _, blocked }) => write!(f, "{}", blocked.join("; ")),
            Self::Nodes => write!(f, "nodes could not be listed"),
        }
    }
}
