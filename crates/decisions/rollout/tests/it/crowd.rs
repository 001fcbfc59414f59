//! Claims that are more than the limit, because the limit has become smaller, and claims of nodes that report nonsense.

use api::known::Reading;
use rollout::{Action, EtcdMember, Named, NodeFacts, Snapshot, plan};
use serde_json::{Value, json};

use crate::world::{NEW, OLD, annotated, down, ledger, node, pool, snapshot, workers};

const OTHER: &str = "rendered-worker-other";

/// A node as it was claimed at version 5. All nodes here have version 10, so no patch depends on a claim any more.
fn claim(node: &str, instead_of: Option<&str>) -> Value {
    json!({"node": node, "nodeResourceVersion": "5", "config": OTHER, "insteadOf": instead_of, "since": "2027-01-15T08:00:00Z"})
}

fn with_claims(mut world: Snapshot, claims: &[Value]) -> Snapshot {
    world.ledger = ledger(json!({"target": {"config": NEW, "since": "2027-01-15T07:59:00Z"}, "claims": claims}));
    world
}

fn masters(nodes: Vec<NodeFacts>, ill: &[&str]) -> Snapshot {
    let mut world = snapshot(&pool("master", json!({})), nodes);
    let member = |facts: &NodeFacts| EtcdMember {
        node: facts.name.clone(),
        ready: !ill.contains(&facts.name.as_str()),
        named: Named::None,
    };
    world.etcd = Reading::known(world.nodes.iter().map(member).collect(), world.now);
    world
}

/// The nodes that a plan targets.
#[track_caller]
fn targeted(world: &Snapshot) -> Vec<String> {
    let targets = plan(world).actions.into_iter().filter_map(|action| match action {
        Action::Target(target) => Some(target.node),
        _ => None,
    });
    targets.collect()
}

/// A node that rests, as far as anyone can tell from a state that no daemon writes.
fn garbled(name: &str) -> NodeFacts {
    node(name, OLD, annotated(&[("state", "garbage")]))
}

/// A node that has not answered its target.
fn asked(name: &str) -> NodeFacts {
    node(name, OLD, annotated(&[("desiredConfig", OTHER)]))
}

/// A node whose daemon has refused its target.
fn refused(name: &str) -> NodeFacts {
    node(name, OLD, annotated(&[("desiredConfig", OTHER), ("state", "Unreconcilable")]))
}

#[test]
fn a_claimed_node_that_has_finished_what_it_was_busy_with_is_not_asked_beyond_the_limit() {
    let nodes = vec![asked("n0"), garbled("n1")];
    let claims = [claim("n0", None), claim("n1", Some(OLD))];
    assert!(targeted(&with_claims(workers(json!(1), nodes.clone()), &claims)).is_empty());
    assert_eq!(targeted(&with_claims(workers(json!(2), nodes), &claims)), ["n0", "n1"]);
}

#[test]
fn a_claimed_node_that_serves_is_not_asked_while_the_limit_is_unavailable() {
    let claims = [claim("n1", None)];
    let of = |limit| with_claims(workers(json!(limit), vec![node("n0", OLD, down()), garbled("n1")]), &claims);
    assert!(targeted(&of(1)).is_empty());
    assert_eq!(targeted(&of(2)), ["n1"]);
}

#[test]
fn nodes_that_refused_a_target_are_taken_again_within_a_limit_that_has_become_smaller() {
    let claims = ["n0", "n1", "n2"].map(|name| claim(name, None));
    let of = |limit| with_claims(workers(json!(limit), vec![refused("n0"), refused("n1"), refused("n2")]), &claims);
    assert_eq!(targeted(&of(1)), ["n0"]);
    assert_eq!(targeted(&of(2)), ["n0", "n1"]);
    assert_eq!(targeted(&of(3)), ["n0", "n1", "n2"]);
}

#[test]
fn a_dead_node_that_refused_its_target_does_not_take_the_turn_of_a_living_one() {
    let dead = NodeFacts { unready: node("n0", OLD, down()).unready, kubelet_down: true, ..refused("n0") };
    let world = workers(json!(1), vec![dead, refused("n1")]);
    assert_eq!(targeted(&with_claims(world, &["n0", "n1"].map(|name| claim(name, None)))), ["n1"]);
}

