//! Nodes that are taken away at one time are never more than the limit, whatever state they were in before.

use rollout::node::State;
use rollout::{Action, EtcdMember, Named, NodeFacts, Plan, Snapshot, plan};
use serde_json::{Value, json};

use crate::world::{NEW, OLD, annotated, at, carry_out, change, down, node, pool, snapshot, told, workers};

/// The nodes that a plan targets.
fn targeted(plan: &Plan) -> Vec<&str> {
    let targets = plan.actions.iter().filter_map(|action| match action {
        Action::Target(target) => Some(target.node.as_str()),
        _ => None,
    });
    targets.collect()
}

/// Plans and carries it out, and returns who was targeted.
fn advance(world: &mut Snapshot) -> Vec<String> {
    let next = plan(world);
    carry_out(world, &next);
    targeted(&next).into_iter().map(str::to_owned).collect()
}

/// The daemon of a node finishes what it was asked, and leaves everything else about the node as it is.
fn finish(world: &mut Snapshot, name: &str) {
    let version = (world.nodes.newest() + 1).to_string();
    change(world, name, &version, |facts| {
        facts.current.clone_from(&facts.desired);
        facts.state = State::Done;
    });
}

fn cordoned() -> Value {
    json!({"spec": {"unschedulable": true}})
}

/// A node whose daemon never had a config: no annotation at all.
fn blank(name: &str) -> NodeFacts {
    NodeFacts { current: None, desired: None, state: State::Unreported, ours: false, ..node(name, OLD, json!({})) }
}

#[test]
fn the_first_rollout_takes_no_more_nodes_than_the_limit() {
    let mut world = workers(json!(1), vec![blank("w1"), blank("w2"), blank("w3")]);
    assert_eq!(advance(&mut world), ["w1"]);
    assert!(advance(&mut world).is_empty(), "the first one has not finished");
    finish(&mut world, "w1");
    assert_eq!(advance(&mut world), ["w2"]);
}

#[test]
fn cordoned_nodes_are_taken_within_the_limit() {
    let nodes = vec![node("w1", OLD, json!({})), node("w2", OLD, cordoned()), node("w3", OLD, cordoned())];
    let mut world = workers(json!(1), nodes);
    assert_eq!(advance(&mut world), ["w2"]);
    assert!(advance(&mut world).is_empty(), "w3 waits until w2 is through");
    finish(&mut world, "w2");
    assert_eq!(advance(&mut world), ["w3"], "w2 is still cordoned by a person, but no longer taken by us");
    finish(&mut world, "w3");
    assert!(advance(&mut world).is_empty(), "w1 serves, and two others are unavailable");
    let version = (world.nodes.newest() + 1).to_string();
    for name in ["w2", "w3"] {
        change(&mut world, name, &version, |facts| {
            facts.unschedulable = false;
            facts.unready = None;
        });
    }
    assert_eq!(advance(&mut world), ["w1"]);
}

fn masters(nodes: Vec<NodeFacts>) -> Snapshot {
    let mut world = snapshot(&pool("master", json!({})), nodes);
    let members = world
        .nodes
        .iter()
        .map(|facts| EtcdMember { node: facts.name.clone(), ready: true, named: Named::None })
        .collect();
    world.etcd = api::known::Reading::known(members, world.now);
    world
}

#[test]
fn a_degraded_master_that_updates_keeps_the_others_waiting() {
    let mut degraded = node("m0", OLD, cordoned());
    degraded.state = State::Degraded;
    let mut world = masters(vec![degraded, node("m1", OLD, cordoned()), node("m2", OLD, json!({}))]);
    let first = advance(&mut world);
    assert_eq!(first.len(), 1);
    assert!(advance(&mut world).is_empty(), "{first:?} was asked and is not through");
    // It says `Degraded` all the way, as upstream's daemon does: while it drains, while it is off, while it starts.
    let name = &first[0];
    for unready in [None, Some(rollout::node::Unready::NotReady("Unknown".into())), None] {
        let version = (world.nodes.newest() + 1).to_string();
        change(&mut world, name, &version, |facts| facts.unready.clone_from(&unready));
        assert!(advance(&mut world).is_empty(), "{name} is not through: {:?}", world.nodes.get(name));
    }
    finish(&mut world, name);
    assert_eq!(advance(&mut world).len(), 1, "now it is the turn of the next one");
    assert_eq!(world.nodes.iter().filter(|facts| facts.current.as_deref() == Some(NEW)).count(), 1);
}

/// A node whose kubelet is down. Its daemon knows of probes, and was never asked.
fn unreachable(name: &str) -> NodeFacts {
    NodeFacts { answered: Some(String::new()), ..node(name, OLD, down()) }
}

fn answers(world: &mut Snapshot, name: &str) {
    let version = (world.nodes.newest() + 1).to_string();
    change(world, name, &version, |facts| facts.answered.clone_from(&facts.probe));
}

