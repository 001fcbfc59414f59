//! Links between nodes and machines: what vectors do not cover.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Node;
use machine::link::{Action, Identity, Index, Key, Match, Snapshot, plan};
use serde_json::{Value, json};

use crate::make::{machine, node};

#[track_caller]
fn check(machine_over: Value, node_over: Value, expected: Expect) {
    let (machine, node) = (machine(machine_over), node(node_over));
    let plan = plan(&Snapshot { node: &node, machine: Match::One(&machine), linked: None });
    let actions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::SetNodeRef { node_ref, .. } => format!("nodeRef {}", node_ref.uid.as_deref().unwrap()),
            Action::PatchNode(patch) => format!(
                "labels {:?} taints {:?}",
                patch.labels,
                patch.taints.as_ref().map(|taints| {
                    taints
                        .iter()
                        .map(|taint| format!("{}={}", taint.key, taint.value.as_deref().unwrap_or("")))
                        .collect::<Vec<_>>()
                })
            ),
        })
        .collect();
    expected.assert_eq(&actions.join("\n"));
}

const LINK: &str = "machine.openshift.io/machine";
const APPLIED: &str = "machinist.dev/applied-from-machine";

fn linked(applied: Value, over: Value) -> Value {
    let mut value = json!({"metadata": {"annotations": {LINK: "ns/m", APPLIED: applied.to_string()}}});
    crate::make::merge(&mut value, over);
    value
}

fn with_node_ref(over: Value) -> Value {
    let mut value = json!({"status": {"nodeRef": {"kind": "Node", "name": "n", "uid": "uid-n"}}});
    crate::make::merge(&mut value, over);
    value
}

#[test]
fn what_the_machine_no_longer_has_leaves_the_node() {
    let applied = json!({"labels": {"tier": "gold", "kept": "1"}, "taints": [{"key": "dedicated", "effect": "NoSchedule", "value": "a"}]});
    let on_node = json!({
        "metadata": {"labels": {"tier": "gold", "kept": "2", "mine": "x"}},
        "spec": {"taints": [
            {"key": "dedicated", "effect": "NoSchedule", "value": "a"},
            {"key": "mine", "effect": "NoSchedule"},
        ]},
    });
    // `kept` was changed by somebody on the node, so it is theirs now.
    check(
        with_node_ref(json!({})),
        linked(applied, on_node),
        expect![[r#"labels {"tier": None} taints Some(["mine="])"#]],
    );
}

#[test]
fn a_changed_value_of_our_taint_reaches_the_node() {
    let taint = |value: &str| json!({"key": "dedicated", "effect": "NoSchedule", "value": value});
    let applied = json!({"taints": [taint("a")]});
    check(
        with_node_ref(json!({"spec": {"taints": [taint("b")]}})),
        linked(applied, json!({"spec": {"taints": [taint("a")]}})),
        expect![[r#"labels {} taints Some(["dedicated=b"])"#]],
    );
    // Somebody else's taint with the same key and effect is left alone.
    check(
        with_node_ref(json!({"spec": {"taints": [taint("b")]}})),
        json!({"metadata": {"annotations": {LINK: "ns/m"}}, "spec": {"taints": [taint("a")]}}),
        expect![""],
    );
}

#[test]
fn a_settled_pair_plans_nothing() {
    let spec = json!({"spec": {"metadata": {"labels": {"tier": "gold"}}}});
    let applied = json!({"labels": {"tier": "gold"}});
    check(with_node_ref(spec), linked(applied, json!({"metadata": {"labels": {"tier": "gold"}}})), expect![""]);
}

#[test]
fn a_machine_made_anew_for_a_running_node_is_linked_at_once() {
    check(
        json!({}),
        linked(json!({}), json!({})),
        expect![[r#"
        nodeRef uid-n
        labels {} taints None"#]],
    );
}

#[test]
fn addresses_of_a_machine_that_lost_its_instance_identify_nobody() {
    let with = |status: Value| {
        let mut over = json!({"spec": {"providerID": "x:///1"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}]}});
        crate::make::merge(&mut over, json!({"status": status}));
        let mut index = Index::default();
        let machine = machine(over);
        index.put(Key::of(&machine), Identity::of(&machine));
        let other = node(json!({
            "spec": {"providerID": "x:///9"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}]},
        }));
        index.machine_of(&Identity::of_node(&other))
    };
    let missing = json!([{"type": "InstanceExists", "status": "False", "reason": "InstanceMissing"}]);
    assert_eq!(with(json!({"phase": "Failed"})), Match::None);
    assert_eq!(with(json!({"phase": "Deleting", "conditions": missing})), Match::None);
    assert!(matches!(with(json!({"phase": "Running"})), Match::One(_)));
}

#[test]
fn two_nodes_of_one_machine_do_not_take_it_from_each_other() {
    let named = |name: &str, ready: &str| {
        node(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"providerID": "x:///1"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    };
    for (readiness, expected) in [(["True", "True"], "a"), (["False", "False"], "a"), (["False", "True"], "b")] {
        let nodes = [named("a", readiness[0]), named("b", readiness[1])];
        let mut machine = machine(json!({"spec": {"providerID": "x:///1"}}));
        let mut writes = 0;
        for node in nodes.iter().cycle().take(10) {
            let reference = machine.status.as_ref().unwrap().node_ref.clone();
            let linked = reference.and_then(|it| nodes.iter().find(|node| node.metadata.name == it.name));
            for action in plan(&Snapshot { node, machine: Match::One(&machine), linked }).actions {
                if let Action::SetNodeRef { node_ref, .. } = action {
                    machine.status.as_mut().unwrap().node_ref = Some(node_ref);
                    writes += 1;
                }
            }
        }
        assert!(writes <= 2, "{writes} writes for {readiness:?}");
        let linked = machine.status.unwrap().node_ref.unwrap();
        assert_eq!(linked.name.as_deref(), Some(expected), "{readiness:?}");
    }
}

#[test]
fn an_index_forgets_what_was_replaced() {
    let mut index = Index::default();
    let key = |name: &str| Key { namespace: "ns".to_owned(), name: name.to_owned() };
    let identity =
        |id: &str, address: &str| Identity { provider_id: Some(id.to_owned()), addresses: vec![address.to_owned()] };
    index.put(key("a"), identity("x:///1", "10.0.0.1"));
    index.put(key("b"), identity("x:///1", "10.0.0.2"));
    let node: Node = node(json!({"spec": {"providerID": "x:///1"}}));
    assert!(matches!(index.machine_of(&Identity::of_node(&node)), Match::Several { .. }));
    assert_eq!(index.with_provider_id("x:///1").count(), 2);
    index.put(key("b"), identity("x:///2", "10.0.0.2"));
    assert_eq!(index.machine_of(&Identity::of_node(&node)), Match::One(key("a")));
    index.remove(&key("a"));
    assert_eq!(index.machine_of(&Identity::of_node(&node)), Match::None);
    let by_address = Identity { provider_id: None, addresses: vec!["10.9.9.9".to_owned(), "10.0.0.2".to_owned()] };
    assert_eq!(index.machine_of(&by_address), Match::One(key("b")));
}
