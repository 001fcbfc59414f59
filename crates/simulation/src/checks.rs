//! What must hold after every step, whatever went wrong before.

use std::collections::BTreeSet;

use api::machinist::{Claim, PoolLedgerSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::{Action, NodeFacts, Plan, Snapshot};

use crate::world::{World, is_ours};

/// A plan keeps to what its own view allows.
pub(crate) fn plan(world: &mut World, view: &Snapshot, plan: &Plan) {
    let targets: Vec<_> = plan.actions.iter().filter_map(target_of).collect();
    if view.pool.paused && !targets.is_empty() {
        world.violate(format!("a paused pool was given targets: {targets:?}"));
    }
    if let Some(wrong) = targets.iter().find(|target| target.config != view.pool.target()) {
        world.violate(format!("node {} gets {}, which is not the newest", wrong.node, wrong.config));
    }
    let written = plan.actions.iter().position(|action| matches!(action, Action::WriteLedger { .. }));
    let known = &plan.actions[..written.unwrap_or(plan.actions.len())];
    if known
        .iter()
        .filter_map(target_of)
        .any(|target| !claims(&view.ledger.spec).any(|claim| claim.node == target.node))
    {
        world.violate("a node was targeted without a claim".to_owned());
    }
    if let Some(Action::WriteLedger { spec, .. }) = written.map(|at| &plan.actions[at]) {
        let is_taken = |claim: &&Claim| {
            view.nodes.get(&claim.node).is_some_and(is_available) && !view.ledger.spec.claims.contains(claim)
        };
        let claimed = spec.claims.iter().map(|claim| claim.node.as_str());
        let unavailable = view.nodes.iter().filter(|facts| facts.consumes_budget()).map(|facts| facts.name.as_str());
        let held: BTreeSet<_> = claimed.chain(unavailable).collect();
        let limit = limit(view);
        if held.len() > limit && spec.claims.iter().any(|claim| is_taken(&claim) && !was_pending(view, claim)) {
            world.violate(format!("{} nodes would hold a share of a budget of {limit}: {held:?}", held.len()));
        }
    }
}

/// How many nodes may be down at once, worked out without the planner's help.
pub(crate) fn limit(view: &Snapshot) -> usize {
    match &view.pool.max_unavailable {
        Some(IntOrString::Int(number)) if view.pool.name == "worker" => usize::try_from(*number).unwrap_or(1),
        Some(IntOrString::Int(_) | IntOrString::String(_)) | None => 1,
    }
}

/// The ledger never goes back to an older version of the pool. What is wrong with a write, should it land.
pub(crate) fn ledger(world: &World, spec: &PoolLedgerSpec) -> Option<String> {
    let generation = |spec: &PoolLedgerSpec| spec.target.as_ref().and_then(|target| target.generation);
    let (old, new) = (generation(&world.ledger.spec), generation(spec));
    (new < old).then(|| format!("the ledger goes back from generation {old:?} to {new:?}"))
}

/// A target has just landed on a node that was so `before`.
pub(crate) fn target(world: &mut World, before: &NodeFacts, paused: bool, limit: usize) {
    let node = &before.name;
    if !before.ours && before.state == rollout::node::State::Working {
        world.violate(format!("node {node} got a target while a daemon that is not ours works"));
    }
    if before.hold.is_some() {
        world.violate(format!("node {node} is held and got a target"));
    }
    if paused {
        world.violate(format!("node {node} got a target from a plan that saw the pool paused"));
    }
    if world.strict && is_available(before) {
        let down = world.nodes.values().filter(|node| node.facts.consumes_budget()).count();
        if down > limit {
            world.violate(format!("node {node} was taken down as number {down}, and the budget is {limit}"));
        }
        let members = world.etcd_members();
        let left = members.iter().filter(|member| member.ready && member.node != *node).count();
        if world.pool.name == "master" && members.len() > 2 && left < members.len() / 2 + 1 {
            world.violate(format!("etcd lost its quorum when node {node} was taken down"));
        }
    }
    always(world);
}

/// What must hold at any time.
pub(crate) fn always(world: &mut World) {
    let paid: Vec<_> = world.disruptions.iter().filter(|(_, disruption)| disruption.paid).collect();
    let limit = paid.iter().map(|(_, disruption)| disruption.limit).max().unwrap_or(0);
    if paid.len() > limit {
        let nodes: Vec<_> = paid.iter().map(|(node, _)| node.as_str()).collect();
        let problem = format!("{} nodes were taken down at once and the budget is {limit}: {nodes:?}", nodes.len());
        world.violate(problem);
    }
    let is_claimed = |node: &str| claims(&world.ledger.spec).any(|claim| claim.node == node);
    let unclaimed = world.disruptions.keys().find(|node| !is_claimed(node));
    if let Some(node) = unclaimed {
        let problem = format!("node {node} is being changed and holds no claim");
        world.violate(problem);
    }
    let orphan = world.nodes.values().find(|node| {
        let facts = &node.facts;
        let rests = facts.desired_drain == facts.last_applied_drain
            && facts.desired_drain.as_deref().is_none_or(|asked| asked.starts_with("uncordon-"));
        // Our note on the node is what lets the next plan uncordon it.
        facts.unschedulable && !node.cordoned_by_person && !is_ours(facts) && rests
    });
    if let Some(node) = orphan {
        let problem = format!("node {} is cordoned and nobody will uncordon it", node.facts.name);
        world.violate(problem);
    }
}

/// A node was given back.
pub(crate) fn uncordoned(world: &mut World, node: &str, uncordon: bool) {
    let Some(found) = world.nodes.get_mut(node) else { return };
    if uncordon && found.cordoned_by_person {
        found.cordoned_by_person = false;
        world.violate(format!("the cordon that a person put on node {node} was removed"));
    }
}

fn target_of(action: &Action) -> Option<&rollout::Target> {
    match action {
        Action::Target(target) => Some(target),
        Action::WriteLedger { .. }
        | Action::Fence { .. }
        | Action::SetTaints { .. }
        | Action::SetTopology { .. }
        | Action::DegradeNode { .. } => None,
    }
}

fn is_available(facts: &NodeFacts) -> bool {
    facts.is_done() && facts.is_serving()
}

/// Everything a ledger lets controllers write to nodes, now or when its turn comes.
fn claims(spec: &PoolLedgerSpec) -> impl Iterator<Item = &Claim> {
    spec.claims.iter().chain(&spec.next)
}

/// Whether the claim only changes the config of one that has not been acted on yet.
fn was_pending(view: &Snapshot, claim: &Claim) -> bool {
    let earlier = claims(&view.ledger.spec).find(|earlier| earlier.node == claim.node);
    earlier.is_some_and(|earlier| earlier.node_resource_version == claim.node_resource_version)
}
