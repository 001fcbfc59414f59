//! A person sets a node's desired config by hand.

use api::managed::Writer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rollout::node::State;
use rollout::{Action, NodeFacts, Plan, Snapshot, Waiting, plan};
use serde_json::{Value, json};

use crate::world::{NEW, OLD, annotated, carry_out, change, ledger, node, workers};

/// Nodes that run the pool's target, one of which a person has just sent back to an older config.
fn sent_back() -> Snapshot {
    let mut world = workers(json!(1), vec![node("w1", NEW, json!({})), node("w2", NEW, json!({}))]);
    world.rendered = [OLD.to_owned()].into();
    want(&mut world, NEW, "2025-12-31T00:00:00Z");
    send(&mut world, "w1", OLD);
    world
}

/// The pool wants this config since then.
fn want(world: &mut Snapshot, config: &str, since: &str) {
    world.ledger = ledger(json!({"target": {"config": config, "since": since}}));
    let mut facts = world.pool.clone();
    facts.configuration.as_mut().unwrap().name = Some(config.to_owned());
    facts.configured_at = since.parse().ok();
    world.observe_pool(facts, None);
}

fn send(world: &mut Snapshot, name: &str, config: &str) {
    let version = (world.nodes.newest() + 1).to_string();
    change(world, name, &version, |facts| {
        facts.desired = Some(config.to_owned());
        facts.set_by = Some(Writer { manager: "kubectl-edit".to_owned(), at: "2026-01-01T00:00:00Z".parse().ok() });
    });
}

fn let_go(world: &mut Snapshot, name: &str) {
    let version = (world.nodes.newest() + 1).to_string();
    change(world, name, &version, |facts| {
        facts.current.clone_from(&facts.desired);
        facts.state = State::Done;
        facts.hold = None;
    });
}

fn holds(plan: &Plan) -> Vec<(&str, &str)> {
    let holds = plan.actions.iter().filter_map(|action| match action {
        Action::Hold { node, value: Some(value), .. } => Some((node.as_str(), value.as_str())),
        _ => None,
    });
    holds.collect()
}

fn targeted(plan: &Plan) -> Vec<(&str, &str)> {
    let targets = plan.actions.iter().filter_map(|action| match action {
        Action::Target(target) => Some((target.node.as_str(), target.config.as_str())),
        _ => None,
    });
    targets.collect()
}

fn claimed(plan: &Plan) -> Vec<(&str, &str)> {
    let ledgers = plan.actions.iter().filter_map(|action| match action {
        Action::WriteLedger { spec, .. } => Some(&spec.claims),
        _ => None,
    });
    ledgers.flatten().map(|claim| (claim.node.as_str(), claim.config.as_str())).collect()
}

#[test]
fn a_node_that_a_person_sends_to_an_older_config_is_held_there_and_takes_a_place() {
    let mut world = sent_back();
    let next = plan(&world);
    let value = format!("kubectl-edit set desiredConfig to {OLD} at 2026-01-01T00:00:00Z");
    assert_eq!(holds(&next), [("w1", value.as_str())]);
    assert_eq!(claimed(&next), [("w1", OLD)], "it goes there within the budget");
    assert!(targeted(&next).is_empty(), "it is not put back");
    assert!(next.events.iter().any(|event| event.reason == "DesiredConfigHeld"));
    carry_out(&mut world, &next);
    let next = plan(&world);
    assert!(holds(&next).is_empty(), "the request is answered once");
    assert!(targeted(&next).is_empty());
}

#[test]
fn taking_the_hold_off_lets_the_node_go_although_the_person_still_owns_the_target() {
    let mut world = sent_back();
    let next = plan(&world);
    carry_out(&mut world, &next);
    let_go(&mut world, "w1");
    let next = plan(&world);
    assert!(holds(&next).is_empty());
    assert_eq!(targeted(&next), [("w1", NEW)]);
    carry_out(&mut world, &next);
    let_go(&mut world, "w1");
    send(&mut world, "w1", OLD);
    assert_eq!(holds(&plan(&world)).len(), 1, "the same config set once more is a new request");
}

#[test]
fn a_request_waits_for_a_place_like_any_other_node() {
    let mut world = sent_back();
    send(&mut world, "w2", OLD);
    let next = plan(&world);
    assert_eq!(holds(&next).len(), 2);
    assert_eq!(claimed(&next).len(), 1);
}

#[test]
fn a_request_is_recorded_while_the_pool_is_paused() {
    let mut world = sent_back();
    world.pool.paused = true;
    let next = plan(&world);
    assert_eq!(holds(&next).len(), 1);
    assert_eq!(claimed(&next), [("w1", OLD)]);
}

#[test]
fn the_pools_own_target_set_by_hand_is_obeyed_once() {
    let mut world = sent_back();
    send(&mut world, "w1", NEW);
    let next = plan(&world);
    assert!(holds(&next).is_empty());
    assert_ne!(next.next, rollout::Next::OnChange(Waiting::Held { nodes: 1 }));
    carry_out(&mut world, &next);
    assert_eq!(world.nodes.get("w1").unwrap().held_config.as_deref(), Some(NEW), "it is noted as answered");
    world.rendered = [NEW.to_owned()].into();
    // Even where the clock that dates targets is behind.
    want(&mut world, "rendered-worker-3", "2025-12-31T00:00:00Z");
    let next = plan(&world);
    assert!(holds(&next).is_empty());
    assert_eq!(targeted(&next), [("w1", "rendered-worker-3")]);
}

