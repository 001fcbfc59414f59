//! Who gets the target, and when.

use expect_test::expect;
use jiff::SignedDuration;
use rollout::{Action, Settings, plan};
use serde_json::json;

use crate::world::{NEW, OLD, annotated, at, carry_out, change, check, down, ledger, node, told, workers, working};

fn zone(zone: &str, day: u32) -> serde_json::Value {
    json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}, "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z")}})
}

#[test]
fn zones_go_one_after_the_other_and_the_oldest_node_first() {
    let nodes = vec![
        node("none", OLD, json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}})),
        node("b1", OLD, zone("b", 1)),
        node("a2", OLD, zone("a", 2)),
        node("a1", OLD, zone("a", 1)),
    ];
    check(
        &workers(json!(3), nodes),
        expect![[r#"
            claim over none: a1@10, a2@10, b1@10, then none
            target a1@10 with rendered-worker-new
            target a2@10 with rendered-worker-new
            target b1@10 with rendered-worker-new
            taint none: 1
            event SetDesiredConfig: Set target for 3 nodes to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 3, used: 3 })"#]],
    );
}

#[test]
fn a_node_that_is_down_holds_a_share_and_no_place() {
    let nodes = vec![node("gone", OLD, down()), node("well", OLD, json!({}))];
    check(
        &workers(json!(1), nodes),
        expect![[r#"
            claim over none: 
            taint well: 1
            taint gone: 1
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

#[test]
fn a_failed_node_is_healed_by_the_newest_target_at_once() {
    let failed = annotated(&[("desiredConfig", "rendered-worker-bad"), ("state", "Degraded"), ("reason", "no disk")]);
    let mut world = workers(json!(1), vec![node("failed", OLD, failed), node("well", OLD, json!({}))]);
    world.pool.status.configuration = None;
    world.ledger.spec.claims = vec![api::machinist::Claim {
        node: "failed".into(),
        config: "rendered-worker-bad".into(),
        node_resource_version: Some("5".into()),
        ..Default::default()
    }];
    check(
        &world,
        expect![[r#"
            claim over none: failed@10
            target failed@10 with rendered-worker-new
            taint well: 1
            event SetDesiredConfig: Targeted node failed to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

#[test]
fn drifted_nodes_that_still_serve_are_mended_within_the_budget() {
    let drifted = |name: &str| node(name, OLD, annotated(&[("state", "Degraded")]));
    let plan =
        plan(&workers(json!(2), vec![drifted("d1"), drifted("d2"), drifted("d3"), node("well", OLD, json!({}))]));
    let targets = plan.actions.iter().filter(|action| matches!(action, Action::Target(_))).count();
    assert_eq!(targets, 2, "{}", told(&plan));
}

#[test]
fn a_daemon_that_is_not_ours_finishes_what_it_works_on() {
    let mut foreign = working("foreign", "rendered-worker-older");
    foreign.ours = false;
    check(
        &workers(json!(1), vec![foreign]),
        expect![[r#"
            claim over none: foreign@9
            taint foreign: 1
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
    let ours = working("ours", "rendered-worker-older");
    let plan = plan(&workers(json!(1), vec![ours]));
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Target(_))), "{}", told(&plan));
}

#[test]
fn a_hand_set_config_is_put_back_with_an_event() {
    let edited = node("edited", OLD, annotated(&[("desiredConfig", "rendered-worker-mine")]));
    check(
        &workers(json!(1), vec![edited]),
        expect![[r#"
            claim over none: edited@10
            target edited@10 with rendered-worker-new
            event DesiredConfigPutBack: desiredConfig of node edited was rendered-worker-mine, which is neither what its pool wants nor what runs on the node; it is set to rendered-worker-new. To keep a node where it is, annotate it with machinist.dev/hold
            event SetDesiredConfig: Targeted node edited to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_hand_set_config_that_is_the_target_is_honoured() {
    let early = node("early", OLD, annotated(&[("desiredConfig", NEW)]));
    check(
        &workers(json!(1), vec![early]),
        expect![[r#"
            claim over none: early@9
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_held_node_stays_and_holds_nobody_up() {
    let held = node("held", OLD, annotated(&[("machinist.dev/hold", "debugging")]));
    check(
        &workers(json!(1), vec![held.clone(), node("well", OLD, json!({}))]),
        expect![[r#"
            claim over none: well@10
            target well@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node well to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
    check(
        &workers(json!(1), vec![held]),
        expect![[r#"
        claim over none: 
        then OnChange(Held { nodes: 1 })"#]],
    );
}

#[test]
fn nothing_is_targeted_while_the_pool_is_paused() {
    let mut paused = workers(json!(1), vec![node("well", OLD, json!({})), node("gone", OLD, down())]);
    paused.pool.paused = true;
    check(&paused, expect!["then OnChange(Paused)"]);
}

#[test]
fn a_target_that_a_clock_far_ahead_wrote_down_settles_from_now() {
    let mut world = workers(json!(1), vec![node("w1", OLD, json!({}))]);
    world.settings = Settings { settle: SignedDuration::from_secs(5), ..world.settings };
    world.ledger = ledger(json!({"target": {"config": NEW, "since": at(86_400).to_string()}}));
    let first = plan(&world);
    assert!(told(&first).ends_with("then After(5s, Settling { config: \"rendered-worker-new\" })"), "{}", told(&first));
    carry_out(&mut world, &first);
    world.now = at(5);
    assert!(told(&plan(&world)).contains("target w1@10"), "{}", told(&plan(&world)));
}

#[test]
fn a_target_has_to_settle_first() {
    let mut world = workers(json!(1), vec![node("well", OLD, json!({}))]);
    world.settings = Settings { settle: SignedDuration::from_secs(5), ..world.settings };
    check(
        &world,
        expect![[r#"
        claim over none: 
        then After(5s, Settling { config: "rendered-worker-new" })"#]],
    );
    let first = plan(&world);
    carry_out(&mut world, &first);
    world.now = at(4);
    check(&world, expect![[r#"then After(1s, Settling { config: "rendered-worker-new" })"#]]);
    world.now = at(5);
    check(
        &world,
        expect![[r#"
            claim over 11: well@10
            target well@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node well to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_reverted_trial_holds_the_config_until_it_is_approved_or_replaced() {
    let tripped = annotated(&[("desiredConfig", NEW), ("state", "Degraded"), ("machinist.dev/reverted", NEW)]);
    let mut world = workers(json!(2), vec![node("tripped", OLD, tripped), node("well", OLD, json!({}))]);
    check(
        &world,
        expect![[r#"
            claim over none: tripped@9
            then OnChange(TrialReverted { config: "rendered-worker-new", node: "tripped" })"#]],
    );
    let held = plan(&world);
    carry_out(&mut world, &held);
    change(&mut world, "tripped", "20", |facts| facts.reverted = None);
    check(&world, expect![[r#"then OnChange(TrialReverted { config: "rendered-worker-new", node: "tripped" })"#]]);
    world.pool.approved = Some(NEW.to_owned());
    let plan = plan(&world);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Target(_))), "{}", told(&plan));
}

#[test]
fn the_taint_stays_until_a_node_is_through() {
    let taint = json!({"spec": {"taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}, {"key": "own", "effect": "NoSchedule"}]}});
    let through = node("through", NEW, taint.clone());
    let mut busy = node("busy", OLD, taint);
    busy.desired = Some(NEW.to_owned());
    check(
        &workers(json!(2), vec![through, busy]),
        expect![[r#"
            claim over none: busy@9
            taint through: 1
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn taints_of_a_large_pool_come_in_batches_after_the_targets() {
    let nodes = (0..250).map(|number| node(&format!("n{number:03}"), OLD, json!({}))).collect();
    let plan = plan(&workers(json!(1), nodes));
    let taints = plan.actions.iter().filter(|action| matches!(action, Action::SetTaints { .. })).count();
    assert!(matches!(plan.actions[1], Action::Target(_)), "the first node does not wait for taints");
    assert_eq!((taints, format!("{:?}", plan.next)), (25, "After(0s, Taints)".to_owned()));
}

#[test]
fn a_node_that_moves_to_another_pool_gets_that_pools_target() {
    let infra = crate::world::pool("infra", json!({"configuration": {"name": "rendered-infra-new"}}));
    let moved =
        crate::world::node_object("moved", NEW, json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}}));
    let pools = [infra.clone(), crate::world::pool("worker", json!({}))];
    let nodes = [moved];
    let settings = Settings { settle: SignedDuration::ZERO, ..Settings::default() };
    let objects = rollout::Objects::new(&infra, &pools, &nodes);
    let world = rollout::Snapshot::from_objects(objects, settings, at(0));
    check(
        &world,
        expect![[r#"
            claim over none: moved@10
            target moved@10 with rendered-infra-new
            event SetDesiredConfig: Targeted node moved to MachineConfig: rendered-infra-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}
