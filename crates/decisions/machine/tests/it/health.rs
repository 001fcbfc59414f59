//! Health checks: what vectors do not cover.

use api::machine::{Machine, MachineHealthCheck};
use expect_test::{Expect, expect};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use machine::health::{Action, Check, Next, Snapshot, plan, symptoms_from_config_map};
use serde_json::{Value, json};

use crate::make::{ago, machine, merge, node, now, object};

fn check_object(over: Value) -> MachineHealthCheck {
    let mut value = json!({
        "metadata": {"name": "mhc", "namespace": "ns"},
        "spec": {
            "selector": {"matchLabels": {"role": "w"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}],
        },
    });
    merge(&mut value, over);
    object(value)
}

/// So many machines with nodes, of which the first are sick. `mark` lays something upon the nodes of the sick ones.
struct Fleet {
    machines: Vec<Machine>,
    nodes: Vec<Node>,
}

fn fleet(size: usize, sick: usize, mark: Value, rest: Value) -> Fleet {
    let owner = json!([{"apiVersion": "v1", "kind": "MachineSet", "name": "a", "uid": "u", "controller": true}]);
    let mut fleet = Fleet { machines: Vec::new(), nodes: Vec::new() };
    for index in 0..size {
        fleet.machines.push(machine(json!({
            "metadata": {"name": format!("m{index:02}"), "uid": format!("u{index}"), "labels": {"role": "w"}, "ownerReferences": owner},
            "status": {"phase": "Running", "nodeRef": {"name": format!("n{index:02}")}},
        })));
        let status = if index < sick { "Unknown" } else { "True" };
        let mut value = json!({
            "metadata": {"name": format!("n{index:02}")},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": ago(SignedDuration::from_hours(1))}]},
        });
        merge(&mut value, if index < sick { mark.clone() } else { rest.clone() });
        fleet.nodes.push(node(value));
    }
    fleet
}

impl Fleet {
    fn snapshot(&self, check: &MachineHealthCheck) -> Snapshot {
        let node = |name: &str| Ok(self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)));
        Snapshot::from_objects(check, &self.machines, node, now())
    }
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let plan = plan(snapshot);
    let actions: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::DeleteMachine { name, .. } => Some(format!("delete {name}")),
            Action::AnnotateMachine { name } => Some(format!("power-cycle {name}")),
            Action::RebootNode { node } => Some(format!("reboot {node}")),
            Action::CreateRequest { machine, .. } => Some(format!("request {machine}")),
            Action::DeleteRequest { machine } => Some(format!("take back {machine}")),
            Action::Event(_) => None,
        })
        .collect();
    let next = match plan.next {
        Next::OnChange(waiting) => format!("{waiting}"),
        Next::After(delay, waiting) => format!("after {delay:?}: {waiting}"),
    };
    expected.assert_eq(&format!("{} | {next}", actions.join(", ")));
}

