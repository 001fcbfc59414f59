//! Planners that break one rule each. The simulation must notice every one of them.

use std::collections::BTreeMap;

use machine::control_plane_set::{self, Etcd};
use machine::health::Limit;
use machine::lifecycle::{self, Action, Call, Next};
use machine::{deployment, draining, health, link, orphans, set};
use simulation::machines::{Kind, Parties, run};

/// Enough runs for every broken planner to meet the situation that exposes it.
const RUNS: u64 = 1500;

/// The first violation of some run is of this kind.
#[track_caller]
fn is_found_out(parties: &dyn Parties, kind: Kind) {
    let first = |seed| run(seed, parties).violations.first().map(|violation| violation.kind);
    assert!((0..RUNS).filter_map(first).any(|found| found == kind), "{RUNS} runs did not notice");
}

/// A planner of Machines that sees, or says, something else.
struct Life(fn(&mut lifecycle::Snapshot), fn(&lifecycle::Snapshot, &mut lifecycle::Plan));

impl Parties for Life {
    fn machine(&self, snapshot: &lifecycle::Snapshot) -> lifecycle::Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        let mut plan = lifecycle::plan(&snapshot);
        (self.1)(&snapshot, &mut plan);
        plan
    }
}

#[test]
fn a_creation_with_a_new_token_for_each_try_is_found_out() {
    let renew = |snapshot: &lifecycle::Snapshot, plan: &mut lifecycle::Plan| {
        if let Next::Ask(Call::Create(intent)) = &mut plan.next {
            intent.token = format!("{} {}", intent.token, snapshot.now);
        }
    };
    is_found_out(&Life(|_| {}, renew), Kind::DoubleCreate);
}

#[test]
fn a_machine_that_goes_before_its_instance_is_found_out() {
    let let_go = |_: &lifecycle::Snapshot, plan: &mut lifecycle::Plan| {
        if plan.next == Next::Ask(Call::Delete) {
            plan.actions.push(Action::RemoveFinalizer);
        }
    };
    is_found_out(&Life(|_| {}, let_go), Kind::Leak);
}

#[test]
fn a_copy_that_takes_the_instance_of_its_original_is_found_out() {
    is_found_out(&Copycat, Kind::Touched);
}

/// Sees no other Machine that claims the same instance.
struct Copycat;

impl Parties for Copycat {
    fn machine(&self, snapshot: &lifecycle::Snapshot) -> lifecycle::Plan {
        lifecycle::plan(&lifecycle::Snapshot { rivals: Vec::new(), ..snapshot.clone() })
    }

    fn drain(&self, snapshot: &draining::Snapshot) -> draining::Plan {
        draining::plan(&draining::Snapshot { rivals: Vec::new(), ..snapshot.clone() })
    }
}

#[test]
fn a_node_that_is_left_behind_is_found_out() {
    let forget = |_: &lifecycle::Snapshot, plan: &mut lifecycle::Plan| {
        plan.actions.retain(|action| !matches!(action, Action::DeleteNode { .. }));
    };
    is_found_out(&Life(|_| {}, forget), Kind::GhostNode);
}

#[test]
fn a_machine_that_never_says_why_it_waits_is_found_out() {
    let silence = |_: &lifecycle::Snapshot, plan: &mut lifecycle::Plan| {
        plan.status.conditions.retain(|it| it.status == "True" || it.type_ == "Drained");
        plan.status.error_message = None;
    };
    is_found_out(&Life(|_| {}, silence), Kind::Unexplained);
}

/// A sweep to which every instance is an orphan.
struct Sweeper;

impl Parties for Sweeper {
    fn orphans(&self, snapshot: &orphans::Snapshot) -> orphans::Plan {
        orphans::plan(&orphans::Snapshot { machines: Some(orphans::Machines::default()), ..snapshot.clone() })
    }
}

#[test]
fn a_sweep_that_takes_what_machines_have_is_found_out() {
    is_found_out(&Sweeper, Kind::Touched);
}

/// A drain that is over before it began.
struct Hasty;

impl Parties for Hasty {
    fn drain(&self, snapshot: &draining::Snapshot) -> draining::Plan {
        draining::plan(&draining::Snapshot { emptying: Some(draining::Emptying::default()), ..snapshot.clone() })
    }
}

#[test]
fn a_drain_that_waits_for_no_pod_is_found_out() {
    is_found_out(&Hasty, Kind::Undrained);
}

/// A planner of health checks that sees something else.
struct Doctor(fn(&mut health::Snapshot));

impl Parties for Doctor {
    fn check(&self, snapshot: &health::Snapshot) -> health::Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        let mut plan = health::plan(&snapshot);
        plan.status.conditions.clear();
        plan
    }
}

#[test]
fn a_check_without_a_brake_is_found_out() {
    let release = |snapshot: &mut health::Snapshot| {
        if let Ok(check) = &mut snapshot.check {
            check.at_once = None;
        }
    };
    is_found_out(&Doctor(release), Kind::Brake);
}

#[test]
fn a_check_that_waits_for_no_replacement_is_found_out() {
    is_found_out(&Doctor(|snapshot| snapshot.sets.clear()), Kind::Unreplaced);
}

