//! Who is next in line, and what becomes of the line.

use expect_test::expect;
use rollout::Snapshot;
use rollout::node::State;
use serde_json::json;

use crate::world::{NEW, OLD, annotated, carry_out, change, check, node, told, workers};

/// Six nodes, of which the first two have their target and the next two are in line; all have their taints.
fn on_its_way() -> Snapshot {
    let taint = json!({"spec": {"taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]}});
    let nodes = (1..=6).map(|n| node(&format!("n{n}"), OLD, taint.clone())).collect();
    let mut world = workers(json!(2), nodes);
    let first = rollout::plan(&world);
    carry_out(&mut world, &first);
    world
}

fn is_through(world: &mut Snapshot, name: &str, version: &str) {
    change(world, name, version, |facts| {
        facts.current = Some(NEW.to_owned());
        facts.state = State::Done;
        facts.taints.clear();
    });
}

#[test]
fn a_share_that_is_given_back_goes_to_the_first_in_line_without_a_write_of_the_ledger() {
    let mut world = on_its_way();
    is_through(&mut world, "n2", "50");
    check(
        &world,
        expect![[r#"
            target n3@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node n3 to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 2, used: 2 })"#]],
    );
    // Until the write is seen, the plan says the same, and nobody else gets the share.
    assert_eq!(told(&rollout::plan(&world)), told(&rollout::plan(&world.clone())));
}

#[test]
fn a_line_that_has_become_short_is_filled_after_its_nodes_are_on_their_way() {
    let mut world = on_its_way();
    is_through(&mut world, "n1", "50");
    is_through(&mut world, "n2", "51");
    check(
        &world,
        expect![[r#"
            target n3@10 with rendered-worker-new
            target n4@10 with rendered-worker-new
            claim over 11: n3@10, n4@10, then n5, n6
            event SetDesiredConfig: Set target for 2 nodes to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 2, used: 2 })"#]],
    );
}

#[test]
fn one_in_line_that_changed_loses_its_place_to_the_next() {
    let mut world = on_its_way();
    change(&mut world, "n3", "49", |_| {});
    is_through(&mut world, "n2", "50");
    check(
        &world,
        expect![[r#"
            target n4@10 with rendered-worker-new
            claim over 11: n1@10, n4@10, then n3, n5
            event SetDesiredConfig: Targeted node n4 to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 2, used: 2 })"#]],
    );
}

#[test]
fn those_in_line_are_fenced_when_the_pool_is_paused() {
    let mut world = on_its_way();
    world.pool.paused = true;
    check(
        &world,
        expect![[r#"
            fence n3
            fence n4
            then OnChange(Paused)"#]],
    );
}

#[test]
fn a_target_that_nobody_in_line_wants_any_more_costs_no_node_its_work() {
    let mut world = on_its_way();
    // The pool goes back to what those in line have.
    let mut pool = world.pool.clone();
    pool.configuration.as_mut().unwrap().name = Some(OLD.to_owned());
    world.observe_pool(pool, None);
    let plan = rollout::plan(&world);
    let words = told(&plan);
    assert!(words.contains("fence n3") && words.contains("fence n4"), "{words}");
    assert!(!words.contains("target n3") && !words.contains("target n4"), "{words}");
    carry_out(&mut world, &plan);
    assert!(!told(&rollout::plan(&world)).contains("fence"), "once is enough");
}

#[test]
fn one_at_a_time_needs_no_line() {
    let nodes = vec![node("a", OLD, annotated(&[])), node("b", OLD, annotated(&[]))];
    assert!(!told(&rollout::plan(&workers(json!(1), nodes))).contains(", then "));
}
