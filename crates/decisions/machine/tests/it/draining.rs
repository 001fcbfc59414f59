//! Drains: what vectors do not cover.

use api::machine::Machine;
use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use machine::draining::{Colleague, Emptying, Next, Snapshot, Waiting, plan};
use serde_json::{Value, json};

use crate::make::{ago, machine, merge, node, now};

fn leaving(over: Value) -> Machine {
    let mut value = json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::from_mins(10))},
        "status": {"phase": "Deleting", "nodeRef": {"name": "n"}},
    });
    merge(&mut value, over);
    machine(value)
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let plan = plan(snapshot);
    let drained = plan.status.conditions.iter().find(|it| it.type_ == "Drained");
    let drained = drained.map(|it| format!("{} {}", it.status, it.message.as_deref().unwrap_or_default()));
    let next = match &plan.next {
        Next::Empty { node, unreachable } => format!("empty {node}{}", if *unreachable { ", unreachable" } else { "" }),
        Next::OnChange(waiting) => format!("wait: {waiting}"),
        Next::After(delay, waiting) => format!("after {delay:?}: {waiting}"),
    };
    expected.assert_eq(&format!("{} actions | {next} | {}", plan.actions.len(), drained.unwrap_or_default()));
}

fn of(machine: &Machine, nodes: &[&Node]) -> Snapshot {
    Snapshot::from_objects(machine, Some(nodes), |_| None, Vec::new(), now())
}

#[test]
fn blocking_pods_stand_on_the_machine_until_the_drain_goes_on() {
    let (machine, node) = (leaving(json!({})), node(json!({})));
    let blocked = Emptying { left: 2, blocked: vec!["pod ns/db: disruption budget ns/db".to_owned()] };
    let mut snapshot = Snapshot { emptying: Some(blocked), ..of(&machine, &[&node]) };
    check(
        &snapshot,
        expect!["1 actions | after 5s: pod ns/db: disruption budget ns/db | False pod ns/db: disruption budget ns/db"],
    );
    // The same block is told once, and several blocks in whatever order they come.
    snapshot.machine.status = Some(plan(&snapshot).status);
    assert!(plan(&snapshot).actions.is_empty());
    let two = |one: &str, other: &str| Some(Emptying { left: 2, blocked: vec![one.to_owned(), other.to_owned()] });
    snapshot.emptying = two("a", "b");
    snapshot.machine.status = Some(plan(&snapshot).status);
    snapshot.emptying = two("b", "a");
    assert!(plan(&snapshot).actions.is_empty());
    assert_eq!(Some(plan(&snapshot).status), snapshot.machine.status);
}

