//! Planners, drains and daemons that break one rule each. The simulation must notice every one of them.

use std::collections::BTreeSet;

use api::known::Reading;
use api::machinist::{Claim, PoolLedgerSpec};
use drain::Action as DrainAction;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::{State, Unready};
use rollout::{Action, Next, NodeFacts, Plan, PoolNodes, Snapshot, Target, Waiting};
use simulation::{Before, Kind, Parties, TrialClock, run};

/// Enough runs for every broken party to meet the situation that exposes it.
const RUNS: u64 = 2000;

/// The first violation of some run is of this kind.
#[track_caller]
fn is_found_out(parties: &dyn Parties, is_it: impl Fn(Kind) -> bool) {
    let first = |seed| run(seed, parties).violations.first().map(|violation| violation.kind);
    assert!((0..RUNS).filter_map(first).any(is_it), "{RUNS} runs did not notice");
}

/// The real planner with a falsified input.
struct Blind(fn(&mut Snapshot));

impl Parties for Blind {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        rollout::plan(&snapshot)
    }
}

/// The real planner with a falsified plan.
struct Spoilt(fn(&Snapshot, &mut Plan));

impl Parties for Spoilt {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        let mut plan = rollout::plan(snapshot);
        (self.0)(snapshot, &mut plan);
        plan
    }
}

/// The real drain with a falsified input.
struct BlindDrain(fn(&mut drain::Snapshot));

impl Parties for BlindDrain {
    fn drain(&self, snapshot: &drain::Snapshot) -> drain::Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        drain::plan(&snapshot)
    }
}

/// The real drain with falsified actions.
struct SpoiltDrain(fn(&mut DrainAction));

