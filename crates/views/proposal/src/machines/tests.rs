//! What `plan` says about changes of machines.
#![allow(clippy::unwrap_used)]

use expect_test::{Expect, expect};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn template(size: u32) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"providerSpec": {"value": {"size": size}}}})
}

fn set(name: &str, replicas: u32, policy: &str, owner: Value) -> MachineSet {
    let meta = json!({
        "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1, "labels": {"app": "a"},
        "ownerReferences": owner, "creationTimestamp": "2026-11-01T00:00:00Z",
    });
    let selector = json!({"matchLabels": {"app": "a"}});
    object(json!({
        "metadata": meta,
        "spec": {"replicas": replicas, "deletePolicy": policy, "selector": selector, "template": template(1)},
        "status": {"replicas": replicas, "availableReplicas": replicas, "readyReplicas": replicas, "observedGeneration": 1},
    }))
}

fn machine(set: &str, number: u32) -> (Machine, Node) {
    let name = format!("{set}-{number}");
    let owner = json!([{
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": set, "uid": format!("uid-{set}"),
        "controller": true,
    }]);
    let machine = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": {"app": "a"}, "ownerReferences": owner,
            "creationTimestamp": format!("2026-11-0{number}T00:00:00Z"),
        },
        "spec": {"providerSpec": {"value": {"size": 1}}},
        "status": {"phase": "Running", "nodeRef": {"name": format!("node-{number}")}},
    });
    let node = json!({
        "metadata": {"name": format!("node-{number}")},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]},
    });
    (object(machine), object(node))
}

/// A set `a` with three machines; on the second node runs a pod.
fn fleet(policy: &str) -> Fleet {
    let (machines, nodes) = (1..=3).map(|number| machine("a", number)).unzip();
    let pods = Some([("node-2".to_owned(), vec!["shop/web".to_owned()])].into());
    let sets = vec![set("a", 3, policy, json!([]))];
    Fleet { machines, nodes, sets, pods, now: "2026-11-18T12:00:00Z".parse().unwrap(), ..Fleet::default() }
}

fn apply(spec: Value) -> Change {
    let manifest = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "a", "namespace": "ns"}, "spec": spec,
    });
    Change { apply: vec![manifest], delete: Vec::new() }
}

#[track_caller]
fn check(fleet: &Fleet, change: &Change, expected: Expect) {
    expected.assert_eq(&report(&plan(fleet, change).unwrap()));
}

#[test]
fn a_smaller_set_loses_machines_by_its_delete_policy_with_their_pods() {
    let mut plan = plan(&fleet("Newest"), &apply(json!({"replicas": 1}))).unwrap();
    assert_eq!(plan.pods(), ["shop/web".to_owned()].into());
    plan.block(&[("shop/web".to_owned(), "its budget lets no pod go".to_owned())].into());
    expect![[r#"
        1.
           - a-3 is deleted by MachineSet a: one too many; deletePolicy Newest
               node node-3 is drained; no pod moves
           - a-2 is deleted by MachineSet a: one too many; deletePolicy Newest
               node node-2 is drained; 1 pods move: shop/web
               held now: shop/web: its budget lets no pod go
    "#]]
    .assert_eq(&report(&plan));
    check(
        &fleet("Oldest"),
        &apply(json!({"replicas": 2})),
        expect![[r#"
        1.
           - a-1 is deleted by MachineSet a: one too many; deletePolicy Oldest
               node node-1 is drained; no pod moves
    "#]],
    );
}

#[test]
fn a_larger_set_gets_machines() {
    let plan = plan(&fleet(""), &apply(json!({"replicas": 250}))).unwrap();
    let made: usize = plan.rounds.iter().map(|round| round.create.len()).sum();
    assert_eq!((made, plan.notes.len()), (247, 0));
    check(
        &fleet(""),
        &apply(json!({"replicas": 4})),
        expect![[r#"
        1.
           + a-ltrv5 is created by MachineSet a
    "#]],
    );
}

#[test]
fn a_new_template_of_a_set_changes_no_machine_and_says_so() {
    check(
        &fleet(""),
        &apply(json!({"template": template(2)})),
        expect![[r#"
        No machine is created or deleted.
        MachineSet a: no existing machine changes, because a new template is for new machines only; 3 differ from it: a-1, a-2, a-3. Delete them one by one, or let a MachineDeployment replace them
    "#]],
    );
}

#[test]
fn a_set_that_cannot_be_acted_on_says_why() {
    check(
        &fleet(""),
        &apply(json!({"replicas": -1})),
        expect![[r#"
        No machine is created or deleted.
        MachineSet a: failed to sync machines: spec.replicas of machineset a is -1: it must not be negative
    "#]],
    );
}

#[test]
fn a_deleted_machine_is_replaced_by_its_set() {
    let delete = vec![Name::parse("machine/a-2").unwrap()];
    check(
        &fleet(""),
        &Change { apply: Vec::new(), delete },
        expect![[r#"
        1.
           - a-2 is deleted by you: it is deleted
               node node-2 is drained; 1 pods move: shop/web
        2., when the machines before are there or gone
           + a-ltrv5 is created by MachineSet a
    "#]],
    );
    let delete = vec![Name::parse("machinesets/ns/a").unwrap()];
    check(
        &fleet(""),
        &Change { apply: Vec::new(), delete },
        expect![[r#"
        1.
           - a-1 is deleted by MachineSet a: its set is deleted
               node node-1 is drained; no pod moves
           - a-2 is deleted by MachineSet a: its set is deleted
               node node-2 is drained; 1 pods move: shop/web
           - a-3 is deleted by MachineSet a: its set is deleted
               node node-3 is drained; no pod moves
    "#]],
    );
    let delete = vec![Name::parse("machineset/b").unwrap()];
    let error = plan(&fleet(""), &Change { apply: Vec::new(), delete }).unwrap_err();
    assert_eq!(error.to_string(), "there is no MachineSet b to delete");
}

#[test]
fn a_new_template_of_a_deployment_replaces_machines_in_rounds() {
    let owner = json!([{
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment", "name": "d", "uid": "uid-d",
        "controller": true,
    }]);
    let deployment = |size: u32| {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment",
            "metadata": {"name": "d", "namespace": "ns", "uid": "uid-d", "generation": 1},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template(size)},
        })
    };
    let mut fleet = fleet("");
    fleet.sets = vec![set("a", 3, "", owner)];
    fleet.deployments = vec![object(deployment(1))];
    let same = Change { apply: vec![deployment(1)], delete: Vec::new() };
    assert!(plan(&fleet, &same).unwrap().is_empty());
    let plan = plan(&fleet, &Change { apply: vec![deployment(2)], delete: Vec::new() }).unwrap();
    let rounds: Vec<_> = plan.rounds.iter().map(|round| (round.create.len(), round.delete.len())).collect();
    assert_eq!(rounds, [(1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1)]);
    assert_eq!(plan.notes, Vec::<String>::new());
}