#[test]
fn a_node_that_refused_its_target_and_one_that_was_led_astray_do_not_wait_for_each_other() {
    let astray = annotated(&[("desiredConfig", OLD), ("currentConfig", "rendered-worker-first"), ("state", "Working")]);
    let world = workers(json!(1), vec![refused("n0"), node("n1", OLD, astray)]);
    assert_eq!(targeted(&with_claims(world, &["n0", "n1"].map(|name| claim(name, None)))), ["n1"]);
}

#[test]
fn a_node_that_was_led_astray_in_line_waits_for_a_failing_one_that_tries_again() {
    let works = node("n0", OLD, annotated(&[("desiredConfig", OTHER), ("state", "Working")]));
    let failing = node("n1", OLD, annotated(&[("desiredConfig", OTHER), ("state", "Degraded")]));
    let elsewhere = ("desiredConfig", "rendered-worker-elsewhere");
    let asking = node("n2", OLD, annotated(&[elsewhere, ("state", "Working"), ("desiredDrain", "drain-elsewhere")]));
    let claims = ["n0", "n1", "n2"].map(|name| claim(name, None));
    let world = workers(json!(2), vec![NodeFacts { ours: false, ..works }, failing, asking]);
    assert_eq!(targeted(&with_claims(world, &claims)), ["n1"], "it may be at its change, whatever it says");
}

#[test]
fn a_node_that_was_led_astray_and_serves_waits_for_one_that_is_kept_empty() {
    let elsewhere = |drained: &str| {
        let asked = [("desiredConfig", "rendered-worker-elsewhere"), ("desiredDrain", "drain-elsewhere")];
        annotated(&[asked[0], asked[1], ("state", "Working"), ("lastAppliedDrain", drained)])
    };
    let (serving, empty) = (node("n0", OLD, elsewhere("")), node("n1", OLD, elsewhere("drain-elsewhere")));
    let claims = ["n0", "n1"].map(|name| claim(name, None));
    let of = |limit| with_claims(workers(json!(limit), vec![serving.clone(), empty.clone()]), &claims);
    assert_eq!(targeted(&of(1)), ["n1"]);
    assert_eq!(targeted(&of(2)), ["n0", "n1"]);
}

#[test]
fn a_claim_ends_with_its_node_although_nothing_else_changes() {
    let pending = json!({"node": "n0", "nodeResourceVersion": "10", "config": NEW});
    let mut world = with_claims(workers(json!(1), vec![garbled("n0"), node("n1", OLD, json!({}))]), &[pending]);
    assert!(!targeted(&world).contains(&"n1".to_owned()));
    world.nodes.forget("n0");
    assert_eq!(targeted(&world), ["n1"]);
}

#[test]
fn a_claimed_node_that_never_had_a_config_gives_its_place_to_one_that_is_on_its_way() {
    let blank = NodeFacts { current: None, desired: None, ..garbled("m0") };
    let moving = annotated(&[("desiredConfig", OTHER), ("state", "Working"), ("desiredDrain", "drain-other")]);
    let world = masters(vec![blank, node("m1", OLD, moving), node("m2", OLD, json!({}))], &[]);
    assert_eq!(targeted(&with_claims(world, &[claim("m0", None)])), ["m1"]);
}

#[test]
fn a_failed_master_is_healed_beside_a_dead_one_that_etcd_can_spare() {
    let rest = ["m2", "m3", "m4"].map(|name| node(name, OLD, json!({})));
    let five = [node("m0", OLD, down()), refused("m1")].into_iter().chain(rest).collect();
    let claims = [claim("m1", None)];
    assert_eq!(targeted(&with_claims(masters(five, &["m0"]), &claims)), ["m1"]);
    let three = vec![node("m0", OLD, down()), refused("m1"), node("m2", OLD, json!({}))];
    assert!(targeted(&with_claims(masters(three, &["m0"]), &claims)).is_empty());
}