#[test]
fn a_dead_node_holds_no_place_and_one_that_only_looks_dead_is_healed() {
    let mut world = workers(json!(1), vec![unreachable("dead"), unreachable("sick"), node("w3", OLD, cordoned())]);
    let first = plan(&world);
    let asked: Vec<_> = first.probes.iter().map(|probe| probe.node.as_str()).collect();
    assert_eq!((targeted(&first), asked), (vec!["w3"], vec!["dead", "sick"]));
    carry_out(&mut world, &first);
    assert_eq!(plan(&world).probes, [], "once is enough");
    finish(&mut world, "w3");
    assert!(advance(&mut world).is_empty());
    answers(&mut world, "sick");
    assert_eq!(advance(&mut world), ["sick"]);
    finish(&mut world, "sick");
    assert_eq!(world.nodes.get("dead").unwrap().desired.as_deref(), Some(OLD));
    // Still down although it has what it was asked to have: that is no longer our doing, and others may go.
    let version = (world.nodes.newest() + 1).to_string();
    change(&mut world, "w3", &version, |facts| facts.current = Some(OLD.into()));
    change(&mut world, "w3", &version, |facts| facts.desired = Some(OLD.into()));
    assert_eq!(advance(&mut world), ["w3"]);
}

#[test]
fn an_answer_to_an_older_question_is_none() {
    let mut world = workers(json!(1), vec![unreachable("sick")]);
    advance(&mut world);
    answers(&mut world, "sick");
    let mut pool = world.pool.clone();
    pool.configuration.as_mut().unwrap().name = Some("rendered-worker-newer".to_owned());
    world.observe_pool(pool, None);
    let next = plan(&world);
    assert_eq!(next.probes[0].question.as_deref(), Some("rendered-worker-newer/13"));
    assert!(targeted(&next).is_empty());
}

#[test]
fn a_target_that_nobody_answers_is_taken_back_when_others_wait() {
    let well = |name: &str| NodeFacts { answered: Some(String::new()), ..node(name, OLD, json!({})) };
    let mut world = workers(json!(1), vec![well("w1"), well("w2")]);
    assert_eq!(advance(&mut world), ["w1"]);
    world.now = at(59);
    assert_eq!(plan(&world).probes, []);
    world.now = at(60);
    let next = plan(&world);
    assert!(told(&next).contains("ask w1 for rendered-worker-new/11, back to rendered-worker-old"), "{}", told(&next));
    assert!(told(&next).contains("event TargetUnanswered"));
    carry_out(&mut world, &next);
    assert_eq!(advance(&mut world), ["w2"], "w1 has to answer first");
    finish(&mut world, "w2");
    assert!(advance(&mut world).is_empty());
    answers(&mut world, "w1");
    assert_eq!(advance(&mut world), ["w1"]);
}

#[test]
fn a_claim_from_a_clock_that_was_far_ahead_is_not_waited_for_until_that_time() {
    let well = |name: &str| NodeFacts { answered: Some(String::new()), ..node(name, OLD, json!({})) };
    let mut world = workers(json!(1), vec![well("w1"), well("w2")]);
    let of = |ahead| {
        world.now = at(ahead);
        let mut world = world.clone();
        advance(&mut world);
        world.now = at(0);
        world
    };
    let [a_little, a_day] = [30, 86_400].map(of);
    assert_eq!(plan(&a_little).probes, [], "it is waited for a little longer");
    assert_eq!(plan(&a_day).probes.len(), 1);
}

#[test]
fn a_target_that_was_answered_is_never_taken_back() {
    let well = |name: &str| NodeFacts { answered: Some(String::new()), ..node(name, OLD, json!({})) };
    let mut world = workers(json!(1), vec![well("w1"), well("w2")]);
    advance(&mut world);
    let begun: [fn(&mut NodeFacts); 3] = [
        |facts| facts.state = State::Working,
        |facts| facts.state = State::Degraded,
        |facts| facts.desired_drain = Some(format!("drain-{NEW}")),
    ];
    for begin in begun {
        let mut world = world.clone();
        let version = (world.nodes.newest() + 1).to_string();
        change(&mut world, "w1", &version, begin);
        world.now = at(10_000);
        assert_eq!(plan(&world).probes, []);
    }
}

#[test]
fn nodes_that_nobody_looks_after_do_not_hold_up_the_others() {
    let mut world = workers(json!(1), vec![blank("a"), node("b", OLD, json!({}))]);
    assert_eq!(advance(&mut world), ["a"]);
    world.now = at(60);
    advance(&mut world);
    assert_eq!(world.nodes.get("a").unwrap().desired, None, "the target is taken back");
    assert_eq!(advance(&mut world), ["b"]);
}

