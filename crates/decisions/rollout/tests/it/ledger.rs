//! Claims: taken before a node is targeted, given back when it is safe.

use expect_test::expect;
use serde_json::{Value, json};

use crate::world::{NEW, OLD, annotated, check, ledger, node, workers};

fn claim(node: &str, version: &str, config: &str) -> Value {
    json!({"node": node, "nodeResourceVersion": version, "config": config, "since": "2027-01-15T07:59:00Z"})
}

fn claims(claims: &[Value]) -> Value {
    json!({"target": {"config": NEW, "since": "2027-01-15T07:59:00Z"}, "claims": claims})
}

#[test]
fn a_claim_whose_patch_may_still_land_is_acted_on_again() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({})), node("n2", OLD, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "10", NEW)]));
    check(
        &world,
        expect![[r#"
            target n1@10 with rendered-worker-new
            taint n2: 1
            event SetDesiredConfig: Targeted node n1 to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

#[test]
fn a_claim_for_an_older_target_is_renewed_for_the_newest() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "10", "rendered-worker-older")]));
    check(
        &world,
        expect![[r#"
            claim over 7: n1@10
            target n1@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node n1 to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_claim_is_given_back_when_the_node_is_through() {
    let mut world = workers(json!(1), vec![node("n1", NEW, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "5", NEW)]));
    check(
        &world,
        expect![[r#"
            claim over 7: 
            event Completed: Pool worker has completed update to MachineConfig rendered-worker-new
            then OnChange(Settled)"#]],
    );
}

#[test]
fn a_claim_whose_patch_was_lost_is_taken_anew() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "5", NEW)]));
    check(
        &world,
        expect![[r#"
            claim over 7: n1@10
            target n1@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node n1 to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_claim_on_a_newer_node_than_we_see_counts_and_is_left_alone() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({})), node("n2", OLD, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "99", NEW)]));
    check(
        &world,
        expect![[r#"
            taint n2: 1
            taint n1: 1
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

#[test]
fn a_claim_of_a_node_that_is_gone_is_given_back_once_that_is_certain() {
    let mut world = workers(json!(1), vec![node("n2", NEW, json!({}))]);
    world.ledger = ledger(claims(&[claim("gone", "50", NEW)]));
    check(
        &world,
        expect![[r#"
        event Completed: Pool worker has completed update to MachineConfig rendered-worker-new
        then OnChange(Nodes { in_progress: 1 })"#]],
    );
    world.nodes.seen_until(51);
    check(
        &world,
        expect![[r#"
            claim over 7: 
            event Completed: Pool worker has completed update to MachineConfig rendered-worker-new
            then OnChange(Settled)"#]],
    );
}

#[test]
fn a_new_machine_of_the_same_name_holds_no_old_claim() {
    let mut world = workers(json!(1), vec![node("n1", NEW, json!({}))]);
    let mut old = claim("n1", "5", NEW);
    old["uid"] = json!("uid-of-another");
    world.ledger = ledger(claims(&[old]));
    check(
        &world,
        expect![[r#"
            claim over 7: 
            event Completed: Pool worker has completed update to MachineConfig rendered-worker-new
            then OnChange(Settled)"#]],
    );
}

#[test]
fn a_patch_that_must_not_land_any_more_is_fenced_off() {
    let held = node("n1", OLD, annotated(&[("machinist.dev/hold", "")]));
    let mut world = workers(json!(1), vec![held]);
    world.ledger = ledger(claims(&[claim("n1", "10", NEW)]));
    check(
        &world,
        expect![[r#"
        fence n1
        then OnChange(Nodes { in_progress: 1 })"#]],
    );
    let mut paused = workers(json!(1), vec![node("n1", OLD, json!({}))]);
    paused.ledger = ledger(claims(&[claim("n1", "10", NEW)]));
    paused.pool.paused = true;
    check(
        &paused,
        expect![[r#"
        fence n1
        then OnChange(Paused)"#]],
    );
}

#[test]
fn claims_beyond_a_smaller_budget_are_let_go_if_they_were_not_acted_on() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({})), node("n2", OLD, json!({}))]);
    world.ledger = ledger(claims(&[claim("n1", "10", NEW), claim("n2", "10", NEW)]));
    check(
        &world,
        expect![[r#"
            fence n1
            taint n2: 1
            then OnChange(Nodes { in_progress: 2 })"#]],
    );
}

#[test]
fn a_controller_that_has_not_seen_the_newest_pool_waits() {
    let mut world = workers(json!(1), vec![node("n1", OLD, json!({}))]);
    world.ledger =
        ledger(json!({"target": {"config": "rendered-worker-newer", "generation": 2, "poolUid": "pool-uid"}}));
    check(&world, expect!["then OnChange(NewerPool)"]);
    world.ledger.spec.target.as_mut().unwrap().pool_uid = Some("another".into());
    check(
        &world,
        expect![[r#"
            claim over 7: n1@10
            target n1@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node n1 to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn a_node_is_emptied_only_for_what_the_ledger_has_claimed_it_for() {
    let asks = |drain: &str| node("n1", OLD, annotated(&[("desiredDrain", drain), ("state", "Working")]));
    let lets = |claim: Value, drain: &str| rollout::ledger::lets_drain(&ledger(claims(&[claim])).spec, &asks(drain));
    assert!(lets(claim("n1", "10", NEW), &format!("drain-{NEW}")));
    assert!(!lets(claim("n1", "10", NEW), "drain-rendered-worker-mine"));
    assert!(!lets(claim("n2", "10", NEW), &format!("drain-{NEW}")));
    let mut busy = claim("n1", "10", NEW);
    busy["insteadOf"] = json!("rendered-worker-mine");
    assert!(lets(busy, "drain-rendered-worker-mine"), "the patch may never have landed");
    let mut another = claim("n1", "10", NEW);
    another["uid"] = json!("uid-of-another");
    assert!(!lets(another, &format!("drain-{NEW}")));
    let line = json!({"next": [claim("n1", "10", NEW)]});
    assert!(rollout::ledger::lets_drain(&ledger(line).spec, &asks(&format!("drain-{NEW}"))));
}
