//! What `kubectl get co machine-config` says.

use api::config::{ClusterOperatorStatus, OperandVersion};
use api::machineconfiguration::MachineConfigPool;
use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use operate::Step;
use operate::status::{Snapshot, plan};
use operate::trouble::{Trouble, Workload};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn pool(name: &str, conditions: &[(&str, &str)], counts: [i32; 4]) -> MachineConfigPool {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, message)| json!({"type": type_, "status": "True", "reason": "because", "message": message}))
        .collect();
    let required = if name == "master" {
        json!({"operator.machineconfiguration.openshift.io/required-for-upgrade": ""})
    } else {
        json!({})
    };
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": required},
        "spec": {"configuration": {"name": format!("rendered-{name}-1")}},
        "status": {
            "machineCount": counts[0], "readyMachineCount": counts[1], "updatedMachineCount": counts[2],
            "unavailableMachineCount": counts[3], "degradedMachineCount": 0, "conditions": conditions,
        },
    }))
    .unwrap()
}

fn workload(ready: i64) -> Workload {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "machine-config-controller", "generation": 1},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": ready, "unavailableReplicas": 1 - ready},
    });
    Workload::from_object(Step::MachineConfigController, &object)
}

/// A cluster that runs version 1 and has nothing to do.
fn settled() -> Snapshot {
    let mut snapshot = Snapshot {
        now: now(),
        namespace: "ns".into(),
        version: "1".into(),
        image: "machinist:1".into(),
        present: ClusterOperatorStatus::default(),
        synced: true,
        troubles: Vec::new(),
        workloads: vec![workload(1)],
        pools: vec![pool("master", &[("Updated", "")], [1, 1, 1, 0]), pool("worker", &[("Updated", "")], [3, 3, 3, 0])],
    };
    snapshot.present = plan(&snapshot);
    snapshot.now = now() + SignedDuration::from_mins(5);
    snapshot
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let status = plan(snapshot);
    let mut lines: Vec<String> = status
        .conditions
        .iter()
        .map(|one| {
            let message = one.message.as_deref().unwrap_or("-");
            format!("{}={} {}: {message}", one.type_, one.status, one.reason.as_deref().unwrap_or("-"))
        })
        .collect();
    let versions: Vec<String> = status.versions.iter().map(|one| format!("{}={}", one.name, one.version)).collect();
    lines.push(versions.join(" "));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_settled_cluster_is_available_and_at_its_version() {
    check(
        &settled(),
        expect![[r#"
            Available=True AsExpected: Cluster has deployed [{operator 1} {operator-image machinist:1}]
            Progressing=False AsExpected: Cluster version is 1
            Degraded=False AsExpected: -
            Upgradeable=True AsExpected: -
            operator=1 operator-image=machinist:1"#]],
    );
}

#[test]
fn times_move_only_with_the_status() {
    let snapshot = settled();
    let status = plan(&snapshot);
    assert!(status.conditions.iter().all(|one| one.last_transition_time.as_ref().unwrap().0 == now()));
    let rolling = Snapshot { pools: vec![pool("worker", &[("Updating", "")], [3, 2, 1, 1])], ..snapshot.clone() };
    let times: Vec<bool> = plan(&rolling)
        .conditions
        .iter()
        .map(|one| one.last_transition_time.as_ref().unwrap().0 == snapshot.now)
        .collect();
    assert_eq!(times, [false, true, false, false]);
}

#[test]
fn a_rollout_is_progress_and_says_how_far_it_is() {
    let pools =
        vec![pool("master", &[("Updated", "")], [1, 1, 1, 0]), pool("worker", &[("Updating", "")], [3, 2, 1, 1])];
    let snapshot = Snapshot { pools, ..settled() };
    check(
        &snapshot,
        expect![[r#"
            Available=True AsExpected: Cluster has deployed [{operator 1} {operator-image machinist:1}]
            Progressing=True PoolsUpdating: pool worker: 1 (ready 2) out of 3 nodes are updating to latest configuration rendered-worker-1
            Degraded=False AsExpected: -
            Upgradeable=True AsExpected: -
            operator=1 operator-image=machinist:1"#]],
    );
    expect![[r#"{"master":"all 1 nodes are at latest configuration rendered-master-1","message":"pool worker: 1 (ready 2) out of 3 nodes are updating to latest configuration rendered-worker-1","worker":"1 (ready 2) out of 3 nodes are updating to latest configuration rendered-worker-1"}"#]]
        .assert_eq(&plan(&snapshot).extension.unwrap().to_string());
}

#[test]
fn a_new_cluster_bootstraps_until_its_processes_run() {
    let snapshot = Snapshot {
        present: ClusterOperatorStatus::default(),
        synced: false,
        workloads: vec![workload(0)],
        pools: Vec::new(),
        ..settled()
    };
    check(
        &snapshot,
        expect![[r#"
            Available=False NotYetDeployed: the objects of machine configuration are being made
            Progressing=True WorkingTowards: Cluster is bootstrapping 1: deployment machine-config-controller is not ready. status: (replicas: 1, updated: 1, ready: 0, unavailable: 1)
            Degraded=False AsExpected: -
            Upgradeable=True AsExpected: -
        "#]],
    );
}

#[test]
fn an_upgrade_keeps_the_old_version_until_the_new_one_runs_and_the_control_plane_follows() {
    let old = vec![OperandVersion { name: "operator".into(), version: "0".into() }];
    let mut snapshot = Snapshot { workloads: vec![workload(0)], ..settled() };
    snapshot.present.versions = old;
    check(
        &snapshot,
        expect![[r#"
            Available=True AsExpected: Cluster has deployed [{operator 0}]
            Progressing=True WorkingTowards: Working towards 1: deployment machine-config-controller is not ready. status: (replicas: 1, updated: 1, ready: 0, unavailable: 1)
            Degraded=False AsExpected: -
            Upgradeable=True AsExpected: -
            operator=0"#]],
    );
    snapshot.workloads = vec![workload(1)];
    snapshot.pools[0] = pool("master", &[("Updating", "")], [3, 2, 1, 1]);
    let message = plan(&snapshot).conditions[1].message.clone().unwrap();
    assert!(message.starts_with("Working towards 1: required MachineConfigPool master is not ready"), "{message}");
}

#[test]
fn a_trouble_is_told_with_its_step_and_does_not_hide_another() {
    let troubles = vec![
        Trouble::new(Step::MachineConfigServer, "Secret ns/b cannot be written"),
        Trouble::new(Step::MachineConfigDaemon, "DaemonSet ns/a cannot be written"),
    ];
    check(
        &Snapshot { troubles, ..settled() },
        expect![[r#"
            Available=True AsExpected: Cluster has deployed [{operator 1} {operator-image machinist:1}]
            Progressing=False AsExpected: Error while reconciling 1
            Degraded=True MachineConfigDaemonFailed: Failed to resync 1 because: DaemonSet ns/a cannot be written; Secret ns/b cannot be written
            Upgradeable=True AsExpected: -
            operator=1 operator-image=machinist:1"#]],
    );
}

#[test]
fn a_degraded_pool_degrades_the_operator_and_a_built_in_one_stops_upgrades() {
    let degraded = &[("Degraded", ""), ("NodeDegraded", "Node a is reporting: \"x\"")];
    let custom = Snapshot { pools: vec![pool("infra", degraded, [2, 1, 1, 1])], ..settled() };
    let status = plan(&custom);
    let find = |type_: &str| status.conditions.iter().find(|one| one.type_ == type_).unwrap();
    assert_eq!(find("Degraded").reason.as_deref(), Some("RequiredPoolsFailed"));
    assert_eq!(find("Upgradeable").status, "True");
    check(
        &Snapshot { pools: vec![pool("worker", degraded, [2, 1, 1, 1])], ..settled() },
        expect![[r#"
            Available=True AsExpected: Cluster has deployed [{operator 1} {operator-image machinist:1}]
            Progressing=False AsExpected: Error while reconciling 1
            Degraded=True RequiredPoolsFailed: Failed to resync 1 because: MachineConfigPool worker is not ready, retrying. Status: (pool degraded: true total: 2, ready 1, updated: 1, unavailable: 1, reason: Node a is reporting: "x")
            Upgradeable=False DegradedPool: One or more machine config pools are degraded, please see `oc get mcp` for further details and resolve before upgrading: worker
            operator=1 operator-image=machinist:1"#]],
    );
}

#[test]
fn a_pool_without_a_config_keeps_nobody_waiting_for_the_version() {
    let mut master = pool("master", &[("Updating", "")], [1, 0, 0, 1]);
    master.spec.configuration = None;
    let snapshot = Snapshot { present: ClusterOperatorStatus::default(), pools: vec![master], ..settled() };
    let versions: Vec<_> = plan(&snapshot).versions.into_iter().map(|one| one.version).collect();
    assert_eq!(versions, ["1", "machinist:1"]);
}

#[test]
fn a_first_installation_has_its_version_while_the_first_rollout_goes_on() {
    let pools = vec![pool("master", &[("Updating", "")], [3, 0, 0, 3])];
    let new = Snapshot { present: ClusterOperatorStatus::default(), pools, ..settled() };
    check(
        &new,
        expect![[r#"
        Available=True AsExpected: Cluster has deployed [{operator 1} {operator-image machinist:1}]
        Progressing=True WorkingTowards: Cluster is bootstrapping 1: required MachineConfigPool master is not ready, retrying. Status: (total: 3, ready 0, updated: 0, unavailable: 3, degraded: 0)
        Degraded=False AsExpected: -
        Upgradeable=True AsExpected: -
        operator=1 operator-image=machinist:1"#]],
    );
    let stuck = Snapshot { workloads: vec![workload(0)], ..new };
    assert_eq!(plan(&stuck).versions, []);
}

#[test]
fn a_config_server_that_runs_nowhere_is_said_to() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "machine-config-server", "generation": 1},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 0, "updatedNumberScheduled": 0, "numberReady": 0},
    });
    let server = Workload::from_object(Step::MachineConfigServer, &object);
    let snapshot = Snapshot { workloads: vec![workload(1), server], ..settled() };
    let available = plan(&snapshot).conditions[0].message.clone().unwrap();
    for words in ["runs on no node", "node-role.kubernetes.io/control-plane", "new machines"] {
        assert!(available.contains(words), "{available}");
    }
    assert_eq!(plan(&snapshot).conditions[2].status, "False", "a cluster that makes no machines is not degraded by it");
}

#[test]
fn the_operator_does_not_repeat_all_that_its_pools_say() {
    let long = "Node a is reporting: \"x\", ".repeat(400);
    let sick =
        |number: usize| pool(&format!("p{number}"), &[("Degraded", &long), ("NodeDegraded", &long)], [9, 0, 0, 9]);
    let snapshot = Snapshot { pools: (0..40).map(sick).collect(), ..settled() };
    let bytes = serde_json::to_vec(&plan(&snapshot)).unwrap().len();
    assert!(bytes < 256 * 1024, "{bytes} bytes");
}