#[test]
fn those_in_line_are_fenced_off_before_a_node_that_cannot_wait_gets_a_place() {
    let taint = json!({"spec": {"taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]}});
    let mut nodes: Vec<_> = (1..=6).map(|n| node(&format!("n{n}"), OLD, taint.clone())).collect();
    nodes.push(node("z", NEW, json!({})));
    let mut world = workers(json!(2), nodes);
    assert_eq!(advance(&mut world), ["n1", "n2"]);
    assert_eq!(world.ledger.spec.next.len(), 2);
    // Now z drifts and wants something as well, and n1 comes through.
    finish(&mut world, "n1");
    let version = (world.nodes.newest() + 1).to_string();
    change(&mut world, "z", &version, |facts| {
        facts.current = Some(OLD.into());
        facts.desired = Some(OLD.into());
        facts.unschedulable = true;
        facts.unready = Some(rollout::node::Unready::Unschedulable);
    });
    let next = plan(&world);
    assert!(targeted(&next).is_empty(), "{}", told(&next));
    let fenced: Vec<_> = next.actions.iter().filter(|it| matches!(it, Action::Fence { .. })).collect();
    assert_eq!(fenced.len(), 2, "{}", told(&next));
    carry_out(&mut world, &next);
    assert_eq!(advance(&mut world), ["z"]);
}

#[test]
fn nobody_gets_a_place_beside_a_line_that_is_given_up() {
    let taint = json!({"spec": {"taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]}});
    let mut nodes: Vec<_> = (1..=9).map(|n| node(&format!("n{n}"), OLD, taint.clone())).collect();
    nodes.push(node("z", NEW, json!({})));
    let mut world = workers(json!(3), nodes);
    assert_eq!(advance(&mut world), ["n1", "n2", "n3"]);
    let in_line: Vec<_> = world.ledger.spec.next.iter().map(|one| one.node.clone()).collect();
    assert_eq!(in_line, ["n4", "n5", "n6"]);
    ["n1", "n2", "n3"].iter().for_each(|name| finish(&mut world, name));
    let version = (world.nodes.newest() + 1).to_string();
    change(&mut world, "z", &version, |facts| {
        facts.current = Some(OLD.into());
        facts.desired = Some(OLD.into());
        facts.unschedulable = true;
        facts.unready = Some(rollout::node::Unready::Unschedulable);
    });
    assert!(advance(&mut world).is_empty(), "a target of one in line may land before its fence");
    assert_eq!(advance(&mut world), ["z", "n4", "n5"]);
}

#[test]
fn nodes_on_their_way_without_a_claim_take_a_place_first() {
    let working = node("b", OLD, annotated(&[("desiredConfig", NEW), ("state", "Working")]));
    let mut world = workers(json!(1), vec![node("a", OLD, json!({})), working]);
    assert!(advance(&mut world).is_empty());
    assert_eq!(world.ledger.spec.claims[0].node, "b");
    finish(&mut world, "b");
    assert_eq!(advance(&mut world), ["a"]);
}

#[test]
fn a_node_that_works_without_a_drain_serves_and_others_wait_for_it() {
    let working = |desired| node("b", OLD, annotated(&[("desiredConfig", desired), ("state", "Working")]));
    let of = |desired| workers(json!(1), vec![node("a", OLD, cordoned()), working(desired)]);
    assert!(advance(&mut of("rendered-worker-other")).is_empty(), "another target may empty b, and a is away");
    let mut world = of(NEW);
    assert!(advance(&mut world).is_empty());
    assert!(world.ledger.spec.claims.is_empty(), "with a place, b could be emptied beside a");
    finish(&mut world, "b");
    assert_eq!(advance(&mut world), ["a"]);
    let emptied = [("desiredDrain", "drain-x"), ("lastAppliedDrain", "drain-x")];
    let emptied = annotated(&[[("desiredConfig", "x"), ("state", "Working")], emptied].concat());
    let mut world = workers(json!(1), vec![node("a", OLD, cordoned()), node("b", OLD, emptied)]);
    assert_eq!(advance(&mut world), ["b"], "it is away already");
}

#[test]
fn a_node_that_gave_up_its_target_waits_for_a_place_and_not_for_a_dead_one() {
    let refused = annotated(&[("desiredConfig", "rendered-worker-bad"), ("state", "Unreconcilable")]);
    let mut world = workers(json!(1), vec![unreachable("dead"), node("b", OLD, refused)]);
    assert_eq!(advance(&mut world), ["b"]);
}

#[test]
fn a_serving_node_that_only_asks_for_its_drain_is_not_away_yet() {
    let asking = annotated(&[("desiredConfig", NEW), ("state", "Working"), ("desiredDrain", "drain-x")]);
    let mut world = workers(json!(1), vec![node("a", OLD, cordoned()), node("b", OLD, asking)]);
    assert_eq!(advance(&mut world), ["a"], "b serves, and a is unavailable already");
    assert_eq!(world.ledger.spec.claims.len(), 1);
}

#[test]
fn a_node_is_down_in_whatever_order_its_conditions_are_listed() {
    // The kubelet lists its pressures first, and all of them become Unknown when it falls silent.
    let lost = json!({"status": {"conditions": [
        {"type": "MemoryPressure", "status": "Unknown"}, {"type": "DiskPressure", "status": "Unknown"},
        {"type": "Ready", "status": "Unknown"},
    ]}});
    let lost = node("lost", OLD, lost);
    assert!(!lost.is_running(), "{:?}", lost.unready);
    assert!(advance(&mut workers(json!(1), vec![lost])).is_empty());
}
