//! Decides the next moves for the nodes of one pool.
//!
//! `plan` performs nothing. Its actions are to be carried out in their order, and the rest is to be dropped when one
//! fails: the next plan looks at everything again.

mod targets;

use std::fmt;

use api::known::Unread;
use api::machineconfiguration::MachineConfigPoolStatus;
use api::machinist::PoolLedgerSpec;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;

use crate::membership::Contested;
use crate::node::ResourceVersion;
use crate::snapshot::{SelectorFacts, Snapshot};
use crate::{budget, control_plane, status};

pub use targets::Spending;

/// How many taints one plan changes at most. Targeting never waits for them, but the API server does them all: a few at a
/// time are set long before the nodes' turn comes, and a rollout that is through in seconds hardly pays for them.
const TAINTS_AT_ONCE: usize = 25;

/// What to do about one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// Questions to nodes that may be dead. Nothing depends on their success.
    pub probes: Vec<Probe>,
    pub status: MachineConfigPoolStatus,
    /// To be published once the actions succeeded.
    pub events: Vec<Event>,
    pub spending: Spending,
    pub next: Next,
}

/// One write. It says exactly what to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Replace the ledger's spec, with this resource version; without one, create it. Comes before any target that the
    /// present ledger does not name.
    WriteLedger { resource_version: Option<String>, spec: Box<PoolLedgerSpec> },
    /// Set the node's desired config and image with this resource version of the Node, and no other.
    Target(Target),
    /// Touch the node with this resource version, so that an older write to it conflicts.
    Fence { node: String, resource_version: ResourceVersion },
    /// Note on the node, with this resource version, that a person's desired config was answered; with a value, by this
    /// hold.
    Hold { node: String, resource_version: ResourceVersion, value: Option<String>, config: String },
    /// Replace the node's taints with this resource version.
    SetTaints { node: String, resource_version: ResourceVersion, taints: Vec<Taint> },
    /// Set the node's annotation `controlPlaneTopology`.
    SetTopology { node: String, topology: String },
    /// Report on the node's MachineConfigNode that no pool looks after it.
    TellContested { node: String, message: String },
}

/// A node's new desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub node: String,
    pub uid: Option<String>,
    pub resource_version: ResourceVersion,
    pub config: String,
    /// The image of a layered pool. Without one, the annotation is removed.
    pub image: Option<String>,
}

/// A question to a node's daemon whether it is there, written with this resource version of the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub node: String,
    pub resource_version: ResourceVersion,
    /// What the daemon is to repeat; nothing when it would not know how to.
    pub question: Option<String>,
    /// The target that the node has not answered is taken back in the same write.
    pub takes_back: Option<TakenBack>,
}

/// What a node is left with when its target is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// The config that it runs; without one, the annotation goes.
    pub config: Option<String>,
}

/// Something that people want to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: About,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    Pool,
    Node(String),
}

/// When to plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// When an object changes; until then this is what the pool waits for.
    OnChange(Waiting),
    /// After this time, also when nothing changes.
    After(SignedDuration, Waiting),
}

/// Why nothing more happens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Every node has reached the target.
    Settled,
    Misconfigured(String),
    Deleting,
    NoConfiguration,
    Paused,
    Image(String),
    /// The ledger was written for a newer version of the pool than we have seen.
    NewerPool,
    TrialReverted {
        config: String,
        node: String,
    },
    Settling {
        config: String,
    },
    Budget {
        limit: usize,
        used: usize,
    },
    /// Etcd is counted with `members`, of which `seen` run in pods.
    Quorum {
        node: String,
        pool: String,
        members: usize,
        seen: usize,
    },
    Peer {
        pool: String,
    },
    /// Nodes are at work, and none waits.
    Nodes {
        in_progress: usize,
    },
    Held {
        nodes: usize,
    },
    /// No host of the nodes that are left can take the target.
    Unfit {
        nodes: usize,
        why: String,
    },
    /// More taints are to be changed.
    Taints,
    /// What decides who may go cannot be read.
    Unread(Unread),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled => write!(f, "every node has reached the target"),
            Self::Misconfigured(problem) => write!(f, "{problem}"),
            Self::Deleting => write!(f, "the pool is being deleted"),
            Self::NoConfiguration => write!(f, "the pool has no rendered config yet"),
            Self::Paused => write!(f, "the pool is paused"),
            Self::Image(why) => write!(f, "{why}"),
            Self::NewerPool => write!(f, "the pool has changed, and the change is on its way here"),
            Self::TrialReverted { config, node } => {
                write!(f, "the trial of {config} was reverted on node {node}; replace the config or approve it")
            }
            Self::Settling { config } => write!(f, "{config} has to stay the target for a moment"),
            Self::Budget { limit, used } => write!(f, "the budget of {limit} is used up ({used} unavailable)"),
            Self::Quorum { node, pool, members, seen } => {
                write!(f, "etcd would lose its quorum without node {node}")?;
                if members <= seen {
                    return Ok(());
                }
                write!(
                    f,
                    ": {members} members count and {seen} are seen. Where the others were removed from etcd, lower the number: \
                     kubectl patch poolledger {pool} --type=merge -p '{{\"spec\":{{\"etcdMembers\":{seen}}}}}'"
                )
            }
            Self::Peer { pool } => write!(f, "pool {pool} goes first"),
            Self::Nodes { in_progress } => write!(f, "{in_progress} nodes are in progress"),
            Self::Held { nodes } => write!(f, "{nodes} nodes are held"),
            Self::Unfit { nodes: 1, why } => write!(f, "1 node cannot take it: {why}"),
            Self::Unfit { nodes, why } => write!(f, "{nodes} nodes cannot take it: {why}"),
            Self::Taints => write!(f, "taints of waiting nodes are being set"),
            Self::Unread(unread) => write!(f, "no node is taken unseen: {unread}"),
        }
    }
}