impl Parties for SpoiltDrain {
    fn drain(&self, snapshot: &drain::Snapshot) -> drain::Plan {
        let mut plan = drain::plan(snapshot);
        plan.actions.iter_mut().for_each(self.0);
        plan
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

/// Also claims and targets all nodes of a kind, regardless of the budget.
fn also_target(snapshot: &Snapshot, plan: &mut Plan, is_free: fn(&NodeFacts) -> bool) {
    let config = snapshot.pool.target();
    let lacks_it = |facts: &&NodeFacts| facts.desired.as_deref() != Some(config);
    let may = |facts: &&NodeFacts| facts.hold.is_none() && (facts.ours || facts.state != State::Working);
    let free: Vec<&NodeFacts> =
        snapshot.nodes.iter().filter(|facts| is_free(facts) && lacks_it(facts) && may(facts)).collect();
    if snapshot.pool.paused || config.is_empty() || free.is_empty() {
        return;
    }
    let written = plan.actions.iter().position(|action| matches!(action, Action::WriteLedger { .. }));
    let at = written.unwrap_or_else(|| {
        let ledger = &snapshot.ledger;
        let spec = Box::new(ledger.spec.clone());
        plan.actions.push(Action::WriteLedger { resource_version: ledger.resource_version.clone(), spec });
        plan.actions.len() - 1
    });
    if let Action::WriteLedger { spec, .. } = &mut plan.actions[at] {
        free.iter().for_each(|facts| claim(spec, facts, config));
    }
    let target = |facts: &&NodeFacts| {
        Action::Target(Target {
            node: facts.name.clone(),
            uid: facts.uid.clone(),
            resource_version: facts.resource_version.clone(),
            config: config.to_owned(),
            image: None,
        })
    };
    plan.actions.extend(free.iter().map(target));
}

fn claim(spec: &mut PoolLedgerSpec, facts: &NodeFacts, config: &str) {
    spec.claims.retain(|claim| claim.node != facts.name);
    spec.claims.push(Claim {
        node: facts.name.clone(),
        uid: facts.uid.clone(),
        config: config.to_owned(),
        node_resource_version: Some(facts.resource_version.text.clone()),
        ..Claim::default()
    });
}

fn is_unreachable(facts: &NodeFacts) -> bool {
    matches!(facts.unready, Some(Unready::NotReady(_)))
}

fn has_failed(facts: &NodeFacts) -> bool {
    matches!(facts.state, State::Degraded | State::Unreconcilable)
}

#[test]
fn a_planner_that_takes_every_node_without_a_first_config() {
    let spoilt = Spoilt(|snapshot, plan| also_target(snapshot, plan, |facts| facts.current.is_none()));
    is_found_out(&spoilt, |kind| kind == Kind::Budget(Before::Unconfigured));
}

#[test]
fn a_planner_that_takes_every_cordoned_node() {
    let spoilt = Spoilt(|snapshot, plan| also_target(snapshot, plan, |facts| facts.unschedulable));
    is_found_out(&spoilt, |kind| kind == Kind::Budget(Before::Cordoned));
}

#[test]
fn a_planner_that_targets_every_unreachable_node() {
    let spoilt = Spoilt(|snapshot, plan| also_target(snapshot, plan, is_unreachable));
    is_found_out(&spoilt, |kind| kind == Kind::Budget(Before::Unreachable));
}

#[test]
fn a_planner_that_takes_every_failed_node() {
    let spoilt = Spoilt(|snapshot, plan| also_target(snapshot, plan, has_failed));
    is_found_out(&spoilt, |kind| kind == Kind::Budget(Before::Broken));
}

#[test]
fn a_planner_that_counts_one_node_too_few() {
    let greedy = Blind(|snapshot| {
        if let Some(IntOrString::Int(limit)) = &mut snapshot.pool.max_unavailable {
            *limit += 1;
        }
    });
    is_found_out(&greedy, |kind| kind == Kind::Budget(Before::Serving));
}

#[test]
fn a_planner_that_does_not_take_a_failed_master_for_moving() {
    let spoilt = Spoilt(|snapshot, plan| {
        if snapshot.nodes.iter().any(has_failed) {
            also_target(snapshot, plan, |facts| facts.unschedulable && !has_failed(facts));
        }
    });
    is_found_out(&spoilt, |kind| matches!(kind, Kind::ControlPlane(_)));
}

#[test]
fn a_planner_that_does_not_see_who_is_unreachable() {
    let blind = Blind(|snapshot| {
        with_nodes(snapshot, |facts| {
            if is_unreachable(facts) {
                facts.unready = None;
            }
        });
    });
    is_found_out(&blind, |kind| kind == Kind::Unavailable);
}

#[test]
fn a_planner_that_does_not_see_the_members_of_etcd() {
    is_found_out(&Blind(|snapshot| snapshot.etcd = Reading::known(Vec::new(), snapshot.now)), |kind| {
        kind == Kind::Quorum
    });
}

#[test]
fn a_planner_that_does_not_read_the_ledger() {
    is_found_out(&Blind(|snapshot| snapshot.ledger.spec.claims.clear()), |kind| kind == Kind::Unclaimed);
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
    is_found_out(&hasty, |kind| kind == Kind::Unclaimed);
}

#[test]
fn two_planners_that_do_not_agree_on_who_is_next_in_line() {
    let contrary = Blind(|snapshot| {
        if snapshot.settings.holder == "second" {
            snapshot.ledger.spec.next.reverse();
        }
    });
    is_found_out(&contrary, |kind| kind == Kind::Budget(Before::Serving));
}

#[test]
fn a_planner_that_takes_every_daemon_for_ours() {
    is_found_out(&Blind(|snapshot| with_nodes(snapshot, |facts| facts.ours = true)), |kind| kind == Kind::Foreign);
}

#[test]
fn a_planner_that_does_not_see_holds() {
    is_found_out(&Blind(|snapshot| with_nodes(snapshot, |facts| facts.hold = None)), |kind| kind == Kind::Held);
}

#[test]
fn a_planner_that_does_not_see_pauses() {
    is_found_out(&Blind(|snapshot| snapshot.pool.paused = false), |kind| kind == Kind::Paused);
}

#[test]
fn a_planner_that_gives_an_old_target() {
    let spoilt = Spoilt(|_, plan| {
        for action in &mut plan.actions {
            if let Action::Target(target) = action {
                target.config = "rendered-pool-1".to_owned();
            }
        }
    });
    is_found_out(&spoilt, |kind| kind == Kind::NotNewest);
}

#[test]
fn a_planner_that_does_not_know_newer_from_older() {
    let forgetful = Blind(|snapshot| {
        if let Some(target) = &mut snapshot.ledger.spec.target {
            target.generation = None;
        }
    });
    is_found_out(&forgetful, |kind| kind == Kind::Backwards);
}

/// Writes targets without a resource version.
struct Unfenced;

impl Parties for Unfenced {
    fn is_fenced(&self) -> bool {
        false
    }
}

#[test]
fn a_controller_whose_late_writes_land() {
    is_found_out(&Unfenced, |kind| kind == Kind::Unclaimed);
}

#[test]
fn a_planner_that_leaves_failed_nodes_where_they_are() {
    let unforgiving = Spoilt(|snapshot, plan| {
        let failed = |node: &str| snapshot.nodes.get(node).is_some_and(has_failed);
        plan.actions.retain(|action| !matches!(action, Action::Target(target) if failed(&target.node)));
    });
    is_found_out(&unforgiving, |kind| kind == Kind::Unfinished);
}

#[test]
fn a_planner_that_waits_for_the_dead_before_it_heals_the_living() {
    let waiting = Spoilt(|snapshot, plan| {
        let failed = |node: &str| snapshot.nodes.get(node).is_some_and(has_failed);
        if snapshot.nodes.iter().any(is_unreachable) {
            plan.actions.retain(|action| !matches!(action, Action::Target(target) if failed(&target.node)));
        }
    });
    is_found_out(&waiting, |kind| kind == Kind::Starved);
}

#[test]
fn a_planner_that_does_not_say_what_it_waits_for() {
    is_found_out(&Spoilt(|_, plan| plan.next = Next::OnChange(Waiting::Settled)), |kind| kind == Kind::Unexplained);
}

#[test]
fn a_planner_that_never_strikes_a_claim() {
    let hoarding = Spoilt(|snapshot, plan| {
        for action in &mut plan.actions {
            if let Action::WriteLedger { spec, .. } = action {
                let is_lost = |claim: &&Claim| !spec.claims.iter().any(|kept| kept.node == claim.node);
                let lost: Vec<Claim> = snapshot.ledger.spec.claims.iter().filter(is_lost).cloned().collect();
                spec.claims.extend(lost);
            }
        }
        plan.actions
            .retain(|action| !matches!(action, Action::WriteLedger { spec, .. } if **spec == snapshot.ledger.spec));
    });
    is_found_out(&hoarding, |kind| kind == Kind::LeftOver);
}

#[test]
fn a_planner_that_never_rests() {
    let restless = Spoilt(|snapshot, plan| {
        if let Some(facts) = snapshot.nodes.iter().next() {
            let resource_version = facts.resource_version.clone();
            plan.actions.push(Action::Fence { node: facts.name.clone(), resource_version });
        }
    });
    is_found_out(&restless, |kind| kind == Kind::Restless);
}

#[test]
fn a_planner_that_goes_on_when_its_watches_have_been_silent_for_too_long() {
    is_found_out(&Blind(|snapshot| snapshot.unread = None), |kind| kind == Kind::Unseen);
}

#[test]
fn a_drain_that_does_not_know_what_daemon_sets_there_are() {
    let blind = BlindDrain(|snapshot| snapshot.daemon_sets = Reading::known(BTreeSet::new(), snapshot.now));
    is_found_out(&blind, |kind| kind == Kind::DaemonSet);
}

#[test]
fn a_drain_that_does_not_see_the_pods() {
    is_found_out(&BlindDrain(|snapshot| snapshot.pods = Reading::known(Vec::new(), snapshot.now)), |kind| {
        kind == Kind::RunningPods
    });
}

#[test]
fn a_drain_that_takes_every_cordon_for_its_own() {
    let spoilt = SpoiltDrain(|action| {
        if let DrainAction::Confirm { value, uncordon, .. } = action {
            *uncordon = value.starts_with("uncordon-");
        }
    });
    is_found_out(&spoilt, |kind| kind == Kind::PersonsCordon);
}

#[test]
fn a_drain_that_forgets_to_uncordon() {
    let spoilt = SpoiltDrain(|action| {
        if let DrainAction::Confirm { uncordon, .. } = action {
            *uncordon = false;
        }
    });
    is_found_out(&spoilt, |kind| kind == Kind::LeftCordon);
}

/// Measures trials with the wall clock.
struct WallClock;

impl Parties for WallClock {
    fn trial_clock(&self) -> TrialClock {
        TrialClock::Wall
    }
}

#[test]
fn a_daemon_whose_trial_fails_because_the_clock_was_set_forward() {
    is_found_out(&WallClock, |kind| kind == Kind::GoodReverted);
}

#[test]
fn a_daemon_whose_trial_does_not_end_because_the_clock_was_set_back() {
    is_found_out(&WallClock, |kind| kind == Kind::EndlessTrial);
}
