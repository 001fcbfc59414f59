//! What the pool's status says beyond what the vectors hold it to.

use expect_test::{Expect, expect};
use rollout::{Report, Snapshot, plan};
use serde_json::json;

use crate::world::{NEW, OLD, annotated, at, down, node, workers, working};

#[track_caller]
fn check(world: &Snapshot, type_: &str, expected: Expect) {
    let status = plan(world).status;
    let condition = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    expected.assert_eq(&format!("{} {}", condition.status, condition.message));
}

#[test]
fn the_sentence_about_progress_names_who_is_at_it_and_who_waits_for_what() {
    let mut draining = working("n2", NEW);
    draining.desired_drain = Some("drain-x".into());
    let mut world = workers(
        json!(2),
        vec![
            node("n1", NEW, json!({})),
            draining,
            node("n3", OLD, down()),
            node("n4", OLD, json!({})),
            node("n5", OLD, annotated(&[("machinist.dev/hold", "debugging a driver")])),
        ],
    );
    world.observe_report("n2", Report { drain_blocked: Some("pod shop/db".into()), ..Report::default() });
    check(
        &world,
        "Updating",
        expect![
            "True All nodes are updating to MachineConfig rendered-worker-new; 1 of 5 done; in progress: n2 (draining), n3 (Done, NotReady=Unknown); drain of n2 blocked: pod shop/db; waiting: n4, because the budget of 2 is used up (2 unavailable); held: n5 (debugging a driver)"
        ],
    );
}

#[test]
fn long_lists_are_cut() {
    let nodes = (0..20).map(|number| node(&format!("n{number:02}"), OLD, json!({}))).collect();
    check(
        &workers(json!(1), nodes),
        "Updating",
        expect![
            "True All nodes are updating to MachineConfig rendered-worker-new; 0 of 20 done; waiting: n00, n01, n02, n03, n04 and 15 more, because the budget of 1 is used up (1 unavailable)"
        ],
    );
}

#[test]
fn the_configuration_moves_only_when_all_are_done() {
    let mut world = workers(json!(1), vec![node("n1", NEW, json!({})), working("n2", NEW)]);
    let name = |world: &Snapshot| plan(world).status.configuration.and_then(|configuration| configuration.name);
    assert_eq!(name(&world), None);
    world.observe_node(node("n2", NEW, json!({})));
    assert_eq!(name(&world).as_deref(), Some(NEW));
    let events = plan(&world).events;
    assert_eq!(events[0].message, "Pool worker has completed update to MachineConfig rendered-worker-new");
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let mut world = workers(json!(1), vec![working("n1", NEW)]);
    world.pool.status = plan(&world).status;
    world.observe_node(node("n1", OLD, annotated(&[("desiredConfig", NEW)])));
    world.now = at(100);
    let status = plan(&world).status;
    let updating = status.conditions.iter().find(|condition| condition.type_ == "Updating").unwrap();
    assert_eq!(updating.last_transition_time.as_ref().unwrap().0, at(0));
    assert_eq!(status.conditions.last().unwrap().type_, "Updating", "what changed moves to the end");
}

#[test]
fn conditions_of_other_writers_are_kept() {
    let mut world = workers(json!(1), vec![]);
    world.pool.status.conditions =
        vec![serde_json::from_value(json!({"type": "Theirs", "status": "True", "message": "x"})).unwrap()];
    let status = plan(&world).status;
    assert!(status.conditions.iter().any(|condition| condition.type_ == "Theirs"));
}

#[test]
fn a_pool_names_the_nodes_that_cannot_hold_their_pinned_images_until_they_can() {
    let mut world = workers(json!(1), vec![node("n1", NEW, json!({})), node("n2", NEW, json!({}))]);
    let images = |world: &Snapshot| {
        let conditions = plan(world).status.conditions;
        conditions.into_iter().find(|condition| condition.type_ == "PinnedImageSetsDegraded")
    };
    assert_eq!(images(&world), None, "a pool that never had trouble with images has nothing to say");
    let failed = Report { images_failed: Some("no space left".into()), ..Report::default() };
    world.observe_report("n2", failed);
    check(&world, "PinnedImageSetsDegraded", expect![[r#"True node n2: "no space left""#]]);
    check(&world, "Degraded", expect!["False "]);
    world.pool.status = plan(&world).status;
    world.observe_report("n2", Report::default());
    check(&world, "PinnedImageSetsDegraded", expect!["False "]);
}

#[test]
fn a_pool_that_is_open_to_all_says_so_until_it_is_closed() {
    let mut world = workers(json!(1), vec![node("n1", NEW, json!({}))]);
    let open = |world: &Snapshot| {
        let conditions = plan(world).status.conditions;
        conditions.into_iter().find(|condition| condition.type_ == "ConfigServerOpen")
    };
    assert_eq!(open(&world), None, "a pool that never was open has nothing to say");
    world.is_open = true;
    let planned = plan(&world);
    assert!(planned.events.iter().any(|event| event.warning && event.reason == "ConfigServerOpened"));
    check(
        &world,
        "ConfigServerOpen",
        expect![
            "True The config server gives this pool's config and every secret in it to anyone who can reach it; remove spec.configServer.open from PoolPolicy worker to ask for tokens again"
        ],
    );
    world.pool.status = planned.status;
    assert!(plan(&world).events.iter().all(|event| event.reason != "ConfigServerOpened"), "once is enough");
    world.is_open = false;
    assert_eq!(open(&world).unwrap().status, "False");
}