impl Waiting {
    /// Whether a person has to do something.
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Misconfigured(_) | Self::TrialReverted { .. } | Self::Unfit { .. })
    }
}

/// How soon a pool is planned again that could not be seen. The API is being asked all the time; this only picks up the
/// answer.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Plans one pool.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let limit = limit(snapshot);
    let problem = problem(snapshot, &limit);
    let limit = limit.unwrap_or(0);
    let gate = gate(snapshot, problem.as_deref());
    let mut moves = targets::choose(snapshot, limit, gate.as_ref());

    let more_taints = moves.gate_allows_taints && set_taints(snapshot, &mut moves.actions);
    let mut events = moves.events;
    for contested in snapshot.contested.iter().filter(|contested| !contested.is_reported()) {
        report_contested(contested, &mut moves.actions, &mut events);
    }
    let waiting = moves.waiting;
    let status = status::of(snapshot, problem.as_deref(), &waiting);
    events.extend(status::events(snapshot, &status, problem.as_deref()));
    let after = moves.after.or(matches!(waiting, Waiting::Unread(_)).then_some(READ_AGAIN));
    let next = match (after, more_taints) {
        (_, true) => Next::After(SignedDuration::ZERO, Waiting::Taints),
        (Some(after), false) => Next::After(after, waiting),
        (None, false) => Next::OnChange(waiting),
    };
    Plan { actions: moves.actions, probes: moves.probes, status, events, spending: moves.spending, next }
}

/// How many nodes of the pool may be down at once.
fn limit(snapshot: &Snapshot) -> Result<usize, budget::BudgetError> {
    let limit = budget::limit(snapshot.pool.max_unavailable.as_ref(), snapshot.nodes.counts().machines)?;
    Ok(if control_plane::is_control_plane(&snapshot.pool.name) { 1 } else { limit })
}

/// What a person has to mend in the pool's spec before nodes can be targeted.
fn problem(snapshot: &Snapshot, limit: &Result<usize, budget::BudgetError>) -> Option<String> {
    let pool = &snapshot.pool.name;
    match &snapshot.pool.selector {
        SelectorFacts::Fine => {}
        SelectorFacts::Missing => {
            return Some(format!(
                "MachineConfigPool {pool} has no spec.nodeSelector and therefore no nodes: give it one that matches its nodes' labels"
            ));
        }
        SelectorFacts::Everything => {
            return Some(format!(
                "MachineConfigPool {pool} has an empty spec.nodeSelector, which selects no node: a non-empty selector is required"
            ));
        }
        SelectorFacts::Broken(error) => {
            return Some(format!(
                "spec.nodeSelector of MachineConfigPool {pool} is an invalid label selector: {error}: correct it"
            ));
        }
    }
    let error = limit.as_ref().err()?;
    Some(format!(
        "spec.maxUnavailable of MachineConfigPool {pool} cannot be used: {error}: set a number of nodes such as 1, or a percentage such as 10%"
    ))
}

/// What forbids targeting any node of the pool.
fn gate(snapshot: &Snapshot, problem: Option<&str>) -> Option<Waiting> {
    let pool = &snapshot.pool;
    if let Some(problem) = problem {
        Some(Waiting::Misconfigured(problem.to_owned()))
    } else if pool.deleting {
        Some(Waiting::Deleting)
    } else if pool.target().is_empty() {
        Some(Waiting::NoConfiguration)
    } else if pool.paused {
        Some(Waiting::Paused)
    } else {
        snapshot.nodes.goal().image_not_ready().map(Waiting::Image)
    }
}

/// Sets and removes taints of nodes that get no other write now. Says whether there are more.
fn set_taints(snapshot: &Snapshot, actions: &mut Vec<Action>) -> bool {
    let nodes = &snapshot.nodes;
    let index = nodes.index();
    let written: std::collections::BTreeSet<_> = actions.iter().filter_map(Action::node).map(str::to_owned).collect();
    // From the end: whose turn is next is written to soon anyway, and the two writes would conflict.
    let missing = index.taint_missing.iter().rev().map(|node| (node, true));
    let left = index.taint_left.iter().map(|node| (node, false));
    let mut changes = left.chain(missing).filter(|(node, _)| !written.contains(*node));
    for (node, wanted) in changes.by_ref().take(TAINTS_AT_ONCE) {
        if let Some(facts) = nodes.get(node) {
            actions.push(Action::SetTaints {
                node: node.clone(),
                resource_version: facts.resource_version.clone(),
                taints: facts.taints_with_update(wanted),
            });
        }
    }
    let more = changes.next().is_some();
    for node in index.topology_differs.iter().filter(|node| !written.contains(*node)).take(TAINTS_AT_ONCE) {
        if let Some(topology) = &snapshot.settings.topology {
            actions.push(Action::SetTopology { node: node.clone(), topology: topology.clone() });
        }
    }
    more
}

fn report_contested(contested: &Contested, actions: &mut Vec<Action>, events: &mut Vec<Event>) {
    let message = contested.to_string();
    actions.push(Action::TellContested { node: contested.node.clone(), message: message.clone() });
    events.push(Event {
        about: About::Node(contested.node.clone()),
        warning: true,
        reason: "MultipleCustomPools",
        message,
    });
}

impl Action {
    /// The Node that the action writes to, if it writes to one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::WriteLedger { .. } | Self::TellContested { .. } => None,
            Self::Target(target) => Some(&target.node),
            Self::Fence { node, .. }
            | Self::Hold { node, .. }
            | Self::SetTaints { node, .. }
            | Self::SetTopology { node, .. } => Some(node),
        }
    }
}
