//! The control plane's set.

use api::machine::{ControlPlaneMachineSet, Machine};
use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Node;
use machine::control_plane_set::{Action, Etcd, Next, Snapshot, plan};
use serde_json::{Value, json};

use crate::make::{machine, merge, node, now, object};

fn set(over: Value) -> ControlPlaneMachineSet {
    let labels = json!({
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
        "machine.openshift.io/cluster-api-cluster": "c",
    });
    let mut value = json!({
        "metadata": {"name": "cluster", "namespace": "ns", "uid": "uid-set", "generation": 2},
        "spec": {
            "replicas": 3, "state": "Active",
            "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machine-role": "master"}},
            "template": {
                "machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {
                    "metadata": {"labels": labels},
                    "spec": {"providerSpec": {"value": {"instanceType": "large"}}},
                },
            },
        },
    });
    merge(&mut value, over);
    object(value)
}

fn master(name: &str, instance_type: &str, over: Value) -> Machine {
    let owner = json!([{"apiVersion": "v1", "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": "uid-set", "controller": true}]);
    let mut value = json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "ownerReferences": owner,
            "labels": {"machine.openshift.io/cluster-api-machine-role": "master"},
        },
        "spec": {"providerSpec": {"value": {"instanceType": instance_type, "defaulted": true}}},
        "status": {"phase": "Running", "nodeRef": {"name": name}},
    });
    merge(&mut value, over);
    machine(value)
}

fn three(kind: &str) -> Vec<Machine> {
    (0..3).map(|index| master(&format!("c-master-{index}"), kind, json!({}))).collect()
}

fn snapshot(set: ControlPlaneMachineSet, machines: &[Machine], etcd: Etcd) -> Snapshot {
    let nodes: Vec<Node> = machines
        .iter()
        .filter_map(|machine| machine.status.as_ref()?.node_ref.as_ref()?.name.clone())
        .map(|name| node(json!({"metadata": {"name": name}})))
        .collect();
    let find = |name: &str| nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    Snapshot::from_objects(&set, machines, find, etcd, now())
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let plan = plan(snapshot);
    let actions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Adopt { name, .. } => format!("adopt {name}"),
            Action::Create(machine) => {
                let value = machine.spec.provider_spec.clone().unwrap().value.unwrap();
                format!("create {} {value}", machine.metadata.name.as_deref().unwrap())
            }
            Action::Delete { name, .. } => format!("delete {name}"),
        })
        .collect();
    let Next::OnChange(waiting) = plan.next;
    expected.assert_eq(&format!("{} | {waiting}", actions.join(", ")));
}

#[test]
fn an_inactive_set_does_nothing() {
    check(
        &snapshot(set(json!({"spec": {"state": "Inactive"}})), &three("small"), Etcd::Elsewhere),
        expect![" | the set is not Active"],
    );
}

#[test]
fn machines_that_look_like_the_template_are_adopted_and_left_alone() {
    let mut masters = three("large");
    masters[1].metadata.owner_references = None;
    check(
        &snapshot(set(json!({})), &masters, Etcd::Elsewhere),
        expect!["adopt c-master-1 | all machines of the control plane are up to date"],
    );
}

