//! Checks the state of the fleet after a long time without faults.
//!
//! Every reachable node must run the newest config and serve. The exception are serving nodes while `maxUnavailable` nodes
//! are permanently dead or cordoned: they may wait, and the plan must say why. A node whose update failed must never wait
//! for a dead one, nor may a worker that a person cordoned, with one exception: machines that died in the middle of their
//! update still count as taken away, because they may come back and go on at any moment. Once there are `maxUnavailable`
//! of them, taking one more would exceed the budget, so everybody may wait.

use rollout::node::State;
use rollout::{Next, Waiting};

use crate::account::{self, is_available};
use crate::violation::Kind;
use crate::world::{Node, World, state_word};

pub(crate) fn check(world: &mut World, next: Option<&Next>) {
    let limit = account::limit(&world.pool, world.nodes.len());
    let is_out = |node: &&Node| node.host.is_lost() || node.cordoned_by_person;
    let out = world.nodes.values().filter(is_out).count();
    let mut waiting = Vec::new();
    let mut wrong = Vec::new();
    for node in world.nodes.values().filter(|node| !node.host.is_lost() && !is_through(world, node)) {
        if may_wait(world, node, out, limit) {
            waiting.push(node.facts.name.clone());
        } else {
            wrong.push((kind(world, node), describe(node)));
        }
    }
    let target = world.pool.target().to_owned();
    for (kind, description) in wrong {
        world.violate(kind, format!("the fleet does not come to its end, which is {target}: {description}"));
    }
    if !waiting.is_empty() && !next.is_some_and(says_why) {
        world.violate(Kind::Unexplained, format!("{waiting:?} rightly wait, and the plan does not say why: {next:?}"));
    }
    check_leftovers(world, waiting.is_empty() && out == 0);
}

fn is_through(world: &World, node: &Node) -> bool {
    let (facts, disk) = (&node.facts, &node.host.disk);
    let target = Some(world.pool.target());
    let is_open = !facts.unschedulable || node.cordoned_by_person;
    disk.current.as_deref() == target
        && disk.journal.is_none()
        && facts.current.as_deref() == target
        && facts.state == State::Done
        && !node.host.emptied
        && is_open
}

/// Whether this node is allowed to wait for ever.
fn may_wait(world: &World, node: &Node, out: usize, limit: usize) -> bool {
    let is_dispensable = rollout::control_plane::is_control_plane(&world.pool.name) && !node.host.failed;
    let is_full = world.begun_and_lost() >= limit;
    ((is_available(node) || is_dispensable) && out >= limit) || is_full || costs_the_quorum(world, node)
}

fn costs_the_quorum(world: &World, node: &Node) -> bool {
    let members: Vec<&Node> = world.nodes.values().filter(|other| other.host.etcd.is_some()).collect();
    let name = &node.facts.name;
    let left = members.iter().filter(|other| other.host.has_member_up() && other.facts.name != *name).count();
    members.len() > 2 && left <= members.len() / 2
}

/// Tells nodes that wait behind a dead one from nodes that were simply forgotten.
fn kind(world: &World, node: &Node) -> Kind {
    let has_dead = world.nodes.values().any(|other| other.host.is_lost());
    let needs_it = node.host.failed || node.cordoned_by_person;
    if has_dead && needs_it { Kind::Starved } else { Kind::Unfinished }
}

fn describe(node: &Node) -> String {
    let (facts, host) = (&node.facts, &node.host);
    format!(
        "{}: current {:?}, desired {:?}, state {:?}, unready {:?}, drain {:?}/{:?}, on disk {:?}, emptied {}",
        facts.name,
        facts.current,
        facts.desired,
        state_word(&facts.state),
        facts.unready,
        facts.desired_drain,
        facts.last_applied_drain,
        host.disk,
        host.emptied,
    )
}

/// Whether an empty plan names a reason for waiting.
fn says_why(next: &Next) -> bool {
    let (Next::OnChange(waiting) | Next::After(_, waiting)) = next;
    match waiting {
        Waiting::Unread(_)
        | Waiting::Budget { .. }
        | Waiting::Quorum { .. }
        | Waiting::Nodes { .. }
        | Waiting::Held { .. }
        | Waiting::Unfit { .. } => true,
        Waiting::Settled
        | Waiting::Misconfigured(_)
        | Waiting::Deleting
        | Waiting::NoConfiguration
        | Waiting::Paused
        | Waiting::Image(_)
        | Waiting::NewerPool
        | Waiting::TrialReverted { .. }
        | Waiting::Settling { .. }
        | Waiting::Peer { .. }
        | Waiting::Taints => false,
    }
}

/// Checks that a finished rollout leaves no claims, no taints and a correct status.
fn check_leftovers(world: &mut World, all_through: bool) {
    let through = |name: &str| world.nodes.get(name).is_none_or(|node| is_through(world, node));
    let spec = &world.ledger.spec;
    // While nodes wait, claims of finished nodes may stay until the next write of the ledger.
    let left = spec.claims.iter().chain(&spec.next).next().filter(|_| all_through);
    let left = left.map(|claim| format!("the claim of node {}, which is through, is left over", claim.node));
    let mut tainted = world.nodes.values().filter(|node| node.facts.has_update_taint());
    let tainted = tainted.find(|node| through(&node.facts.name));
    let tainted = tainted.map(|node| format!("node {} is through and keeps its taint", node.facts.name));
    let status = world.pool.status.configuration.as_ref().and_then(|configuration| configuration.name.clone());
    let stale = (all_through && status.as_deref() != Some(world.pool.target()))
        .then(|| format!("the pool's status ends at {status:?} instead of {}", world.pool.target()));
    for sentence in [left, tainted, stale].into_iter().flatten() {
        world.violate(Kind::LeftOver, sentence);
    }
}