#[test]
fn where_nobody_sees_etcd_a_failed_master_is_healed_while_a_majority_of_the_others_is_up() {
    let targeted = |all: usize, off: usize| {
        let other = |n: usize| node(&format!("m{n}"), OLD, if n <= off { down() } else { json!({}) });
        let nodes = [refused("m0")].into_iter().chain((1..all).map(other)).collect();
        let mut world = with_claims(masters(nodes, &[]), &[claim("m0", None)]);
        world.etcd = Reading::known(Vec::new(), world.now);
        targeted(&world)
    };
    assert!(targeted(3, 1).is_empty(), "one of three would be left");
    assert_eq!(targeted(5, 1), ["m0"], "three of five are left");
    assert_eq!(targeted(3, 0), ["m0"]);
}

#[test]
fn a_target_that_was_not_seen_to_land_is_not_sent_again_when_etcd_needs_the_node() {
    let nodes = || ["m0", "m1", "m2"].map(|name| node(name, OLD, json!({}))).to_vec();
    let pending = json!({"node": "m1", "nodeResourceVersion": "10", "config": NEW});
    assert_eq!(targeted(&with_claims(masters(nodes(), &[]), std::slice::from_ref(&pending))), ["m1"]);
    let world = with_claims(masters(nodes(), &["m0"]), &[pending]);
    assert!(targeted(&world).is_empty());
    let is_fence = |action: &Action| matches!(action, Action::Fence { node, .. } if node == "m1");
    assert!(plan(&world).actions.iter().any(is_fence), "what was sent before must not land either");
}

#[test]
fn a_node_whose_own_member_is_down_is_not_taken_while_the_others_have_no_quorum() {
    let nodes = ["m0", "m1", "m2"].map(|name| node(name, OLD, json!({}))).to_vec();
    assert!(targeted(&masters(nodes, &["m0", "m1"])).is_empty());
}

#[test]
fn a_master_that_a_person_sent_on_its_way_gets_no_place_while_etcd_needs_it() {
    let asking =
        annotated(&[("desiredConfig", NEW), ("state", "Working"), ("desiredDrain", "drain-rendered-worker-new")]);
    let nodes = || vec![node("m0", OLD, asking.clone()), node("m1", OLD, json!({})), node("m2", OLD, json!({}))];
    let has_place = |world: &Snapshot| {
        let claims = |action: &Action| matches!(action, Action::WriteLedger { spec, .. } if !spec.claims.is_empty());
        plan(world).actions.iter().any(claims)
    };
    assert!(has_place(&masters(nodes(), &[])));
    assert!(!has_place(&masters(nodes(), &["m2"])));
}

#[test]
fn a_master_that_works_without_a_drain_gets_no_other_target_while_etcd_needs_it() {
    let working = annotated(&[("desiredConfig", OTHER), ("state", "Working")]);
    let nodes = || vec![node("m0", OLD, working.clone()), node("m1", OLD, json!({})), node("m2", OLD, json!({}))];
    for claims in [&[][..], &[claim("m0", None)]] {
        assert_eq!(targeted(&with_claims(masters(nodes(), &[]), claims)), ["m0"]);
        assert!(targeted(&with_claims(masters(nodes(), &["m2"]), claims)).is_empty());
    }
}

#[test]
fn nodes_that_fail_again_and_again_are_taken_again_within_a_limit_that_has_become_smaller() {
    let failing = |name: &str| node(name, OLD, annotated(&[("desiredConfig", OTHER), ("state", "Degraded")]));
    let claims = ["n0", "n1"].map(|name| claim(name, None));
    let of = |limit, nodes| with_claims(workers(json!(limit), nodes), &claims);
    assert_eq!(targeted(&of(1, vec![failing("n0"), failing("n1")])), ["n0"]);
    assert_eq!(targeted(&of(2, vec![failing("n0"), failing("n1")])), ["n0", "n1"]);
    let emptied = annotated(&[("desiredConfig", OTHER), ("state", "Working"), ("desiredDrain", "drain-x")]);
    assert_eq!(targeted(&of(1, vec![failing("n0"), node("n1", OLD, emptied)])), [""; 0], "both may go at any moment");
}

