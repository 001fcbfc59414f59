//! `doctor`: each failure that users told of is found, and none where nothing is wrong.

use expect_test::{Expect, expect};
use explain::{Member, Standstill};
use serde_json::json;

use crate::{World, ago, now};

#[track_caller]
fn check(world: &World, expected: &Expect) {
    let findings = explain::doctor(&world.snapshot());
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{:?} {} {}: {}\n", finding.severity, finding.id, finding.subject, finding.problem));
        if let Some(fix) = finding.fix {
            text.push_str(&format!("  fix: {} ({:?})\n", fix.what, fix.repair));
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let world = World::new()
        .node("a", "b", "b", "Done", &[])
        .node("b", "a", "b", "Working", &[])
        .ledger(&json!({"claims": [{"node": "b", "config": "rendered-worker-b", "since": ago(1)}]}));
    check(&world, &expect![[""]]);
}

#[test]
fn a_rendered_config_deleted_while_in_use() {
    let mut world = World::new().node("a", "b", "b", "Done", &[]);
    world.0.configs = world.0.configs.map(|mut configs| {
        configs.retain(|config| config.metadata.name.as_deref() != Some("rendered-worker-b"));
        configs
    });
    check(
        &world,
        &expect![[r#"
        Problem rendered-config-deleted machineconfig/rendered-worker-b: the rendered config rendered-worker-b was deleted while in use: pool worker and the nodes a refer to it
    "#]],
    );
    let archive = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "RenderedProvenance", "metadata": {"name": "rendered-worker-b"},
        "spec": {"pool": "worker", "archive": {"encoding": "gzip", "data": ""}}});
    world.0.provenances.push(serde_json::from_value(archive).unwrap());
    check(
        &world,
        &expect![[r#"
        Problem rendered-config-deleted machineconfig/rendered-worker-b: the rendered config rendered-worker-b was deleted while in use: pool worker and the nodes a refer to it
          fix: make rendered-worker-b again from its archive (RestoreConfig { name: "rendered-worker-b" })
    "#]],
    );
}

#[test]
fn a_pool_stuck_after_a_bad_change() {
    let reason = ("machineconfiguration.openshift.io/reason", "unit app.service does not start");
    let mut world = World::new().node("a", "a", "b", "Degraded", &[reason]);
    let archive = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "RenderedProvenance", "metadata": {"name": "rendered-worker-a"},
        "spec": {"pool": "worker", "archive": {"encoding": "gzip", "data": ""}}});
    world.0.provenances.push(serde_json::from_value(archive).unwrap());
    check(
        &world,
        &expect![[r#"
        Problem pool-stuck-after-change machineconfigpool/worker: pool worker is stuck after a change to rendered-worker-b: node a says: unit app.service does not start
          fix: roll pool worker back to rendered-worker-a (Rollback { pool: "worker" })
    "#]],
    );
}

#[test]
fn a_node_on_which_nobody_is_working() {
    let world = World::new()
        .node("a", "a", "b", "Done", &[])
        .ledger(&json!({"claims": [{"node": "a", "config": "rendered-worker-b", "since": ago(10)}]}));
    check(
        &world,
        &expect![[r#"
        Problem nobody-is-working node/a: node a shall reach rendered-worker-b from rendered-worker-a, and nobody is working on it: its daemon does not answer
    "#]],
    );
    let mut world = world;
    let pod = json!({"metadata": {"name": "machine-config-daemon-x", "labels": {"k8s-app": "machine-config-daemon"}},
        "spec": {"nodeName": "a", "containers": []}});
    world.0.pods.push(serde_json::from_value(pod).unwrap());
    check(
        &world,
        &expect![[r#"
        Problem nobody-is-working node/a: node a shall reach rendered-worker-b from rendered-worker-a, and nobody is working on it: its daemon does not answer
          fix: restart pod machine-config-daemon-x, the daemon of node a (RestartPod { namespace: "openshift-machine-config-operator", pod: "machine-config-daemon-x" })
    "#]],
    );
}

#[test]
fn a_content_mismatch_on_disk() {
    let reason = (
        "machineconfiguration.openshift.io/reason",
        "unexpected on-disk state validating against rendered-worker-b: content mismatch for file \"/etc/motd\"",
    );
    let world = World::new().node("a", "b", "b", "Degraded", &[reason]);
    check(
        &world,
        &expect![[r#"
        Problem content-mismatch node/a: node a is not what it says it is: unexpected on-disk state validating against rendered-worker-b: content mismatch for file "/etc/motd"
          fix: write the files of rendered-worker-b anew on node a (AnnotateNode { node: "a", key: "machinist.dev/force", value: "rendered-worker-b" })
    "#]],
    );
}

#[test]
fn nodes_in_two_pools_or_none() {
    let both = Member::Contested(vec!["infra".to_owned(), "edge".to_owned()]);
    let world =
        World::new().node_of("a", both, "b", "b", "Done", &[]).node_of("b", Member::Unmanaged, "b", "b", "Done", &[]);
    check(
        &world,
        &expect![[r#"
        Problem node-in-two-pools node/a: node a: the pools infra and edge both want it, so it follows neither
        Warning node-in-no-pool node/b: node b: no pool's nodeSelector matches its labels, so nothing changes it
    "#]],
    );
}

fn certificate(world: &mut World, days: i64) {
    let end = now() + jiff::SignedDuration::from_hours(24 * days);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig", "metadata": {"name": "machine-config-controller"},
        "status": {"controllerCertificates": [{"bundleFile": "KubeAPIServerServingCAData", "subject": "CN=kube-apiserver", "signer": "", "notAfter": end}]}});
    let mut config = config;
    config["spec"] = serde_json::to_value(api::machineconfiguration::ControllerConfigSpec::default()).unwrap();
    world.0.controller_configs = vec![serde_json::from_value(config).unwrap()];
}

#[test]
fn a_pause_is_told_when_it_keeps_a_change_from_nodes_and_never_blamed_for_certificates() {
    let paused = |node: &str| {
        World::new().standstill(Standstill::Paused).node("a", node, node, "Done", &[]).pool(|pool| {
            pool["spec"]["paused"] = json!(true);
        })
    };
    check(&paused("b"), &expect![[""]]);
    check(
        &paused("a"),
        &expect![[r#"
        Warning pool-paused machineconfigpool/worker: pool worker has been paused; 1 of its nodes wait for rendered-worker-b
          fix: unpause pool worker (Unpause { pool: "worker" })
    "#]],
    );
    let mut world = paused("b");
    certificate(&mut world, 3);
    check(
        &world,
        &expect![[r#"
        Warning certificate-expired certificate/KubeAPIServerServingCAData: certificate CN=kube-apiserver of KubeAPIServerServingCAData ends on 2026-03-04 at 12:00 UTC
    "#]],
    );
}

#[test]
fn a_certificate_that_has_expired() {
    let mut world = World::new().node("a", "b", "b", "Done", &[]);
    certificate(&mut world, -1);
    check(
        &world,
        &expect![[r#"
        Problem certificate-expired certificate/KubeAPIServerServingCAData: certificate CN=kube-apiserver of KubeAPIServerServingCAData ended on 2026-02-28 at 12:00 UTC
    "#]],
    );
}

#[test]
fn a_drain_held_by_a_budget() {
    let asked = ("machineconfiguration.openshift.io/desiredDrain", "drain-rendered-worker-b");
    let world =
        World::new().blocked("a").node("a", "a", "b", "Working", &[asked, ("machinist.dev/drain-started", &ago(70))]);
    check(
        &world,
        &expect![[r#"
        Problem drain-held-by-budget node/a: the drain of node a is held for 1h10m: pod shop/web-1 is kept by disruption budget web
    "#]],
    );
}

#[test]
fn a_kubelet_config_with_a_dangling_finalizer() {
    let mut world = World::new().node("a", "b", "b", "Done", &[]);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
        "metadata": {"name": "more-pods", "deletionTimestamp": ago(30), "finalizers": ["99-worker-generated-kubelet", "00-worker"]}, "spec": {}});
    world.0.kubelet_configs.push(serde_json::from_value(config).unwrap());
    check(
        &world,
        &expect![[r#"
        Problem dangling-finalizer kubeletconfig/more-pods: kubeletconfig more-pods has been going away for 30m: its finalizers 99-worker-generated-kubelet stand for MachineConfigs that do not exist
          fix: take the finalizers 99-worker-generated-kubelet off kubeletconfig more-pods (RemoveFinalizers { kind: "kubeletconfig", name: "more-pods", finalizers: ["99-worker-generated-kubelet"] })
    "#]],
    );
}

#[test]
fn what_could_not_be_listed_is_not_called_deleted_and_no_finalizer_is_offered_for_removal() {
    let mut world = World::new().node("a", "b", "b", "Done", &[]);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
        "metadata": {"name": "more-pods", "deletionTimestamp": ago(30), "finalizers": ["99-worker-generated-kubelet"]}, "spec": {}});
    world.0.kubelet_configs.push(serde_json::from_value(config).unwrap());
    world.0.configs = api::known::Reading::Unknown("the API answered 503".to_owned());
    check(&world, &expect![[""]]);
}

#[test]
fn a_deployment_scaled_to_zero() {
    let mut world = World::new().node("a", "b", "b", "Done", &[]);
    let deployment = |replicas: i32, available: i32| {
        serde_json::from_value(json!({
            "metadata": {"name": "machine-config-operator", "namespace": "openshift-machine-config-operator"},
            "spec": {"replicas": replicas, "selector": {}, "template": {}}, "status": {"availableReplicas": available},
        }))
        .unwrap()
    };
    world.0.deployments = vec![deployment(0, 0)];
    check(
        &world,
        &expect![[r#"
        Problem scaled-to-zero deployment/machine-config-operator: deployment machine-config-operator in openshift-machine-config-operator is scaled to 0, so nobody does its work
          fix: scale deployment machine-config-operator to 1 (Scale { namespace: "openshift-machine-config-operator", deployment: "machine-config-operator" })
    "#]],
    );
    world.0.deployments = vec![deployment(1, 0)];
    check(
        &world,
        &expect![[r#"
        Problem not-running deployment/machine-config-operator: no pod of deployment machine-config-operator in openshift-machine-config-operator is available
    "#]],
    );
    world.0.deployments = vec![deployment(1, 1)];
    check(&world, &expect![[""]]);
}

#[test]
fn a_node_that_a_person_holds_back_is_told_while_its_pool_wants_something_else() {
    let held = |current: &str| {
        World::new().node("a", current, current, "Done", &[("machinist.dev/hold", "rendered-worker-a by kubectl-edit")])
    };
    check(
        &held("a"),
        &expect![[r#"
        Warning node-held node/a: a person holds node a on rendered-worker-a: rendered-worker-a by kubectl-edit
    "#]],
    );
    check(&held("b"), &expect![[""]]);
}
