//! MachineSets: what vectors do not cover.

use api::machine::{Machine, MachineSet};
use expect_test::{Expect, expect};
use machine::set::{Action, Next, Snapshot, plan, selector_text};
use serde_json::{Value, json};

use crate::make::{machine, merge, node, now, object};

fn set(over: Value) -> MachineSet {
    let mut value = json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a", "generation": 1},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"set": "a"}},
            "template": {"metadata": {"labels": {"set": "a"}}, "spec": {"providerSpec": {"value": {"kind": "X"}}}},
        },
    });
    merge(&mut value, over);
    object(value)
}

fn member(name: &str, over: Value) -> Machine {
    let owner = json!([{"apiVersion": "v1", "kind": "MachineSet", "name": "a", "uid": "uid-a", "controller": true}]);
    let mut value = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"set": "a"}, "ownerReferences": owner},
    });
    merge(&mut value, over);
    machine(value)
}

#[track_caller]
fn check(set: MachineSet, machines: &[Machine], expected: Expect) {
    let plan = plan(&Snapshot::from_objects(&set, machines, |_| None, now()));
    let actions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Create(machine) => format!("create {}", machine.metadata.name.as_deref().unwrap()),
            Action::Delete { name, .. } => format!("delete {name}"),
            Action::Adopt { name, .. } => format!("adopt {name}"),
            Action::Release { name, .. } => format!("release {name}"),
            Action::Mark { name, matches } => format!("mark {name} {matches}"),
        })
        .collect();
    let next = match plan.next {
        Next::OnChange(waiting) => format!("{waiting}"),
        Next::After(delay, waiting) => format!("{delay:?}: {waiting}"),
    };
    expected.assert_eq(&format!("{} | {next}", actions.join(", ")));
}

#[test]
fn names_follow_from_the_set_and_skip_those_that_are_taken() {
    check(set(json!({})), &[], expect!["create a-ltrv5, create a-8bblc | machines are being created or deleted"]);
    // The first name is taken by a machine that somebody else controls, the second by one that is on its way out.
    let foreign = member(
        "a-ltrv5",
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]}}),
    );
    let leaving = member("a-8bblc", json!({"metadata": {"deletionTimestamp": "2026-03-01T11:00:00Z"}}));
    check(
        set(json!({})),
        &[foreign, leaving],
        expect!["create a-ssplm, create a-m45fc | machines are being created or deleted"],
    );
}

#[test]
fn new_machines_carry_template_owner_and_the_hash_of_what_they_were_made_from() {
    let plan = plan(&Snapshot::from_objects(&set(json!({})), &[], |_| None, now()));
    let Some(Action::Create(machine)) = plan.actions.first() else { panic!("nothing is created") };
    assert_eq!(machine.metadata.owner_references.as_ref().unwrap()[0].uid, "uid-a");
    assert_eq!(machine.metadata.labels.as_ref().unwrap()["set"], "a");
    assert_eq!(machine.spec.provider_spec.as_ref().unwrap().value, Some(json!({"kind": "X"})));
    let annotations = machine.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["machinist.dev/matches-template"], "true");
    assert!(annotations.contains_key("machinist.dev/template-hash"));
}

#[test]
fn new_machines_do_not_name_the_instance_that_the_template_was_written_from() {
    let copied = set(json!({"spec": {"template": {"spec": {"providerID": "x:///1"}}}}));
    let plan = plan(&Snapshot::from_objects(&copied, &[], |_| None, now()));
    let Some(Action::Create(machine)) = plan.actions.first() else { panic!("nothing is created") };
    assert_eq!(machine.spec.provider_id, None);
    let review = machine::admission::review_set(None, &copied);
    assert!(review.is_allowed() && review.warnings[0].starts_with("spec.template.spec.providerID x:///1 is ignored"));
}

#[test]
fn a_name_is_cut_where_a_name_may_end() {
    let long = set(json!({"metadata": {"name": format!("{}.tail", "x".repeat(56))}, "spec": {"replicas": 1}}));
    let plan = plan(&Snapshot::from_objects(&long, &[], |_| None, now()));
    let Some(Action::Create(machine)) = plan.actions.first() else { panic!("nothing is created") };
    let name = machine.metadata.name.as_deref().unwrap();
    assert!(name.starts_with(&format!("{}-", "x".repeat(56))), "{name}");
}

#[test]
fn machines_of_nobody_are_not_deleted_before_they_are_the_sets_own() {
    let said = json!({"metadata": {"annotations": {"machinist.dev/matches-template": "true"}}});
    let mut orphan = member("m0", said.clone());
    orphan.metadata.owner_references = None;
    let [one, two] = ["m1", "m2"].map(|name| member(name, said.clone()));
    // The set has enough: the orphan is left to whoever wants it.
    check(set(json!({})), &[orphan.clone(), one.clone(), two], expect![" | all machines are there"]);
    check(set(json!({})), &[orphan.clone(), one.clone()], expect!["adopt m0 | all machines are there"]);
    check(
        set(json!({"spec": {"replicas": 0}})),
        &[orphan, one],
        expect!["delete m1 | machines are being created or deleted"],
    );
}