#[test]
fn at_most_a_tenth_is_under_remediation_at_once() {
    check(
        &fleet(30, 5, json!({}), json!({})).snapshot(&check_object(json!({}))),
        expect![
            "delete m00, delete m01, delete m02 | 3 machines are under remediation, the limit is 3; waiting: m03, m04"
        ],
    );
    // One that is on its way out holds its share.
    let mut fleet = fleet(30, 5, json!({}), json!({}));
    for machine in &mut fleet.machines[..2] {
        machine.metadata.deletion_timestamp =
            object::<Machine>(json!({"metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)}}))
                .metadata
                .deletion_timestamp;
    }
    check(
        &fleet.snapshot(&check_object(json!({}))),
        expect!["delete m02 | 3 machines are under remediation, the limit is 3; waiting: m03, m04"],
    );
}

#[test]
fn an_annotation_moves_the_brake_and_the_check_of_spot_machines_has_none() {
    let fleet = fleet(10, 4, json!({}), json!({}));
    let annotated =
        |value: &str| check_object(json!({"metadata": {"annotations": {"machinist.dev/max-remediations": value}}}));
    check(
        &fleet.snapshot(&annotated("30%")),
        expect!["delete m00, delete m01, delete m02 | 3 machines are under remediation, the limit is 3; waiting: m03"],
    );
    check(
        &fleet.snapshot(&annotated("0")),
        expect![[
            r#" | annotation machinist.dev/max-remediations: "0" is neither a number of machines above 0 nor a percentage"#
        ]],
    );
    let spot = check_object(json!({"metadata": {"name": "machine-api-termination-handler"}}));
    check(
        &fleet.snapshot(&spot),
        expect!["delete m00, delete m01, delete m02, delete m03 | machines are being remediated"],
    );
}

#[test]
fn the_built_in_check_replaces_spot_machines_at_their_notice() {
    let mut fleet = fleet(
        3,
        2,
        json!({"status": {"conditions": [{"type": "Terminating", "status": "True", "lastTransitionTime": ago(SignedDuration::from_secs(1))}]}}),
        json!({}),
    );
    for machine in &mut fleet.machines {
        machine
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("machine.openshift.io/interruptible-instance".to_owned(), String::new());
    }
    let built_in = machine::health::termination_check("ns");
    check(&fleet.snapshot(&built_in), expect!["delete m00, delete m01 | machines are being remediated"]);
}

#[test]
fn planned_work_is_not_unhealthy_for_an_hour() {
    let working = json!({
        "metadata": {"annotations": {
            "machineconfiguration.openshift.io/currentConfig": "old",
            "machineconfiguration.openshift.io/desiredConfig": "new",
        }},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": ago(SignedDuration::from_mins(20))}]},
    });
    let fleet_at_work = fleet(3, 1, working.clone(), json!({}));
    let snapshot = fleet_at_work.snapshot(&check_object(json!({"spec": {"maxUnhealthy": 0}})));
    check(&snapshot, expect![" | after 45m 1s: machines are unhealthy or booting and have time left"]);
    assert_eq!(plan(&snapshot).status.current_healthy, Some(3));
    let mut hanging = working;
    hanging["status"]["conditions"][0]["lastTransitionTime"] = json!(ago(SignedDuration::from_mins(70)));
    check(
        &fleet(3, 1, hanging, json!({})).snapshot(&check_object(json!({}))),
        expect!["delete m00 | machines are being remediated"],
    );
}

#[test]
fn sick_machines_that_share_a_new_config_hold_the_check() {
    let runs = |config: &str| {
        let annotation = |key: &str| format!("machineconfiguration.openshift.io/{key}");
        json!({"metadata": {"annotations": {annotation("currentConfig"): config, annotation("desiredConfig"): config}}})
    };
    check(
        &fleet(10, 3, runs("rendered-new"), runs("rendered-old")).snapshot(&check_object(json!({}))),
        expect![" | the unhealthy machines share config rendered-new, which no healthy majority has"],
    );
    // One sick machine is a sick machine, and a config that the healthy ones have too is not the cause.
    check(
        &fleet(10, 1, runs("rendered-new"), runs("rendered-old")).snapshot(&check_object(json!({}))),
        expect!["delete m00 | machines are being remediated"],
    );
    check(
        &fleet(10, 3, runs("rendered-old"), runs("rendered-old")).snapshot(&check_object(json!({}))),
        expect!["delete m00 | 1 machines are under remediation, the limit is 1; waiting: m01, m02"],
    );
}

#[test]
fn a_machine_is_not_judged_by_a_node_that_took_its_nodes_name() {
    let mut fleet = fleet(3, 0, json!({}), json!({}));
    fleet.machines[0].status.as_mut().unwrap().node_ref.as_mut().unwrap().uid = Some("uid-old".to_owned());
    check(&fleet.snapshot(&check_object(json!({}))), expect!["delete m00 | machines are being remediated"]);
}

#[test]
fn a_restriction_is_told_once() {
    let check = check_object(json!({"spec": {"maxUnhealthy": 0}}));
    let fleet = fleet(3, 2, json!({}), json!({}));
    let mut snapshot = fleet.snapshot(&check);
    let first = plan(&snapshot);
    assert_eq!(first.actions.len(), 1);
    snapshot.status = first.status;
    assert!(plan(&snapshot).actions.is_empty());
}

#[test]
fn bad_timeouts_are_named_by_their_field() {
    let parse = |over: Value| Check::from_object(&check_object(over)).unwrap_err().to_string();
    expect![[r#"spec.unhealthyConditions[0].timeout: "5x" is not a duration such as 5m or 1h30m"#]].assert_eq(&parse(
        json!({"spec": {"unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5x"}]}}),
    ));
    expect![[r#"spec.nodeStartupTimeout: "0abc" is not a duration such as 5m or 1h30m"#]]
        .assert_eq(&parse(json!({"spec": {"nodeStartupTimeout": "0abc"}})));
}

#[test]
fn statuses_in_the_config_map_may_lack_their_quotes() {
    let config_map = |text: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {"conditions": text}})).unwrap()
    };
    let read = |text: &str| {
        let symptoms = symptoms_from_config_map(Some(&config_map(text))).map_err(|error| error.to_string());
        symptoms.map(|all| {
            all.into_iter().map(|it| format!("{} {} {:?}", it.type_, it.status, it.timeout)).collect::<Vec<_>>()
        })
    };
    let quoted = "items:\n- name: NetworkUnavailable\n  status: \"True\"\n  timeout: 5m\n";
    let unquoted = "items:\n- name: NetworkUnavailable\n  status: True\n  timeout: 5m\n";
    let lower = "items:\n- name: NetworkUnavailable\n  status: \"true\"\n  timeout: 300s\n";
    for text in [quoted, unquoted, lower] {
        assert_eq!(read(text), Ok(vec!["NetworkUnavailable True 5m".to_owned()]), "{text}");
    }
    assert!(read("items: [{name: A, status: x, timeout: soon}]").unwrap_err().contains("items[0].timeout"));
    assert_eq!(symptoms_from_config_map(None).unwrap().len(), 2);
    let empty: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    assert_eq!(
        symptoms_from_config_map(Some(&empty)).unwrap_err().to_string(),
        "can not find \"conditions\" under the configmap"
    );
}