#[test]
fn outdated_machines_are_replaced_one_at_a_time_from_the_lowest_index() {
    let mut masters = three("small");
    check(
        &snapshot(set(json!({})), &masters, Etcd::Elsewhere),
        expect![[r#"create c-master-gqpm9-0 {"instanceType":"large"} | machine c-master-gqpm9-0 is on its way in"#]],
    );
    // The replacement boots: nothing else moves.
    masters.push(master("c-master-abcde-0", "large", json!({"status": {"phase": "Provisioned", "nodeRef": null}})));
    check(
        &snapshot(set(json!({})), &masters, Etcd::Elsewhere),
        expect![" | machine c-master-abcde-0 is on its way in"],
    );
    // It is ready: the old one goes.
    masters[3] = master("c-master-abcde-0", "large", json!({}));
    check(
        &snapshot(set(json!({})), &masters, Etcd::Elsewhere),
        expect!["delete c-master-0 | machine c-master-0 is on its way out"],
    );
    // While it goes, the next index waits.
    masters[0].metadata.deletion_timestamp =
        machine(json!({"metadata": {"deletionTimestamp": "2026-03-01T11:00:00Z"}})).metadata.deletion_timestamp;
    check(&snapshot(set(json!({})), &masters, Etcd::Elsewhere), expect![" | machine c-master-0 is on its way out"]);
    masters.remove(0);
    check(
        &snapshot(set(json!({})), &masters, Etcd::Elsewhere),
        expect![[r#"create c-master-kk5d7-1 {"instanceType":"large"} | machine c-master-kk5d7-1 is on its way in"#]],
    );
}

/// A member on each of the first masters and on the newcomer, if there are so many. `all` of them were known once.
fn members(count: usize, ill: &[&str], all: usize) -> Etcd {
    let nodes = ["c-master-0", "c-master-1", "c-master-2", "c-master-abcde-0"];
    let seen = nodes.iter().take(count).map(|node| ((*node).to_owned(), !ill.contains(node))).collect();
    Etcd::Members { seen, all }
}

#[test]
fn nothing_goes_while_etcd_would_lose_its_quorum_or_does_not_answer() {
    let mut masters = three("small");
    masters.push(master("c-master-abcde-0", "large", json!({})));
    for (etcd, expected) in [
        (members(4, &[], 4), expect!["delete c-master-0 | machine c-master-0 is on its way out"]),
        (
            members(4, &["c-master-2"], 4),
            expect![" | taking a machine away is not safe: 3 of 4 members of etcd are healthy"],
        ),
        (Etcd::Unknown, expect![" | taking a machine away is not safe: etcd did not answer"]),
    ] {
        check(&snapshot(set(json!({})), &masters, etcd), expected);
    }
}

#[test]
fn a_machine_that_is_not_ready_holds_everything() {
    let mut masters = three("small");
    masters[2] = master("c-master-2", "small", json!({"status": {"phase": "Failed"}}));
    check(&snapshot(set(json!({})), &masters, Etcd::Elsewhere), expect![" | not ready: c-master-2"]);
}

#[test]
fn a_machine_on_its_way_in_is_waited_for_behind_one_that_lost_its_node() {
    let lost = master("c-master-0", "large", json!({"status": {"phase": "Provisioned"}}));
    let arriving = master("c-master-1", "large", json!({"status": {"phase": "Provisioned", "nodeRef": null}}));
    let mut ready = three("large");
    let masters = [lost, arriving, ready.remove(2)];
    let four = set(json!({"spec": {"replicas": 4}}));
    check(&snapshot(four, &masters, Etcd::Elsewhere), expect![" | machine c-master-1 is on its way in"]);
}

#[test]
fn nothing_moves_when_nodes_cannot_be_listed() {
    let unknown = Snapshot { nodes_unknown: true, ..snapshot(set(json!({})), &three("small"), Etcd::Elsewhere) };
    check(&unknown, expect![" | nodes could not be listed"]);
    assert_eq!(plan(&unknown).status, Default::default());
}

#[test]
fn an_etcd_that_nobody_has_looked_at_allows_nothing() {
    let mut masters = three("small");
    masters.push(master("c-master-abcde-0", "large", json!({})));
    check(
        &snapshot(set(json!({})), &masters, Etcd::default()),
        expect![" | taking a machine away is not safe: etcd did not answer"],
    );
}

#[test]
fn a_replacement_does_not_name_the_instance_that_the_template_was_written_from() {
    let copied =
        json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerID": "x:///1"}}}}});
    let plan = plan(&snapshot(set(copied), &three("small"), Etcd::Elsewhere));
    let Some(Action::Create(made)) = plan.actions.first() else { panic!("nothing is created") };
    assert_eq!(made.spec.provider_id, None);
}

#[test]
fn a_master_is_not_ready_by_a_node_that_took_its_nodes_name() {
    let mut masters = three("small");
    masters[2].status.as_mut().unwrap().node_ref.as_mut().unwrap().uid = Some("uid-old".to_owned());
    check(&snapshot(set(json!({})), &masters, Etcd::Elsewhere), expect![" | not ready: c-master-2"]);
}

#[test]
fn a_deleted_machine_gets_an_heir_with_its_index_in_either_strategy() {
    for strategy in ["RollingUpdate", "OnDelete"] {
        let mut masters = three("large");
        masters[1] = master("c-master-1", "large", json!({"metadata": {"deletionTimestamp": "2026-03-01T11:00:00Z"}}));
        let set = set(json!({"spec": {"strategy": {"type": strategy}}}));
        check(
            &snapshot(set, &masters, Etcd::Elsewhere),
            expect![[
                r#"create c-master-kk5d7-1 {"instanceType":"large"} | machine c-master-kk5d7-1 is on its way in"#
            ]],
        );
    }
}

#[test]
fn on_delete_waits_for_somebody() {
    let set = set(json!({"spec": {"strategy": {"type": "OnDelete"}}}));
    check(
        &snapshot(set, &three("small"), Etcd::Elsewhere),
        expect![" | older machines stay until they are deleted: c-master-0, c-master-1, c-master-2"],
    );
}

#[test]
fn a_missing_index_is_filled_in_the_emptiest_domain() {
    let domains = json!({"platform": "AWS", "aws": [
        {"placement": {"availabilityZone": "a"}, "subnet": {"type": "ID", "id": "s-a"}},
        {"placement": {"availabilityZone": "b"}},
        {"placement": {"availabilityZone": "c"}},
    ]});
    let set =
        set(json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"failureDomains": domains}}}}));
    let place = |zone: &str| json!({"spec": {"providerSpec": {"value": {"placement": {"availabilityZone": zone}, "subnet": {"id": "s-a"}}}}});
    let masters = [master("c-master-1", "large", place("b")), master("c-master-2", "large", place("c"))];
    check(
        &snapshot(set, &masters, Etcd::Elsewhere),
        expect![[
            r#"create c-master-g4klc-0 {"instanceType":"large","placement":{"availabilityZone":"a"},"subnet":{"id":"s-a"}} | machine c-master-g4klc-0 is on its way in"#
        ]],
    );
}