#[test]
fn a_silent_kubelet_is_not_waited_for() {
    let silent = node(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    check(&of(&leaving(json!({})), &[&silent]), expect!["2 actions | empty n, unreachable | "]);
}

#[test]
fn of_two_masters_deleted_at_once_the_earlier_goes_first() {
    let role = json!({"labels": {"node-role.kubernetes.io/control-plane": ""}});
    let (mine, other) =
        (node(json!({"metadata": role})), node(json!({"metadata": {"name": "other", "labels": role["labels"]}})));
    let at = |minutes: i64| -> Timestamp { now() - SignedDuration::from_mins(minutes) };
    let nodes = [&mine, &other];
    let with = |since: Timestamp| {
        Snapshot::from_objects(&leaving(json!({})), Some(&nodes), move |_| Some(since), Vec::new(), now())
    };
    check(
        &with(at(11)),
        expect![
            "1 actions | after 20s: control-plane node other goes first | False waiting for control-plane node other: only one may be taken away at a time"
        ],
    );
    check(&with(at(9)), expect!["2 actions | empty n | "]);
}

#[test]
fn of_two_cordoned_masters_deleted_at_once_the_earlier_goes_first() {
    let cordoned = |name: &str| {
        node(json!({
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/master": ""}}, "spec": {"unschedulable": true},
        }))
    };
    let (mine, other) = (cordoned("n"), cordoned("other"));
    let with = |minutes| {
        let since = now() - SignedDuration::from_mins(minutes);
        let leaves = move |node: &Node| (node.metadata.name.as_deref() == Some("other")).then_some(since);
        Snapshot::from_objects(&leaving(json!({})), Some(&[&mine, &other]), leaves, Vec::new(), now())
    };
    check(
        &with(11),
        expect![
            "1 actions | after 20s: control-plane node other goes first | False waiting for control-plane node other: only one may be taken away at a time"
        ],
    );
    check(&with(9), expect!["1 actions | empty n | "]);
}

#[test]
fn a_drain_timeout_gives_up_and_says_so() {
    let patient = leaving(json!({"metadata": {"annotations": {"machinist.dev/drain-timeout": "15m"}}}));
    let impatient = leaving(json!({"metadata": {"annotations": {"machinist.dev/drain-timeout": "5m"}}}));
    let left = Some(Emptying { left: 3, blocked: Vec::new() });
    let node = node(json!({}));
    check(
        &Snapshot { emptying: left.clone(), ..of(&patient, &[&node]) },
        expect![
            "0 actions | after 5s: 3 pods are being evicted | False Node is being drained: pods are still being evicted"
        ],
    );
    // The end of the timeout is waited for.
    let ending = leaving(json!({"metadata": {"annotations": {"machinist.dev/drain-timeout": "10m2s"}}}));
    let waits = plan(&Snapshot { emptying: left.clone(), ..of(&ending, &[&node]) }).next;
    assert!(matches!(waits, Next::After(delay, _) if delay == SignedDuration::from_secs(2)), "{waits:?}");
    check(
        &Snapshot { emptying: left, ..of(&impatient, &[&node]) },
        expect!["1 actions | wait: the node is drained | True Node drain given up after its timeout with 3 pods left"],
    );
}

#[test]
fn the_node_of_a_contested_instance_is_drained_when_nobody_else_claims_it_any_more() {
    let node = node(json!({}));
    let machine = leaving(json!({}));
    let mut contested = Snapshot { rivals: vec!["ns/copy".to_owned()], ..of(&machine, &[&node]) };
    check(&contested, expect!["0 actions | wait: there is nothing to drain | "]);
    contested.machine.status = Some(plan(&contested).status);
    contested.rivals.clear();
    check(&contested, expect!["2 actions | empty n | "]);
}

#[test]
fn a_node_of_the_same_name_that_registered_anew_is_not_drained() {
    let machine = leaving(json!({"status": {"nodeRef": {"name": "n", "uid": "uid-old"}}}));
    check(
        &of(&machine, &[&node(json!({}))]),
        expect!["2 actions | wait: the node is drained | True Drain finished successfully"],
    );
}

#[test]
fn nothing_is_decided_when_nodes_cannot_be_listed() {
    let unknown = Snapshot::from_objects(&leaving(json!({})), None, |_| None, Vec::new(), now());
    check(&unknown, expect!["0 actions | after 20s: nodes could not be listed | "]);
}

#[test]
fn a_node_that_comes_after_the_drain_is_drained_too() {
    let drained = |message: &str| {
        let at = ago(SignedDuration::from_mins(5));
        json!([{"type": "Drained", "status": "True", "message": message, "lastTransitionTime": at}])
    };
    let skipped = leaving(json!({"status": {"conditions": drained("Node drain skipped")}}));
    let plain = node(json!({}));
    check(&of(&skipped, &[&plain]), expect!["2 actions | empty n | True Node drain skipped"]);
    let excluded = json!({"metadata": {"annotations": {"machine.openshift.io/exclude-node-draining": ""}}});
    let mut value = json!({"status": {"conditions": drained("Node drain skipped")}});
    merge(&mut value, excluded);
    check(&of(&leaving(value), &[&plain]), expect!["0 actions | wait: the node is drained | True Node drain skipped"]);

    let gone = leaving(json!({"status": {"conditions": drained("Drain finished successfully")}}));
    let closed = node(json!({"spec": {"unschedulable": true}}));
    check(&of(&gone, &[&closed]), expect!["0 actions | wait: the node is drained | True Drain finished successfully"]);
    // The clock that the drain's time came from may have been ahead, so the node's own time proves nothing.
    let older = node(json!({"metadata": {"creationTimestamp": ago(SignedDuration::from_hours(1))}}));
    let again = expect![
        "0 actions | after 0s: 0 pods are being evicted | False the node is not cordoned any more: it has registered again, or somebody uncordoned it"
    ];
    let mut begun = of(&gone, &[&older]);
    check(&begun, again);
    // The node is cordoned only when that is written: a crash between the two would make it look drained.
    begun = of(&Machine { status: Some(plan(&begun).status), ..gone.clone() }, &[&older]);
    check(
        &begun,
        expect![
            "2 actions | empty n | False the node is not cordoned any more: it has registered again, or somebody uncordoned it"
        ],
    );
    let known = machine::draining::cordoned(&older);
    check(&of(&gone, &[&known]), expect!["0 actions | wait: the node is drained | True Drain finished successfully"]);
}

#[test]
fn two_nodes_of_the_control_plane_never_wait_for_each_other() {
    let master = |cordoned: bool| {
        let labels = json!({"node-role.kubernetes.io/control-plane": ""});
        node(json!({"metadata": {"labels": labels}, "spec": {"unschedulable": cordoned}}))
    };
    let colleague = |cordoned: bool, minutes: Option<i64>| {
        let leaving = minutes.map(|minutes| now() - SignedDuration::from_mins(minutes));
        vec![Colleague { node: "other".to_owned(), cordoned, leaving }]
    };
    let waits = |cordoned: bool, colleagues: Vec<Colleague>| {
        let node = master(cordoned);
        let snapshot = Snapshot { colleagues, ..of(&leaving(json!({})), &[&node]) };
        matches!(plan(&snapshot).next, Next::After(_, Waiting::Turn { .. }))
    };
    // This one's Machine was deleted ten minutes ago.
    assert!(waits(false, colleague(true, Some(5))), "the other is cordoned already");
    assert!(!waits(true, colleague(false, Some(20))), "so it does not wait for the older one");
    assert!(waits(false, colleague(false, Some(20))), "the older one goes first");
    assert!(!waits(false, colleague(false, Some(5))));
    assert!(waits(true, colleague(true, Some(20))));
    assert!(!waits(true, colleague(true, Some(5))));
    assert!(waits(false, colleague(true, None)), "a config change has taken the other");
    assert!(!waits(true, colleague(true, None)));
}
