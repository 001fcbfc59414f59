//! What was not read is said to be unknown, and never to be missing or well.

use explain::decided::decide;
use explain::{Drains, Input, State};

use super::*;

const WHY: &str = "you may not list them";

impl World {
    fn unread(mut self, input: Input) -> Self {
        self.0.unread.add(input, WHY);
        self
    }
}

#[track_caller]
fn check(it: Option<explain::Explanation>, state: State, words: &str) {
    let it = it.unwrap();
    assert_eq!(it.state, state, "{it:?}");
    let said = format!("{}; {}", it.summary, it.waiting_for.join("; "));
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_pool_without_its_nodes_is_unknown_and_tells_what_it_counts_itself() {
    let pool = |world: World| explain::pool(&world.snapshot(), "worker");
    let counts = |value: &mut Value| {
        value["status"]["machineCount"] = json!(3);
        value["status"]["updatedMachineCount"] = json!(1);
    };
    check(pool(World::new()), State::Updated, "it has no nodes");
    let hidden = World::new().unread(Input::Nodes);
    check(pool(hidden), State::Unknown, "its nodes are not known: you may not list them");
    let counted = World::new().pool(counts).unread(Input::Nodes);
    check(pool(counted), State::Unknown, "it counts 1 of 3 nodes as updated");
    let paused = World::new().pool(|value| value["spec"]["paused"] = json!(true)).unread(Input::Nodes);
    check(pool(paused), State::Paused, "its nodes are not known");
}

#[test]
fn a_node_without_pools_is_unknown_and_not_unmanaged() {
    let node = |world: World| explain::node(&world.snapshot(), "a");
    let world = || World::new().node_of("a", Member::Unmanaged, "b", "b", "Done", &[]);
    check(node(world()), State::Unmanaged, "no pool's nodeSelector");
    check(node(world().unread(Input::Pools)), State::Unknown, "which pool it follows is not known: you may not");
    let broken = World::new().node_of("a", Member::Unmanaged, "a", "b", "Degraded", &[]).unread(Input::Pools);
    check(node(broken), State::Degraded, "its daemon gave no reason");
    let findings = explain::doctor(&world().unread(Input::Pools).snapshot());
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_machine_whose_node_was_not_read_does_not_run_for_sure() {
    let machine = json!({
        "metadata": {"name": "m", "namespace": "openshift-machine-api"}, "spec": {},
        "status": {"phase": "Running", "nodeRef": {"name": "a"}},
    });
    let mut world = World::new();
    world.0.machines.push(serde_json::from_value(machine).unwrap());
    check(explain::machine(&world.snapshot(), "m"), State::Running, "it is node a");
    let world = world.unread(Input::Nodes);
    check(explain::machine(&world.snapshot(), "m"), State::Unknown, "whose condition is not known");
}

#[test]
fn a_set_whose_machines_were_not_read_names_them_and_not_its_controller() {
    let set = |available: i32| {
        json!({
            "metadata": {"name": "s", "namespace": "openshift-machine-api"},
            "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"replicas": available, "availableReplicas": available, "readyReplicas": available},
        })
    };
    let world = |available: i32| {
        let mut world = World::new().unread(Input::Machines);
        world.0.machine_sets.push(serde_json::from_value(set(available)).unwrap());
        world.snapshot()
    };
    check(explain::machine_set(&world(1), "s"), State::Unknown, "machines that are not known: you may not");
    check(explain::machine_set(&world(2), "s"), State::Running, "2 of 2 machines are available");
}

#[test]
fn without_the_ledger_nobody_is_promised_a_turn_or_refused_a_place() {
    let mut world = World::new()
        .node("a", "a", "b", "Working", &[("machineconfiguration.openshift.io/desiredDrain", "drain-x")])
        .node("b", "a", "a", "Done", &[])
        .unread(Input::Ledgers);
    world = world.pool(|pool| {
        pool["spec"]["nodeSelector"] = json!({"matchLabels": {"node-role.kubernetes.io/worker": ""}});
    });
    for node in &mut world.0.nodes {
        node.metadata.labels = Some(BTreeMap::from([("node-role.kubernetes.io/worker".to_owned(), String::new())]));
    }
    decide(&mut world.0, &Drains::default(), now());
    let snapshot = world.snapshot();
    check(explain::node(&snapshot, "a"), State::Updating, "it is being emptied");
    check(explain::node(&snapshot, "b"), State::Unknown, "what the ledger of its pool says, which is not known");
    check(explain::pool(&snapshot, "worker"), State::Unknown, "what its ledger says, which is not known");
}

#[test]
fn without_the_reports_no_daemon_is_said_to_be_silent() {
    let world = || World::new().node("a", "a", "b", "Done", &[]);
    check(explain::node(&world().snapshot(), "a"), State::Blocked, "nobody is working on it");
    check(explain::node(&world().unread(Input::NodeReports).snapshot(), "a"), State::Updating, "it changes to");
}

#[test]
fn whether_a_budget_keeps_a_drain_is_not_known_where_pods_were_not_read() {
    let drain = [("machineconfiguration.openshift.io/desiredDrain", "drain-x")];
    let world = World::new().ledger(&json!({"claims": [{"node": "a"}]})).node("a", "a", "b", "Working", &drain);
    let snapshot = world.unread(Input::Pods).snapshot();
    check(explain::node(&snapshot, "a"), State::Updating, "perhaps a disruption budget, which is not known");
}

#[test]
fn nothing_is_said_to_replace_a_node_where_machines_were_not_read() {
    let world = || {
        let mut world = World::new().node("a", "b", "b", "Done", &[]);
        let ready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": ago(5)}]);
        world.0.nodes[0].status.as_mut().unwrap().conditions = serde_json::from_value(ready).unwrap();
        world
    };
    let effect = |world: World| explain::doctor(&world.snapshot())[0].effect.clone();
    assert!(effect(world()).contains("no Machine stands for it"));
    assert!(effect(world().unread(Input::Machines)).contains("is not known: you may not list them"));
}