#[test]
fn a_working_node_that_still_serves_keeps_its_target_while_the_limit_is_unavailable() {
    // A person may have overwritten the state.
    for state in ["Working", "garbage"] {
        let working = node("n0", OLD, annotated(&[("desiredConfig", OTHER), ("state", state)]));
        let of = |limit| {
            with_claims(workers(json!(limit), vec![working.clone(), node("n1", OLD, down())]), &[claim("n0", None)])
        };
        assert!(targeted(&of(1)).is_empty());
        assert_eq!(targeted(&of(2)), ["n0"]);
    }
}

#[test]
fn a_foreign_daemon_that_asks_to_be_emptied_for_an_older_target_is_claimed_for_that() {
    let asking =
        annotated(&[("desiredConfig", OTHER), ("state", "Working"), ("desiredDrain", "drain-rendered-worker-older")]);
    let foreign = NodeFacts { ours: false, ..node("n0", OLD, asking) };
    let world = with_claims(workers(json!(1), vec![foreign.clone()]), &[]);
    let written = plan(&world).actions.into_iter().find_map(|action| match action {
        Action::WriteLedger { spec, .. } => Some(spec),
        _ => None,
    });
    assert!(rollout::ledger::lets_drain(&written.unwrap(), &foreign));
}

#[test]
fn a_node_without_a_config_is_let_go_when_the_limit_is_unavailable_before_its_target_landed() {
    let blank = NodeFacts { current: None, desired: None, state: rollout::node::State::Unreported, ..garbled("n0") };
    let pending = json!({"node": "n0", "nodeResourceVersion": "10", "config": NEW});
    let of = |limit| {
        let nodes = vec![blank.clone(), node("n1", NEW, json!({"spec": {"unschedulable": true}}))];
        with_claims(workers(json!(limit), nodes), std::slice::from_ref(&pending))
    };
    assert_eq!(targeted(&of(2)), ["n0"]);
    assert!(targeted(&of(1)).is_empty());
    assert!(plan(&of(1)).actions.iter().any(|action| matches!(action, Action::Fence { .. })));
}

#[test]
fn a_cordoned_node_that_works_and_was_not_emptied_is_not_taken_beyond_a_limit_that_has_become_smaller() {
    let mut works = annotated(&[("desiredConfig", OTHER), ("state", "Working")]);
    works["spec"] = json!({"unschedulable": true});
    let drains = |started: bool| {
        let asking = annotated(&[("desiredConfig", OTHER), ("state", "Working"), ("desiredDrain", "drain-other")]);
        NodeFacts { drain_started: started.then(|| crate::world::at(-5)), ..node("n1", OLD, asking) }
    };
    let claims = ["n0", "n1"].map(|name| claim(name, None));
    let of = |limit, started| {
        with_claims(workers(json!(limit), vec![node("n0", OLD, works.clone()), drains(started)]), &claims)
    };
    assert!(targeted(&of(1, false)).is_empty());
    assert!(!targeted(&of(1, true)).contains(&"n0".to_owned()));
    assert_eq!(targeted(&of(2, true)), ["n0", "n1"]);
}

#[test]
fn a_foreign_daemon_that_has_a_place_is_emptied_for_the_older_target_that_it_asks_for() {
    let asking = |asked: &str| annotated(&[("desiredConfig", NEW), ("state", "Working"), ("desiredDrain", asked)]);
    let foreign = NodeFacts { ours: false, ..node("n0", OLD, asking("drain-rendered-worker-older")) };
    let claim = json!({"node": "n0", "nodeResourceVersion": "5", "config": NEW, "insteadOf": OTHER});
    let world = with_claims(workers(json!(1), vec![foreign.clone()]), &[claim]);
    assert!(!rollout::ledger::lets_drain(&world.ledger.spec, &foreign));
    let written = plan(&world).actions.into_iter().find_map(|action| match action {
        Action::WriteLedger { spec, .. } => Some(spec),
        _ => None,
    });
    assert!(rollout::ledger::lets_drain(&written.unwrap(), &foreign));
}

