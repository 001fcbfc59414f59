//! Health checks: what vectors do not cover.

use api::machine::{Machine, MachineHealthCheck, MachineSet};
use expect_test::{Expect, expect};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use machine::health::{Action, Check, Next, Snapshot, Verdict, plan, symptoms_from_config_map};
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
            "delete m00, delete m01, delete m02 | 3 machines are under remediation or not replaced yet, the limit is 3; waiting: m03, m04"
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
        expect!["delete m02 | 3 machines are under remediation or not replaced yet, the limit is 3; waiting: m03, m04"],
    );
}

/// The set of a fleet, wanting so many machines.
fn set(replicas: usize) -> MachineSet {
    object(json!({
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"role": "w"}}}},
    }))
}

/// Machines of a fleet lose their nodes, as if they had been made a minute ago.
fn boot_anew(fleet: &mut Fleet, which: std::ops::Range<usize>) {
    for machine in &mut fleet.machines[which] {
        let name = machine.metadata.name.clone().unwrap();
        *machine = self::machine(json!({
            "metadata": {
                "name": name, "uid": format!("{name}-new"), "labels": {"role": "w"},
                "creationTimestamp": ago(SignedDuration::from_mins(1)),
                "ownerReferences": machine.metadata.owner_references,
            },
            "status": {"phase": "Provisioned"},
        }));
    }
}

/// `strength` is what earlier plans have seen of the set.
fn with_set(fleet: &Fleet, replicas: usize, strength: Option<usize>) -> Snapshot {
    let strength = strength.map(|seen| [("a".to_owned(), seen)].into());
    let snapshot = fleet.snapshot(&check_object(json!({})));
    Snapshot { strength, ..snapshot }.with_sets([&set(replicas)], &fleet.machines)
}

#[test]
fn replacements_that_have_not_joined_count_for_the_brake() {
    let waiting = "3 machines are under remediation or not replaced yet, the limit is 3; waiting: m00, m01";
    let waits = |snapshot: &Snapshot| {
        let plan = plan(snapshot);
        let (Next::OnChange(waiting) | Next::After(_, waiting)) = &plan.next;
        assert!(
            !plan.actions.iter().any(|action| matches!(action, Action::DeleteMachine { .. })),
            "{:?}",
            plan.actions
        );
        waiting.to_string()
    };
    let mut booting = fleet(30, 2, json!({}), json!({}));
    boot_anew(&mut booting, 27..30);
    assert_eq!(waits(&with_set(&booting, 30, Some(30))), waiting, "they boot");
    assert_eq!(waits(&with_set(&booting, 30, None)), waiting, "a process that starts anew knows no better");
    // Neither their set nor the watch has got that far.
    let mut gone = fleet(27, 2, json!({}), json!({}));
    assert_eq!(waits(&with_set(&gone, 30, Some(30))), waiting.replace("the limit is 3", "the limit is 2"));
    // All have joined, and the set is as strong as before.
    check(
        &with_set(&fleet(30, 2, json!({}), json!({})), 30, Some(30)),
        expect!["delete m00, delete m01 | machines are being remediated"],
    );
    // Nobody wants the missing ones any more.
    check(&with_set(&gone, 27, Some(30)), expect!["delete m00, delete m01 | machines are being remediated"]);
    // A set that never was larger lacks nothing: it grows.
    check(&with_set(&gone, 40, Some(27)), expect!["delete m00, delete m01 | machines are being remediated"]);
    boot_anew(&mut gone, 20..27);
    check(
        &with_set(&gone, 40, Some(20)),
        expect!["delete m00, delete m01 | after 9m 1ms: machines are being remediated"],
    );
    assert_eq!(plan(&with_set(&gone, 40, Some(20))).strength, Some([("a".to_owned(), 20)].into()));
}

#[test]
fn a_replacement_that_never_joins_is_replaced_in_its_own_place() {
    let mut fleet = fleet(10, 1, json!({}), json!({}));
    boot_anew(&mut fleet, 5..6);
    let startup = json!({"spec": {"nodeStartupTimeout": "30s"}});
    let snapshot = fleet.snapshot(&check_object(startup));
    let snapshot = Snapshot { strength: Some([("a".to_owned(), 10)].into()), ..snapshot };
    // It is one of the limit's one, and nobody else goes while its place is empty.
    check(
        &snapshot.with_sets([&set(10)], &fleet.machines),
        expect!["delete m05 | 1 machines are under remediation or not replaced yet, the limit is 1; waiting: m00"],
    );
}