#[test]
fn what_was_set_before_the_pool_had_its_target_says_nothing_about_it() {
    let mut world = sent_back();
    want(&mut world, NEW, "2026-01-02T00:00:00Z");
    let next = plan(&world);
    assert!(holds(&next).is_empty());
    assert_eq!(targeted(&next), [("w1", NEW)]);
}

#[test]
fn whether_a_request_came_later_is_told_by_the_api_servers_clock_alone() {
    let mut world = sent_back();
    // The controller's clock is an hour ahead of that of the API server.
    world.ledger.spec.target.as_mut().unwrap().since = "2026-01-01T01:00:00Z".parse().ok().map(Time);
    assert_eq!(holds(&plan(&world)).len(), 1);
    // And here it is behind: the request is older than the target.
    let mut facts = world.pool.clone();
    facts.configured_at = "2026-01-01T00:00:01Z".parse().ok();
    world.observe_pool(facts, None);
    world.ledger.spec.target.as_mut().unwrap().since = "2025-12-31T23:00:00Z".parse().ok().map(Time);
    assert!(holds(&plan(&world)).is_empty());
}

#[test]
fn the_api_server_tells_when_a_pool_got_its_target() {
    let entry = |manager: &str, time: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Apply", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    };
    let entries = [
        entry("machinist-render", "2026-01-01T00:00:01Z", json!({"f:spec": {"f:configuration": {"f:name": {}}}})),
        entry("kubectl-edit", "2026-01-01T00:00:02Z", json!({"f:spec": {"f:paused": {}}})),
    ];
    let pool = json!({"metadata": {"name": "worker", "managedFields": entries}, "spec": {}});
    let facts = rollout::PoolFacts::from_object(&serde_json::from_value(pool).unwrap());
    assert_eq!(facts.configured_at, "2026-01-01T00:00:01Z".parse().ok());
}

#[test]
fn a_node_that_rests_at_a_config_of_another_pool_gets_its_turn_whoever_set_that() {
    let mut world = sent_back();
    send(&mut world, "w1", "rendered-other-1");
    let_go(&mut world, "w1");
    assert_eq!(targeted(&plan(&world)), [("w1", NEW)]);
}

#[test]
fn a_config_that_the_pool_never_rendered_is_put_back() {
    let mut world = sent_back();
    send(&mut world, "w1", "rendered-worker-nonsense");
    let next = plan(&world);
    assert!(holds(&next).is_empty());
    assert_eq!(targeted(&next), [("w1", NEW)]);
    assert!(next.events.iter().any(|event| event.reason == "DesiredConfigPutBack"));
}

fn written_by(managers: &[&str]) -> NodeFacts {
    written_at("2026-01-01T00:00:01Z", managers)
}

/// A node that was created at 00:00:00 and whose annotation was last written by these managers.
fn written_at(time: &str, managers: &[&str]) -> NodeFacts {
    let fields = json!({"f:metadata": {"f:annotations": {"f:machineconfiguration.openshift.io/desiredConfig": {}}}});
    let entry = |manager: &&str| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };
    let entries: Vec<Value> = managers.iter().map(entry).collect();
    let object = json!({
        "metadata": {
            "name": "w1", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": entries,
            "annotations": {"machineconfiguration.openshift.io/desiredConfig": OLD},
        },
    });
    NodeFacts::from_object(&serde_json::from_value(object).unwrap())
}

#[test]
fn only_what_no_controller_wrote_is_a_request() {
    assert!(written_by(&["kubectl-edit"]).is_hand_set());
    assert!(!written_by(&["machinist-rollout"]).is_hand_set());
    assert!(!written_by(&["machine-config-controller"]).is_hand_set(), "upstream's controller");
    assert!(!written_by(&["kubectl-edit", "machinist-rollout"]).is_hand_set(), "both wrote the same");
    assert!(!written_by(&["before-first-apply"]).is_hand_set(), "nobody knows who it was");
    assert!(!written_at("2026-01-01T00:00:00Z", &["kubectl-create"]).is_hand_set(), "it was created so");
}

#[test]
fn a_node_in_line_that_a_person_sends_to_the_target_is_emptied_only_once_it_has_a_place() {
    let busy = annotated(&[("desiredConfig", NEW), ("state", "Working")]);
    let line = ["w1", "w2"].map(|name| node(name, OLD, busy.clone())).into_iter().chain([node("w3", OLD, json!({}))]);
    let mut world = workers(json!(2), line.collect());
    let claim = |name: &str, version: &str| json!({"node": name, "nodeResourceVersion": version, "config": NEW});
    let claims = ["w1", "w2"].map(|name| claim(name, "9"));
    world.ledger = ledger(json!({
        "target": {"config": NEW, "since": "2025-12-31T00:00:00Z"}, "claims": claims, "next": [claim("w3", "10")],
    }));
    send(&mut world, "w3", NEW);
    let asks = |facts: &mut NodeFacts| {
        facts.state = State::Working;
        facts.desired_drain = Some(format!("drain-{NEW}"));
    };
    change(&mut world, "w3", "12", asks);
    let lets = |world: &Snapshot| rollout::ledger::lets_drain(&world.ledger.spec, world.nodes.get("w3").unwrap());
    let next = plan(&world);
    carry_out(&mut world, &next);
    assert!(!lets(&world), "two are away already");
    let version = (world.nodes.newest() + 1).to_string();
    change(&mut world, "w1", &version, |facts| {
        facts.current = Some(NEW.to_owned());
        facts.state = State::Done;
    });
    for _ in 0..2 {
        let next = plan(&world);
        carry_out(&mut world, &next);
    }
    assert!(lets(&world), "one has come back: {:?}", world.ledger.spec);
}