#[test]
fn a_machine_says_whether_it_still_looks_like_the_template() {
    let fits = member("m1", json!({"metadata": {"annotations": {"machinist.dev/matches-template": "false"}}}));
    let differs = member("m2", json!({"spec": {"providerSpec": {"value": {"kind": "Y"}}}}));
    check(set(json!({})), &[fits, differs], expect!["mark m1 true, mark m2 false | all machines are there"]);
}

#[test]
fn a_set_that_a_deployment_froze_shrinks_and_does_not_grow() {
    let frozen = json!({"metadata": {"annotations": {"machinist.dev/no-new-machines": "true"}}});
    check(
        set(frozen.clone()),
        &[],
        expect![" | the set makes no new machines, because its deployment has a newer one"],
    );
    let said = json!({"metadata": {"annotations": {"machinist.dev/matches-template": "true"}}});
    let mut smaller = frozen;
    merge(&mut smaller, json!({"spec": {"replicas": 0}}));
    check(set(smaller), &[member("m1", said)], expect!["delete m1 | machines are being created or deleted"]);
}

#[test]
fn a_node_that_took_the_name_of_another_makes_no_machine_ready() {
    let ready = |uid: &str| {
        let machine = member("m1", json!({"status": {"nodeRef": {"name": "n", "uid": uid}}}));
        let node = node(json!({}));
        plan(&Snapshot::from_objects(&set(json!({})), [&machine], |_| Some(&node), now())).status.ready_replicas
    };
    assert_eq!((ready("uid-n"), ready("uid-old")), (Some(1), Some(0)));
}

#[test]
fn numbers_stay_when_nodes_cannot_be_listed() {
    let counted = set(json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}));
    let mut snapshot = Snapshot::from_objects(&counted, &[], |_| None, now());
    snapshot.nodes_unknown = true;
    let plan = plan(&snapshot);
    assert_eq!((plan.actions, Some(plan.status)), (Vec::new(), counted.status));
}

#[test]
fn a_name_that_a_node_has_is_not_given_to_a_machine() {
    let mut snapshot = Snapshot::from_objects(&set(json!({"spec": {"replicas": 1}})), &[], |_| None, now());
    snapshot.taken.insert("a-ltrv5".to_owned());
    let Some(Action::Create(made)) = plan(&snapshot).actions.pop() else { panic!("nothing is created") };
    assert_eq!(made.metadata.name.as_deref(), Some("a-8bblc"));
}

#[test]
fn a_set_tells_of_machines_that_failed_and_forgets_it_when_they_are_gone() {
    let failed = |name: &str| member(name, json!({"status": {"phase": "Failed", "errorMessage": "boom"}}));
    let status =
        |set: &MachineSet, machines: &[Machine]| plan(&Snapshot::from_objects(set, machines, |_| None, now())).status;
    let mut told = set(json!({}));
    told.status = Some(status(&told, &[failed("m1"), failed("m2")]));
    expect![
        "2 machines have failed and still count as replicas: m1, m2; delete them, or let a MachineHealthCheck do it"
    ]
    .assert_eq(told.status.as_ref().unwrap().conditions[0].message.as_deref().unwrap());
    assert!(status(&told, &[member("m1", json!({}))]).conditions.is_empty());
}

#[test]
fn many_machines_come_in_batches() {
    let plan = plan(&Snapshot::from_objects(&set(json!({"spec": {"replicas": 250}})), &[], |_| None, now()));
    assert_eq!(plan.actions.len(), 100);
    expect!["After(100ms, MoreToCreate(150))"].assert_eq(&format!("{:?}", plan.next));
}

#[test]
fn nonsense_is_refused_with_a_reason_and_nothing_is_done() {
    check(
        set(json!({"spec": {"replicas": -1}})),
        &[],
        expect![" | failed to sync machines: spec.replicas of machineset a is -1: it must not be negative"],
    );
    let refused =
        plan(&Snapshot::from_objects(&set(json!({"spec": {"selector": {"matchLabels": null}}})), &[], |_| None, now()));
    assert_eq!(refused.status.error_reason.as_deref(), Some("InvalidConfiguration"));
    assert!(refused.status.error_message.unwrap().contains("empty selector"));
}

#[test]
fn an_error_is_forgotten_when_the_set_is_sound_again() {
    let healed =
        set(json!({"spec": {"replicas": 0}, "status": {"errorReason": "InvalidConfiguration", "errorMessage": "x"}}));
    let plan = plan(&Snapshot::from_objects(&healed, &[], |_| None, now()));
    assert_eq!((plan.status.error_reason, plan.status.error_message), (None, None));
}

#[test]
fn a_selector_is_written_as_clients_send_it_back() {
    let selector = json!({
        "matchLabels": {"b": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "a", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
        ],
    });
    let text = selector_text(&serde_json::from_value(selector).unwrap());
    assert_eq!(text, "a,b=2,c in (x,y),!d,e notin (z)");
}
