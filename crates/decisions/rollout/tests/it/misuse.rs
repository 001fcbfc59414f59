//! Bad input: each names the object and the fix, and nothing else stops.

use expect_test::expect;
use rollout::{Membership, Objects, Pools, Settings, Snapshot, plan};
use serde_json::{Value, json};

use crate::world::{OLD, at, check, node, node_object, pool, snapshot, told};

fn degraded(world: &Snapshot) -> String {
    let status = plan(world).status;
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Degraded").unwrap();
    format!("{} {}: {}", condition.status, condition.reason, condition.message)
}

#[test]
fn a_limit_that_makes_no_sense() {
    let with =
        |limit: Value| snapshot(&pool("worker", json!({"maxUnavailable": limit})), vec![node("n1", OLD, json!({}))]);
    check(
        &with(json!(-1)),
        expect![[r#"
            event InvalidMaxUnavailable: spec.maxUnavailable of MachineConfigPool worker cannot be used: maxUnavailable: -1 is negative: set a number of nodes such as 1, or a percentage such as 10%
            then OnChange(Misconfigured("spec.maxUnavailable of MachineConfigPool worker cannot be used: maxUnavailable: -1 is negative: set a number of nodes such as 1, or a percentage such as 10%"))"#]],
    );
    expect![[r#"True InvalidSpec: spec.maxUnavailable of MachineConfigPool worker cannot be used: maxUnavailable: invalid value for IntOrString: invalid type: string is not a percentage: "many": set a number of nodes such as 1, or a percentage such as 10%"#]]
        .assert_eq(&degraded(&with(json!("many"))));
}

#[test]
fn a_problem_is_told_once() {
    let mut world = snapshot(&pool("worker", json!({"maxUnavailable": -1})), vec![node("n1", OLD, json!({}))]);
    let first = plan(&world);
    assert_eq!(first.events.len(), 1);
    world.pool.status = first.status;
    assert_eq!(plan(&world).events, []);
}

#[test]
fn a_pool_without_or_with_an_empty_or_broken_selector() {
    let with = |selector: Value| snapshot(&pool("worker", json!({"nodeSelector": selector})), vec![]);
    expect![[r#"True InvalidSpec: MachineConfigPool worker has no spec.nodeSelector and therefore no nodes: give it one that matches its nodes' labels"#]]
        .assert_eq(&degraded(&with(Value::Null)));
    let broken = json!({"matchExpressions": [{"key": "a", "operator": "Near"}], "matchLabels": null});
    expect![[r#"True InvalidSpec: spec.nodeSelector of MachineConfigPool worker is an invalid label selector: "Near" is not a valid label selector operator: correct it"#]]
        .assert_eq(&degraded(&with(broken)));
    let mut everything = pool("worker", json!({}));
    everything.spec.node_selector = Some(Default::default());
    let told = told(&plan(&snapshot(&everything, vec![])));
    assert!(
        told.contains(
            "event SelectingAll: This machineconfigpool is selecting all nodes. A non-empty selector is required."
        ),
        "{told}"
    );
}

#[test]
fn a_node_in_two_custom_pools_is_reported_alone() {
    let pools = [pool("gpu", json!({})), pool("infra", json!({})), pool("worker", json!({}))];
    let both = node_object(
        "both",
        OLD,
        json!({"metadata": {"labels": {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/infra": ""}}}),
    );
    let nodes = [both, node_object("plain", OLD, json!({}))];
    let settings = Settings { settle: jiff::SignedDuration::ZERO, ..Settings::default() };
    let of = |pool| Snapshot::from_objects(Objects::new(pool, &pools, &nodes), settings.clone(), at(0));
    check(
        &of(&pools[1]),
        expect![[r#"
            claim over none: 
            degrade both: node both belongs to 2 custom roles, cannot proceed with this Node: the nodeSelector of each of the pools gpu, infra matches it; change the node's labels so that only one does
            event MultipleCustomPools: node both belongs to 2 custom roles, cannot proceed with this Node: the nodeSelector of each of the pools gpu, infra matches it; change the node's labels so that only one does
            event Completed: Pool infra has completed update to MachineConfig rendered-worker-new
            then OnChange(Settled)"#]],
    );
    assert_eq!(plan(&of(&pools[2])).spending.taken, 1, "the rest of the fleet goes on");
}

#[test]
fn one_broken_pool_leaves_all_other_pools_alone() {
    let broken = pool("broken", json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}));
    let pools = Pools::from_objects(&[broken, pool("worker", json!({}))]);
    let node = node_object("n1", OLD, json!({}));
    let membership = pools.of_node("n1", &node.metadata.labels.unwrap());
    assert_eq!(membership.primary(), Some("worker"));
    assert!(!matches!(membership, Membership::Contested(_)));
    assert_eq!(pools.broken().map(|(pool, _)| pool).collect::<Vec<_>>(), ["broken"]);
}

#[test]
fn a_pool_that_is_deleted_in_the_middle_targets_nobody() {
    let mut world = snapshot(&pool("worker", json!({})), vec![node("n1", OLD, json!({}))]);
    world.pool.deleting = true;
    check(&world, expect!["then OnChange(Deleting)"]);
}

#[test]
fn a_pool_without_a_config_waits_for_one() {
    let world = snapshot(&pool("worker", json!({"configuration": null})), vec![node("n1", OLD, json!({}))]);
    check(&world, expect!["then OnChange(NoConfiguration)"]);
}