#[test]
fn trouble_is_a_condition_and_nothing_moves() {
    let mut failed = three("small");
    failed.push(master("c-master-abcde-0", "large", json!({"status": {"phase": "Failed", "nodeRef": null}})));
    let snapshot_failed = snapshot(set(json!({})), &failed, Etcd::Elsewhere);
    check(&snapshot_failed, expect![" | Observed 1 failed replacement(s): c-master-abcde-0"]);
    let degraded = plan(&snapshot_failed).status.conditions.into_iter().find(|it| it.type_ == "Degraded").unwrap();
    assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", "FailedReplacement"));
    let unmanaged = Snapshot {
        unmanaged_nodes: vec!["n9".to_owned()],
        ..snapshot(set(json!({})), &three("small"), Etcd::Elsewhere)
    };
    check(&unmanaged, expect![" | Found 1 unmanaged node(s): n9"]);
    let four: Vec<_> = (0..4).map(|index| master(&format!("c-master-{index}"), "large", json!({}))).collect();
    check(&snapshot(set(json!({})), &four, Etcd::Elsewhere), expect![" | Observed 4 indexes, but spec.replicas is 3"]);
}

#[test]
fn members_whose_nodes_are_gone_count_for_the_quorum() {
    let mut masters = three("small");
    masters.push(master("c-master-abcde-0", "large", json!({})));
    check(
        &snapshot(set(json!({})), &masters, members(4, &[], 6)),
        expect![" | taking a machine away is not safe: 4 of 6 members of etcd are healthy"],
    );
}

#[test]
fn a_master_stays_until_its_replacement_is_a_healthy_member_of_etcd() {
    let mut masters = three("small");
    masters.push(master("c-master-abcde-0", "large", json!({})));
    check(
        &snapshot(set(json!({})), &masters, members(3, &[], 3)),
        expect![" | machine c-master-0 stays until its replacement with index 0 runs a healthy member of etcd"],
    );
    // The old machine has none itself, so none is lost with it.
    let Etcd::Members { mut seen, all } = members(4, &[], 4) else { panic!("members are seen") };
    seen.remove("c-master-0");
    check(
        &snapshot(set(json!({})), &masters, Etcd::Members { seen, all: all - 1 }),
        expect!["delete c-master-0 | machine c-master-0 is on its way out"],
    );
}

/// Nodes that booted are no members yet, and a member whose machine is gone is one until somebody removes it.
#[test]
fn five_masters_whose_replacements_never_join_etcd_keep_all_their_members() {
    let mut masters: Vec<_> = (0..5).map(|index| master(&format!("c-master-{index}"), "small", json!({}))).collect();
    let seen = |masters: &[Machine]| -> std::collections::BTreeMap<String, bool> {
        let old = masters
            .iter()
            .filter(|it| it.spec.provider_spec.as_ref().unwrap().value.as_ref().unwrap()["instanceType"] == "small");
        old.map(|machine| (machine.metadata.name.clone().unwrap(), true)).collect()
    };
    for _ in 0..20 {
        let etcd = Etcd::Members { seen: seen(&masters), all: 5 };
        let world = snapshot(set(json!({"spec": {"replicas": 5}})), &masters, etcd);
        for action in plan(&world).actions {
            match action {
                Action::Adopt { .. } => {}
                Action::Create(machine) => masters.push(master(&machine.metadata.name.unwrap(), "large", json!({}))),
                Action::Delete { name, .. } => {
                    masters.retain(|machine| machine.metadata.name.as_deref() != Some(&name))
                }
            }
        }
    }
    assert_eq!(seen(&masters).len(), 5, "nobody knows whether replacements will join");
}
