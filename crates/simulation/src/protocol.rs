//! Checks of the protocol between planners, ledger and nodes.
//!
//! How many nodes may be taken away is checked in `account`, independently of the ledger.

use api::known::Unread;
use api::machinist::{Claim, PoolLedgerSpec};
use rollout::{Action, NodeFacts, Plan, Snapshot};

use crate::violation::Kind;
use crate::world::{World, is_ours};

/// Checks a plan against the snapshot it was made from. `unread` is what the planner's controller could not read for longer
/// than readings are believed.
pub(crate) fn plan(world: &mut World, view: &Snapshot, unread: Option<&Unread>, plan: &Plan) {
    let targets: Vec<_> = plan.actions.iter().filter_map(target_of).collect();
    let places = |action: &Action| matches!(action, Action::WriteLedger { .. } | Action::Target(_));
    if let Some((unread, action)) = unread.zip(plan.actions.iter().find(|action| places(action))) {
        world.violate(Kind::Unseen, format!("{action:?} was planned by a controller: {unread}"));
    }
    if view.pool.paused && !targets.is_empty() {
        world.violate(Kind::Paused, format!("a paused pool was given targets: {targets:?}"));
    }
    if let Some(wrong) = targets.iter().find(|target| target.config != view.pool.target()) {
        world.violate(Kind::NotNewest, format!("node {} gets {}, which is not the newest", wrong.node, wrong.config));
    }
    let written = plan.actions.iter().position(|action| matches!(action, Action::WriteLedger { .. }));
    let known = &plan.actions[..written.unwrap_or(plan.actions.len())];
    let is_claimed = |node: &str| claims(&view.ledger.spec).any(|claim| claim.node == node);
    let unclaimed = known.iter().filter_map(target_of).find(|target| !is_claimed(&target.node));
    if let Some(target) = unclaimed {
        world.violate(Kind::Unclaimed, format!("node {} was targeted without a claim", target.node));
    }
}

/// Checks that a write of the ledger does not go back to an older generation of the pool.
pub(crate) fn ledger(world: &World, spec: &PoolLedgerSpec) -> Option<(Kind, String)> {
    let generation = |spec: &PoolLedgerSpec| spec.target.as_ref().and_then(|target| target.generation);
    let (old, new) = (generation(&world.ledger.spec), generation(spec));
    (new < old).then(|| (Kind::Backwards, format!("the ledger goes back from generation {old:?} to {new:?}")))
}

/// Checks a target that has just landed on a node, given the node `before`.
pub(crate) fn target(world: &mut World, before: &NodeFacts, paused: bool) {
    let node = &before.name;
    if !before.ours && before.state == rollout::node::State::Working {
        world.violate(Kind::Foreign, format!("node {node} got a target while a daemon that is not ours works"));
    }
    if before.hold.is_some() {
        world.violate(Kind::Held, format!("node {node} is held and got a target"));
    }
    if paused {
        world.violate(Kind::Paused, format!("node {node} got a target from a plan that saw the pool paused"));
    }
}

/// Checks that hold after every step.
pub(crate) fn always(world: &mut World) {
    let is_claimed = |node: &String| claims(&world.ledger.spec).any(|claim| claim.node == *node);
    if let Some(node) = world.being_changed().iter().find(|node| !is_claimed(node)) {
        world.violate(Kind::Unclaimed, format!("node {node} is being changed and holds no claim"));
    }
    let orphan = world.nodes.values().find(|node| {
        let facts = &node.facts;
        let rests = facts.desired_drain == facts.last_applied_drain
            && facts.desired_drain.as_deref().is_none_or(|asked| asked.starts_with("uncordon-"));
        // Our note on the node is what lets the next plan uncordon it.
        facts.unschedulable && !node.cordoned_by_person && !is_ours(facts) && rests
    });
    if let Some(node) = orphan {
        let sentence = format!("node {} is cordoned and nobody will uncordon it", node.facts.name);
        world.violate(Kind::LeftCordon, sentence);
    }
}

/// A node was given back.
pub(crate) fn uncordoned(world: &mut World, node: &str, uncordon: bool) {
    let Some(found) = world.nodes.get_mut(node) else { return };
    if uncordon && found.cordoned_by_person {
        found.cordoned_by_person = false;
        world.violate(Kind::PersonsCordon, format!("the cordon that a person put on node {node} was removed"));
    }
}

fn target_of(action: &Action) -> Option<&rollout::Target> {
    match action {
        Action::Target(target) => Some(target),
        Action::WriteLedger { .. }
        | Action::Fence { .. }
        | Action::Hold { .. }
        | Action::SetTaints { .. }
        | Action::SetTopology { .. }
        | Action::TellContested { .. } => None,
    }
}

/// Everything a ledger lets controllers write to nodes, now or when its turn comes.
fn claims(spec: &PoolLedgerSpec) -> impl Iterator<Item = &Claim> {
    spec.claims.iter().chain(&spec.next)
}
