//! Planners that break one rule each. Every one of them must be found out.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::State;
use rollout::{Action, NodeFacts, Plan, PoolNodes, Snapshot};
use simulation::{Planner, run};

/// Enough runs for a broken planner to meet the fault that gives it away.
const RUNS: u64 = 400;

#[track_caller]
fn is_found_out(planner: &dyn Planner, words: &str) {
    let mut said = (0..RUNS).flat_map(|seed| run(seed, planner).violations);
    let found = said.by_ref().find(|violation| violation.contains(words));
    assert!(found.is_some(), "{RUNS} runs did not notice that {words:?}");
}

/// A planner that is right about everything but what the function does to its input.
struct Blind(fn(&mut Snapshot));

impl Planner for Blind {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        rollout::plan(&snapshot)
    }
}

fn with_nodes(snapshot: &mut Snapshot, change: fn(&mut NodeFacts)) {
    let mut nodes = PoolNodes::new(snapshot.nodes.rules().clone());
    nodes.seen_until(snapshot.nodes.newest());
    for facts in snapshot.nodes.iter() {
        let mut facts = facts.clone();
        change(&mut facts);
        nodes.observe(facts);
    }
    snapshot.nodes = nodes;
}

#[test]
fn a_planner_that_does_not_read_the_ledger() {
    is_found_out(&Blind(|snapshot| snapshot.ledger.spec.claims.clear()), "holds no claim");
}

#[test]
fn a_planner_that_counts_one_node_too_few() {
    let greedy = Blind(|snapshot| {
        if let Some(IntOrString::Int(limit)) = &mut snapshot.pool.max_unavailable {
            *limit += 1;
        }
    });
    is_found_out(&greedy, "share of a budget");
}

#[test]
fn a_planner_that_gives_claims_back_as_soon_as_the_node_moves() {
    let hasty = Blind(|snapshot| {
        let nodes = snapshot.nodes.clone();
        snapshot.ledger.spec.claims.retain(|claim| {
            let version = nodes.get(&claim.node).map(|facts| facts.resource_version.text.clone());
            version.is_none() || version == claim.node_resource_version
        });
    });
    is_found_out(&hasty, "holds no claim");
}

#[test]
fn two_planners_that_do_not_agree_on_who_is_next_in_line() {
    let contrary = Blind(|snapshot| {
        if snapshot.settings.holder == "second" {
            snapshot.ledger.spec.next.reverse();
        }
    });
    is_found_out(&contrary, "taken down at once");
}

#[test]
fn a_planner_that_takes_every_daemon_for_ours() {
    is_found_out(&Blind(|snapshot| with_nodes(snapshot, |facts| facts.ours = true)), "daemon that is not ours");
}

#[test]
fn a_planner_that_does_not_see_holds() {
    is_found_out(&Blind(|snapshot| with_nodes(snapshot, |facts| facts.hold = None)), "is held");
}

#[test]
fn a_planner_that_does_not_see_pauses() {
    is_found_out(&Blind(|snapshot| snapshot.pool.paused = false), "paused");
}

#[test]
fn a_planner_that_does_not_know_newer_from_older() {
    let forgetful = Blind(|snapshot| {
        if let Some(target) = &mut snapshot.ledger.spec.target {
            target.generation = None;
        }
    });
    is_found_out(&forgetful, "goes back from generation");
}

/// Writes targets whatever has become of the node meanwhile.
struct Unfenced;

impl Planner for Unfenced {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        rollout::plan(snapshot)
    }

    fn is_fenced(&self) -> bool {
        false
    }
}

#[test]
fn a_controller_whose_late_writes_land() {
    is_found_out(&Unfenced, "holds no claim");
}

/// Does not give the newest target to nodes that failed, as upstream's controller does when the budget is spent.
struct Unforgiving;

impl Planner for Unforgiving {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut plan = rollout::plan(snapshot);
        let failed = |node: &str| snapshot.nodes.get(node).is_some_and(|facts| facts.state == State::Degraded);
        plan.actions.retain(|action| !matches!(action, Action::Target(target) if failed(&target.node)));
        plan
    }
}

#[test]
fn a_planner_that_leaves_failed_nodes_where_they_are() {
    is_found_out(&Unforgiving, "does not come to its end");
}

/// Never stops writing.
struct Restless;

impl Planner for Restless {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut plan = rollout::plan(snapshot);
        if let Some(facts) = snapshot.nodes.iter().next() {
            let resource_version = facts.resource_version.clone();
            plan.actions.push(Action::Fence { node: facts.name.clone(), resource_version });
        }
        plan
    }
}

#[test]
fn a_planner_that_never_rests() {
    is_found_out(&Restless, "given more to do");
}