#[test]
fn a_check_that_never_stops_is_found_out() {
    let unbound = |snapshot: &mut health::Snapshot| {
        if let Ok(check) = &mut snapshot.check {
            check.max_unhealthy = Limit::All;
        }
    };
    is_found_out(&Doctor(unbound), Kind::TooManyUnhealthy);
}

#[test]
fn a_check_that_believes_the_clocks_of_nodes_is_found_out() {
    is_found_out(&Doctor(|snapshot| snapshot.suspected = None), Kind::Healthy);
}

/// Processes that do not claim what they take machines away from.
struct Unclaimed;

impl Parties for Unclaimed {
    fn claims(&self) -> bool {
        false
    }
}

#[test]
fn two_leaders_without_claims_are_found_out() {
    is_found_out(&Unclaimed, Kind::Overkill);
}

/// A planner of the control plane that sees, or does, something else.
struct Regent(fn(&mut control_plane_set::Snapshot), fn(&control_plane_set::Snapshot, &mut control_plane_set::Plan));

impl Parties for Regent {
    fn control_plane(&self, snapshot: &control_plane_set::Snapshot) -> control_plane_set::Plan {
        let mut snapshot = snapshot.clone();
        (self.0)(&mut snapshot);
        let mut plan = control_plane_set::plan(&snapshot);
        (self.1)(&snapshot, &mut plan);
        plan
    }
}

#[test]
fn a_control_plane_that_loses_two_machines_at_once_is_found_out() {
    let more = |snapshot: &control_plane_set::Snapshot, plan: &mut control_plane_set::Plan| {
        let leaving = |action: &control_plane_set::Action| matches!(action, control_plane_set::Action::Delete { .. });
        if plan.actions.iter().any(leaving) {
            let others = snapshot.masters.iter().filter(|master| !master.deleting);
            let delete = others
                .map(|master| control_plane_set::Action::Delete { name: master.name.clone(), uid: master.uid.clone() });
            plan.actions.extend(delete.collect::<Vec<_>>());
        }
    };
    is_found_out(&Regent(|_| {}, more), Kind::ControlPlane);
}

#[test]
fn a_control_plane_that_does_not_ask_etcd_is_found_out() {
    let blind = |snapshot: &mut control_plane_set::Snapshot| {
        snapshot.etcd = Etcd::Elsewhere;
        snapshot.masters.iter_mut().for_each(|master| master.ready = true);
    };
    is_found_out(&Regent(blind, |_, _| {}), Kind::Quorum);
}

/// A planner of sets that does something else.
struct Keeper(fn(&set::Snapshot, &mut set::Plan));

impl Parties for Keeper {
    fn set(&self, snapshot: &set::Snapshot) -> set::Plan {
        let mut plan = set::plan(snapshot);
        (self.0)(snapshot, &mut plan);
        plan
    }
}

#[test]
fn a_set_that_takes_one_machine_too_many_is_found_out() {
    let greedy = |snapshot: &set::Snapshot, plan: &mut set::Plan| {
        let names: BTreeMap<&str, &str> =
            snapshot.members.iter().map(|member| (member.name.as_str(), member.uid.as_str())).collect();
        let taken = |name: &str| {
            plan.actions.iter().any(|action| matches!(action, set::Action::Delete { name: it, .. } if it == name))
        };
        let is_shrinking = plan.actions.iter().any(|action| matches!(action, set::Action::Delete { .. }));
        let next = names.iter().find(|(name, _)| is_shrinking && !taken(name));
        let next = next.map(|(name, uid)| set::Action::Delete { name: (*name).to_owned(), uid: (*uid).to_owned() });
        plan.actions.extend(next);
    };
    is_found_out(&Keeper(greedy), Kind::Overkill);
}

#[test]
fn a_set_that_never_makes_machines_is_found_out() {
    let idle = |_: &set::Snapshot, plan: &mut set::Plan| {
        plan.actions.retain(|action| !matches!(action, set::Action::Create(_)));
        plan.status.error_message = Some("too lazy".to_owned());
    };
    is_found_out(&Keeper(idle), Kind::Unfinished);
}

/// A deployment that grows by more than it may.
struct Generous;

impl Parties for Generous {
    fn deployment(&self, snapshot: &deployment::Snapshot) -> deployment::Plan {
        let mut plan = deployment::plan(snapshot);
        for action in &mut plan.actions {
            if let deployment::Action::Update { change, .. } = action {
                change.replicas = change.replicas.map(|replicas| replicas + 2);
            }
        }
        plan
    }
}

#[test]
fn a_deployment_that_makes_too_many_machines_is_found_out() {
    is_found_out(&Generous, Kind::Surge);
}

/// Links every node anew at every look.
struct Restless;

impl Parties for Restless {
    fn link(&self, snapshot: &link::Snapshot) -> link::Plan {
        let mut plan = link::plan(snapshot);
        if plan.actions.is_empty()
            && let link::Match::One(machine) = &snapshot.machine
            && let Some(node_ref) = machine.status.as_ref().and_then(|status| status.node_ref.clone())
        {
            plan.actions.push(link::Action::SetNodeRef { machine: link::Key::of(machine), node_ref });
        }
        plan
    }
}

#[test]
fn a_link_that_never_rests_is_found_out() {
    is_found_out(&Restless, Kind::Restless);
}