#[test]
fn a_set_that_the_cloud_has_nothing_for_holds_its_own_machines_only() {
    let mut fleet = fleet(10, 2, json!({}), json!({}));
    for (index, name) in [(1, "b"), (5, "b"), (6, "b"), (7, "c"), (8, "c"), (9, "c")] {
        fleet.machines[index].metadata.owner_references.as_mut().unwrap()[0].name = name.to_owned();
    }
    boot_anew(&mut fleet, 4..5);
    let named = |name: &str, replicas: usize| {
        let mut set = set(replicas);
        set.metadata.name = Some(name.to_owned());
        set
    };
    let sets = [set(4), named("b", 3), named("c", 3)];
    let snapshot = |fleet: &Fleet| {
        let strength = [("a", 4), ("b", 3), ("c", 3)].map(|(name, seen)| (name.to_owned(), seen));
        let snapshot = Snapshot { strength: Some(strength.into()), ..fleet.snapshot(&check_object(json!({}))) };
        snapshot.with_sets(&sets, &fleet.machines)
    };
    check(
        &snapshot(&fleet),
        expect![
            " | after 9m 1ms: 1 machines are under remediation or not replaced yet, the limit is 1; waiting: m00, m01"
        ],
    );
    let starved = json!([{"type": "InstanceCreated", "status": "False", "reason": "NoCapacity", "lastTransitionTime": ago(SignedDuration::ZERO)}]);
    fleet.machines[4].status.as_mut().unwrap().conditions = serde_json::from_value(starved).unwrap();
    check(
        &snapshot(&fleet),
        expect![
            "delete m01 | after 9m 1ms: the provider has nothing to replace what their sets lost before; waiting: m00"
        ],
    );
    // One of another set is on its way out: the brake is as tight as ever.
    fleet.machines[9].metadata.deletion_timestamp =
        object::<Machine>(json!({"metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)}}))
            .metadata
            .deletion_timestamp;
    check(
        &snapshot(&fleet),
        expect![" | after 9m 1ms: 1 machines are under remediation or not replaced yet, the limit is 1; waiting: m01"],
    );
}

#[test]
fn a_hundred_unreachable_nodes_are_not_taken_away_before_replacements_join() {
    let mut fleet = fleet(100, 100, json!({}), json!({}));
    let (mut strength, mut taken) = (None, 0);
    for _ in 0..20 {
        let snapshot = Snapshot { strength, ..fleet.snapshot(&check_object(json!({}))) };
        let snapshot = snapshot.with_sets([&set(100)], &fleet.machines);
        let plan = plan(&snapshot);
        for action in &plan.actions {
            let Action::DeleteMachine { name, .. } = action else { continue };
            // A fast cloud: the machine is gone at once, and its replacement boots.
            let at = fleet.machines.iter().position(|it| it.metadata.name.as_ref() == Some(name)).unwrap();
            boot_anew(&mut fleet, at..at + 1);
            taken += 1;
        }
        strength = plan.strength;
    }
    assert_eq!(taken, 10, "a tenth, until one of them joins");
}

#[test]
fn an_annotation_moves_the_brake_and_the_check_of_spot_machines_has_none() {
    let fleet = fleet(10, 4, json!({}), json!({}));
    let annotated =
        |value: &str| check_object(json!({"metadata": {"annotations": {"machinist.dev/max-remediations": value}}}));
    check(
        &fleet.snapshot(&annotated("30%")),
        expect![
            "delete m00, delete m01, delete m02 | 3 machines are under remediation or not replaced yet, the limit is 3; waiting: m03"
        ],
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
    check(&snapshot, expect![" | after 45m 1ms: machines are unhealthy or booting and have time left"]);
    assert_eq!(plan(&snapshot).status.current_healthy, Some(3));
    let mut hanging = working;
    hanging["status"]["conditions"][0]["lastTransitionTime"] = json!(ago(SignedDuration::from_mins(70)));
    check(
        &fleet(3, 1, hanging, json!({})).snapshot(&check_object(json!({}))),
        expect!["delete m00 | machines are being remediated"],
    );
}

fn runs(config: &str) -> Value {
    let annotation = |key: &str| format!("machineconfiguration.openshift.io/{key}");
    json!({"metadata": {"annotations": {annotation("currentConfig"): config, annotation("desiredConfig"): config}}})
}

#[test]
fn sick_machines_that_share_a_new_config_hold_the_check() {
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
        expect!["delete m00 | 1 machines are under remediation or not replaced yet, the limit is 1; waiting: m01, m02"],
    );
}

#[test]
fn a_machine_is_not_judged_by_a_node_that_took_its_nodes_name() {
    let mut fleet = fleet(3, 0, json!({}), json!({}));
    fleet.machines[0].status.as_mut().unwrap().node_ref.as_mut().unwrap().uid = Some("uid-old".to_owned());
    check(&fleet.snapshot(&check_object(json!({}))), expect!["delete m00 | machines are being remediated"]);
}

#[test]
fn one_sick_machine_on_the_old_config_is_replaced_while_those_on_the_new_one_wait() {
    let mut fleet = fleet(30, 3, runs("rendered-w-new"), runs("rendered-w-old"));
    let sick =
        json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": ago(SignedDuration::from_hours(1))}]);
    fleet.nodes[20].status.as_mut().unwrap().conditions = serde_json::from_value(sick).unwrap();
    let snapshot = fleet.snapshot(&check_object(json!({})));
    check(
        &snapshot,
        expect!["delete m20 | the unhealthy machines share config rendered-w-new, which no healthy majority has"],
    );
    let told = plan(&snapshot).status.conditions.remove(0);
    assert_eq!((told.status.as_str(), told.reason.as_deref()), ("True", Some("SharedChange")));
    assert!(told.message.unwrap().starts_with("Remediation of m00, m01, m02 is not allowed"));
}

#[test]
fn a_small_pool_that_lost_its_power_is_not_held_because_another_pool_is_well() {
    check(
        &fleet(30, 2, runs("rendered-infra-1"), runs("rendered-worker-1")).snapshot(&check_object(json!({}))),
        expect!["delete m00, delete m01 | machines are being remediated"],
    );
    // Nor a zone: the specs of two sets differ always, those of one set when it was edited.
    let mut zones = fleet(30, 2, json!({}), json!({}));
    for machine in &mut zones.machines[..2] {
        machine.spec.provider_spec.as_mut().unwrap().value = Some(json!({"zone": "b"}));
    }
    check(
        &zones.snapshot(&check_object(json!({}))),
        expect![" | the unhealthy machines share a provider spec, which no healthy majority has"],
    );
    for machine in &mut zones.machines[..2] {
        machine.metadata.owner_references.as_mut().unwrap()[0].name = "b".to_owned();
    }
    check(&zones.snapshot(&check_object(json!({}))), expect!["delete m00, delete m01 | machines are being remediated"]);
}

#[test]
fn a_suspect_is_announced_once_and_a_wrong_clock_deletes_nothing() {
    let check = check_object(json!({}));
    // The kubelet's clock is a day behind.
    let sick =
        json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": ago(SignedDuration::from_hours(24))}]);
    let fleet = fleet(3, 1, json!({"status": {"conditions": sick}}), json!({}));
    let mut snapshot = Snapshot { suspected: Some(Default::default()), ..fleet.snapshot(&check) };
    let first = plan(&snapshot);
    assert_eq!(first.verdicts[0].1, Verdict::Suspect(SignedDuration::from_millis(300_001)));
    assert_eq!(first.actions.len(), 1, "{:?}", first.actions);
    snapshot.suspected = Some(first.suspected(&snapshot));
    snapshot.now = now() + SignedDuration::from_secs(1);
    let second = plan(&snapshot);
    assert!(second.actions.is_empty(), "{:?}", second.actions);
    snapshot.suspected = Some(second.suspected(&snapshot));
    snapshot.now = now() + SignedDuration::from_secs(301);
    assert!(plan(&snapshot).verdicts[0].1.needs_remediation());
}

#[test]
fn the_time_to_join_counts_from_the_creation_of_the_instance() {
    let fleet = fleet(3, 0, json!({}), json!({}));
    let booting = |status: Value| {
        let mut fleet = Fleet { machines: fleet.machines.clone(), nodes: fleet.nodes.clone() };
        fleet.machines[0].status = Some(serde_json::from_value(status).unwrap());
        plan(&fleet.snapshot(&check_object(json!({})))).verdicts.remove(0).1
    };
    let exists = |since| json!([{"type": "InstanceExists", "status": "True", "lastTransitionTime": ago(since)}]);
    let recently = ago(SignedDuration::from_secs(1));
    let old =
        json!({"phase": "Provisioned", "lastUpdated": recently, "conditions": exists(SignedDuration::from_hours(1))});
    assert!(booting(old).needs_remediation());
    let young = json!({"phase": "Provisioned", "conditions": exists(SignedDuration::from_mins(1))});
    assert_eq!(booting(young), Verdict::Booting(Some(SignedDuration::from_millis(540_001))));
    // Without anything else the age of the Machine counts.
    assert!(booting(json!({"phase": "Provisioned"})).needs_remediation());
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
    expect![[r#"spec.nodeStartupTimeout: "-5m" is not a duration such as 5m or 1h30m"#]]
        .assert_eq(&parse(json!({"spec": {"nodeStartupTimeout": "-5m"}})));
    let negative = json!([{"type": "Ready", "status": "False", "timeout": "-1s"}]);
    assert!(
        parse(json!({"spec": {"unhealthyConditions": negative}})).starts_with("spec.unhealthyConditions[0].timeout")
    );
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
    assert!(read("items: [{name: A, status: x, timeout: -5m}]").unwrap_err().contains("items[0].timeout"));
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
    check(&fleet(3, 1, asked.clone(), json!({})).snapshot(&strategy), expect![" | machines are being remediated"]);
    // A request that is still on a node that is well again takes no share of the brake.
    check(&fleet(3, 1, json!({}), asked).snapshot(&strategy), expect!["reboot n00 | machines are being remediated"]);
}

#[test]
fn machines_on_their_way_out_are_asked_for_nothing_more() {
    let mut fleet = fleet(3, 1, json!({}), json!({}));
    let leaving = machine(json!({"metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)}}));
    fleet.machines[0].metadata.deletion_timestamp = leaving.metadata.deletion_timestamp;
    let template = json!({"spec": {"remediationTemplate": {"apiVersion": "x/v1", "kind": "Template", "name": "t"}}});
    let metal =
        json!({"metadata": {"annotations": {"machine.openshift.io/remediation-strategy": "external-baremetal"}}});
    for over in [template, metal] {
        check(&fleet.snapshot(&check_object(over)), expect![" | machines are being remediated"]);
    }
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

#[test]
fn a_machine_without_a_node_is_watched_for_a_minute_before_it_is_replaced() {
    let mut fleet = fleet(3, 0, json!({}), json!({}));
    fleet.nodes.remove(0);
    let status = fleet.machines[1].status.as_mut().unwrap();
    status.node_ref = None;
    status.last_updated =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now() - SignedDuration::from_hours(1)));
    let first = Snapshot { suspected: Some(Default::default()), ..fleet.snapshot(&check_object(json!({}))) };
    let deletes = |snapshot: &Snapshot| {
        plan(snapshot).actions.iter().any(|action| matches!(action, Action::DeleteMachine { .. }))
    };
    assert!(!deletes(&first), "the links may only not be written yet");
    let watched = plan(&first).suspected(&first);
    assert_eq!(watched.keys().collect::<Vec<_>>(), ["m00 without n00", "m01"]);
    let later = Snapshot { suspected: Some(watched), now: now() + SignedDuration::from_secs(61), ..first };
    assert!(deletes(&later));
}

#[test]
fn a_machine_is_deleted_only_as_it_was_judged() {
    let mut fleet = fleet(10, 1, json!({}), json!({}));
    fleet.machines[0].metadata.resource_version = Some("7".to_owned());
    let plan = plan(&fleet.snapshot(&check_object(json!({}))));
    let deletes = plan.actions.iter().filter_map(|action| match action {
        Action::DeleteMachine { resource_version, .. } => Some(resource_version.as_deref()),
        _ => None,
    });
    assert_eq!(deletes.collect::<Vec<_>>(), [Some("7")], "it may be linked to another node by now");
}

#[test]
fn a_request_that_cannot_be_made_is_told_until_none_is_refused_any_more() {
    let mut status = api::machine::MachineHealthCheckStatus::default();
    let told = |status: &api::machine::MachineHealthCheckStatus| {
        let find = |it: &&api::machine::MachineCondition| it.type_ == "ExternalRemediationRequestAvailable";
        status.conditions.iter().find(find).map(|it| it.message.clone().unwrap())
    };
    let refused = [("m1".to_owned(), "forbidden".to_owned()), ("m2".to_owned(), "forbidden".to_owned())];
    machine::health::report_requests(&mut status, &refused, true, now());
    assert_eq!(
        told(&status).as_deref(),
        Some("a remediation request for machine m1 cannot be made: forbidden, nor for 1 more")
    );
    machine::health::report_requests(&mut status, &[], false, now());
    assert!(told(&status).is_some(), "nothing was tried");
    machine::health::report_requests(&mut status, &[], true, now());
    assert_eq!(told(&status), None);
}