#[test]
fn a_check_of_2019_replaces_workers_of_sets_only() {
    let legacy: api::healthchecking::MachineHealthCheck = serde_json::from_value(json!({
        "apiVersion": "healthchecking.openshift.io/v1alpha1", "kind": "MachineHealthCheck",
        "metadata": {"name": "old", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"role": "w"}}},
    }))
    .unwrap();
    let check_2019 = Check::from_legacy_object(&legacy, None).map(Option::unwrap);
    let mut fleet = fleet(30, 4, json!({}), json!({}));
    fleet.nodes[0].metadata.labels = Some([("node-role.kubernetes.io/master".to_owned(), String::new())].into());
    fleet.machines[1].metadata.owner_references = None;
    let node = |name: &str| Ok(fleet.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)));
    let snapshot = Snapshot::from_legacy_objects(check_2019, &fleet.machines, node, now());
    check(&snapshot, expect!["delete m02, delete m03 | machines are being remediated"]);
    let everything: api::healthchecking::MachineHealthCheck = serde_json::from_value(json!({
        "apiVersion": "healthchecking.openshift.io/v1alpha1", "kind": "MachineHealthCheck", "metadata": {"name": "all"}, "spec": {"selector": {}},
    }))
    .unwrap();
    assert_eq!(Check::from_legacy_object(&everything, None), Ok(None), "an empty selector chooses nothing");
}

#[test]
fn a_reboot_is_asked_of_the_node_once() {
    let strategy =
        check_object(json!({"metadata": {"annotations": {"healthchecking.openshift.io/strategy": "reboot"}}}));
    check(
        &fleet(3, 1, json!({}), json!({})).snapshot(&strategy),
        expect!["reboot n00 | machines are being remediated"],
    );
    let asked = json!({"metadata": {"annotations": {"healthchecking.openshift.io/machine-remediation-reboot": ""}}});
    check(&fleet(3, 1, asked, json!({})).snapshot(&strategy), expect![" | machines are being remediated"]);
}

#[test]
fn nothing_is_decided_and_no_request_taken_back_when_nodes_cannot_be_listed() {
    let fleet = fleet(3, 2, json!({}), json!({}));
    let template = json!({"apiVersion": "x/v1", "kind": "Template", "name": "t"});
    let external = check_object(json!({
        "spec": {"remediationTemplate": template}, "status": {"expectedMachines": 3, "currentHealthy": 1},
    }));
    for object in [check_object(json!({})), external] {
        let mut snapshot = Snapshot::from_objects(&object, &fleet.machines, |_| Err(()), now());
        snapshot.requests = ["m00".to_owned()].into();
        check(&snapshot, expect![" | after 30s: nodes could not be listed"]);
        assert_eq!(plan(&snapshot).status, object.status.unwrap_or_default());
    }
    let legacy: api::healthchecking::MachineHealthCheck = serde_json::from_value(json!({
        "apiVersion": "healthchecking.openshift.io/v1alpha1", "kind": "MachineHealthCheck",
        "metadata": {"name": "old", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"role": "w"}}},
    }))
    .unwrap();
    let parsed = Check::from_legacy_object(&legacy, None).map(Option::unwrap);
    let snapshot = Snapshot::from_legacy_objects(parsed, &fleet.machines, |_| Err(()), now());
    check(&snapshot, expect![" | after 30s: nodes could not be listed"]);
}