#[test]
fn a_node_whose_drain_was_called_off_holds_its_place_until_the_drain_controller_has_seen_that() {
    let over = annotated(&[("currentConfig", OTHER), ("desiredConfig", OTHER), ("machinist.dev/drain-started", "")]);
    let mut left = node("n0", OLD, over);
    (left.unschedulable, left.cordoned_by) = (true, Some("person".into()));
    let of = |facts: NodeFacts| {
        let world = workers(json!(1), vec![facts, node("n1", OLD, json!({"spec": {"unschedulable": true}}))]);
        with_claims(world, &[claim("n0", None)]).places_taken()
    };
    assert_eq!(of(left.clone()), 0);
    left.drain_started = Some(crate::world::at(-5));
    assert_eq!(of(left), 1);
}

#[test]
fn a_dead_node_keeps_its_place_when_a_nonsensical_state_hides_how_far_it_was() {
    let dead = NodeFacts { unready: node("n0", OLD, down()).unready, kubelet_down: true, ..garbled("n0") };
    let cordoned = node("n1", OLD, json!({"spec": {"unschedulable": true}}));
    let of = |dead: NodeFacts| with_claims(workers(json!(1), vec![dead, cordoned.clone()]), &[claim("n0", None)]);
    assert!(targeted(&of(dead.clone())).is_empty());
    let blank = NodeFacts { current: None, desired: None, ..dead };
    assert_eq!(
        targeted(&of(blank)),
        ["n1"],
        "a node that never had a config and is asked for none has nothing to finish"
    );
}

#[test]
fn a_node_that_was_led_astray_waits_for_failing_ones_that_are_emptied_whoever_lifted_their_cordon() {
    let (drain, off) = (format!("drain-{OTHER}"), down());
    let failing = |name: &str, drained: &str| {
        let annotations = [("desiredConfig", OTHER), ("state", "Degraded"), ("desiredDrain", drain.as_str())];
        let mut facts = node(name, OLD, annotated(&annotations));
        facts.last_applied_drain = Some(drained.to_owned());
        facts
    };
    let rebooting = NodeFacts { unready: node("n0", OLD, off).unready, ..failing("n0", &drain) };
    // A person sent it somewhere and back again while it stood in line.
    let astray = node("n2", OLD, annotated(&[("state", "Working"), ("desiredDrain", "drain-elsewhere")]));
    let claims = ["n0", "n1", "n2"].map(|name| claim(name, None));
    let world = workers(json!(2), vec![rebooting, failing("n1", "uncordon-before"), astray]);
    assert_eq!(targeted(&with_claims(world, &claims)), ["n0", "n1"], "both are at it");
}

#[test]
fn a_claimed_node_that_was_given_back_and_reports_a_fault_is_needed_while_the_limit_is_away() {
    let cordoned = json!({"spec": {"unschedulable": true}});
    let given_back = node("n1", OLD, annotated(&[("state", "Degraded")]));
    let claims = [json!({"node": "n1", "nodeResourceVersion": "5", "config": OLD, "insteadOf": OTHER})];
    let of = |limit| {
        let nodes = vec![node("n0", OLD, cordoned.clone()), given_back.clone(), node("n2", OLD, json!({}))];
        with_claims(workers(json!(limit), nodes), &claims)
    };
    assert!(targeted(&of(1)).is_empty());
    assert!(targeted(&of(2)).contains(&"n1".to_owned()));
}

#[test]
fn a_node_that_fails_where_a_person_sent_it_gets_the_fix_beside_a_dead_one() {
    let failing = node("n1", OLD, annotated(&[("desiredConfig", OTHER), ("state", "Degraded")]));
    let world = workers(json!(1), vec![node("n0", OLD, down()), failing]);
    assert_eq!(targeted(&with_claims(world, &[])), ["n1"]);
}

#[test]
fn nodes_that_refuse_a_target_after_a_drain_for_another_are_taken_again_within_a_smaller_limit() {
    let drain = ("desiredDrain", "drain-elsewhere");
    let refused = |name: &str| {
        let annotations = [("desiredConfig", OTHER), ("state", "Unreconcilable"), drain, ("lastAppliedDrain", drain.1)];
        node(name, OLD, annotated(&annotations))
    };
    let claims = ["n0", "n1"].map(|name| claim(name, None));
    assert_eq!(targeted(&with_claims(workers(json!(1), vec![refused("n0"), refused("n1")]), &claims)), ["n0"]);
}
