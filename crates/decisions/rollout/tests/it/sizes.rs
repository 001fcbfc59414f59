//! What is written stays far below what an API server takes, however large and however sick the fleet is.

use api::machineconfiguration::MachineConfigPool;
use rollout::{Action, NodeFacts, Report, Snapshot, plan};
use serde_json::json;

use crate::world::{NEW, OLD, annotated, carry_out, change, node, workers};

/// An object of etcd is at most 1.5 MiB with everything around it.
const LIMIT: usize = 1_500_000;

/// A name as long as a label of DNS may be.
fn name(number: usize) -> String {
    format!("{}-{number:05}.example.internal", "worker".repeat(6))
}

fn fleet(count: usize) -> Vec<NodeFacts> {
    let mut nodes: Vec<_> = (0..count).map(|number| node(&name(number), OLD, json!({}))).collect();
    for (number, facts) in nodes.iter_mut().enumerate() {
        facts.uid = Some(format!("{number:08x}-0000-4000-8000-000000000000"));
    }
    nodes
}

/// The bytes of the pool's object with the status that is planned.
fn status_bytes(world: &Snapshot) -> usize {
    let mut pool = MachineConfigPool::new("worker", Default::default());
    pool.status = Some(plan(world).status);
    serde_json::to_vec(&pool).unwrap().len()
}

fn message(world: &Snapshot, type_: &str) -> String {
    let status = plan(world).status;
    status.conditions.into_iter().find(|condition| condition.type_ == type_).unwrap().message
}

#[test]
fn a_status_about_a_thousand_degraded_nodes_is_short_and_says_how_many_more_there_are() {
    let mut nodes = fleet(5_000);
    let reason = "content mismatch for file \"/etc/motd\"; ".repeat(50);
    for facts in nodes.iter_mut().step_by(5) {
        facts.state = rollout::node::State::Degraded;
        facts.reason = Some(reason.clone());
    }
    let world = workers(json!("10%"), nodes);
    let bytes = status_bytes(&world);
    assert!(bytes < 64 * 1024, "{bytes} bytes");
    let text = message(&world, "NodeDegraded");
    let named = text.matches("is reporting:").count();
    assert!(named >= 5, "{text}");
    assert!(text.ends_with(&format!(" and {} more", 1_000 - named)), "{text}");
}

#[test]
fn what_people_and_drains_write_does_not_make_a_status_long() {
    let long = "x".repeat(200_000);
    let nodes = vec![
        node("a", OLD, annotated(&[("machinist.dev/hold", &long)])),
        node("b", OLD, annotated(&[("state", &long), ("desiredConfig", &long)])),
        node("c", OLD, annotated(&[("desiredConfig", NEW), ("state", "Working"), ("desiredDrain", "drain-x")])),
    ];
    let mut world = workers(json!(3), nodes);
    world.observe_report("c", Report { drain_blocked: Some(long), ..Report::default() });
    let plan = plan(&world);
    assert!(status_bytes(&world) < 16 * 1024, "{} bytes", status_bytes(&world));
    let longest = plan.events.iter().map(|event| event.message.len()).max().unwrap();
    assert!(longest < 1_024, "an event of {longest} bytes");
}

/// The bytes of the ledger that a plan writes.
fn ledger_bytes(world: &Snapshot) -> (usize, usize) {
    let plan = plan(world);
    let spec = plan.actions.iter().find_map(|action| match action {
        Action::WriteLedger { spec, .. } => Some(spec.clone()),
        _ => None,
    });
    let spec = spec.expect("a ledger is written");
    let claims = spec.claims.len();
    (serde_json::to_vec(&rollout::ledger::object("worker", *spec)).unwrap().len(), claims)
}

#[test]
fn a_ledger_that_claims_five_thousand_nodes_at_once_fits() {
    let mut world = workers(json!("100%"), fleet(5_000));
    world.settings.holder = "machine-config-controller-6d5f7c9b8-abcde_0b54c2c3".to_owned();
    let (bytes, claims) = ledger_bytes(&world);
    assert_eq!(claims, 5_000);
    assert!(bytes / claims <= 190, "{} bytes for each claim", bytes / claims);
    assert!(bytes < 1024 * 1024, "{bytes} bytes");
    // All of them get another target while they work.
    let first = plan(&world);
    carry_out(&mut world, &first);
    for number in 0..5_000 {
        change(&mut world, &name(number), "9999999999", |facts| facts.state = rollout::node::State::Working);
    }
    let mut pool = world.pool.clone();
    pool.configuration.as_mut().unwrap().name = Some("rendered-worker-0123456789abcdef0123456789abcdef".to_owned());
    world.observe_pool(pool, None);
    let (bytes, claims) = ledger_bytes(&world);
    assert_eq!(claims, 5_000);
    assert!(bytes < LIMIT, "{bytes} bytes");
}

#[test]
fn a_ledger_is_read_back_as_it_was_written() {
    let mut world = workers(json!(2), fleet(4));
    let first = plan(&world);
    let Some(Action::WriteLedger { spec, .. }) = first.actions.first() else { panic!("a ledger is written") };
    let written = rollout::ledger::object("worker", (**spec).clone());
    assert!(written.spec.claims.iter().all(|claim| claim.config.is_empty()), "the target is said once");
    assert_eq!(rollout::Ledger::from_object(Some(&written)).spec, **spec);
    carry_out(&mut world, &first);
    assert_eq!(world.ledger.spec.claims[0].config, NEW);
}
