//! `why`: state, since when, waiting for what, and the command that moves it.

use api::known::Reading;
use expect_test::{Expect, expect};
use explain::{Explanation, Member, Standstill};
use serde_json::json;

use crate::{World, ago, now};

pub(crate) fn said(it: &Explanation) -> String {
    let since = it.since.map(|since| format!(" for {}", explain::ago(since, now()))).unwrap_or_default();
    let mut text = format!("{}{since}: {}\n", it.state, it.summary);
    for what in &it.waiting_for {
        text.push_str(&format!("waits for {what}\n"));
    }
    for step in &it.moves {
        text.push_str(&format!("{}: {}\n", step.what, step.command));
    }
    text
}

#[track_caller]
fn node(world: &World, name: &str, expected: &Expect) {
    expected.assert_eq(&said(&explain::node(&world.snapshot(), name).unwrap()));
}

#[track_caller]
fn pool(world: &World, expected: &Expect) {
    expected.assert_eq(&said(&explain::pool(&world.snapshot(), "worker").unwrap()));
}

#[test]
fn a_node_that_has_what_it_should_waits_for_nothing() {
    let world = World::new().node("a", "b", "b", "Done", &[]);
    node(
        &world,
        "a",
        &expect![[r#"
        Updated: it runs rendered-worker-b, as it should
    "#]],
    );
    pool(
        &world,
        &expect![[r#"
        Updated: every node has rendered-worker-b
    "#]],
    );
}

#[test]
fn a_node_before_its_turn_says_who_has_the_place() {
    let world = World::new()
        .node("a", "a", "b", "Working", &[])
        .node("b", "a", "a", "Done", &[])
        .ledger(&json!({"target": {"config": "rendered-worker-b", "since": ago(4)},
            "claims": [{"node": "a", "config": "rendered-worker-b", "since": ago(3)}]}));
    node(
        &world,
        "b",
        &expect![[r#"
        Waiting for 4m: it runs what it ran before, and shall get rendered-worker-b in its turn
        waits for its turn: 1 of 1 places are taken by a
        see what the pool waits for: machinist why pool worker
    "#]],
    );
    node(
        &world,
        "a",
        &expect![[r#"
        Updating for 3m: it changes to rendered-worker-b
        waits for its daemon to finish
    "#]],
    );
    pool(
        &world,
        &expect![[r#"
        Updating: 0 of 2 nodes have rendered-worker-b
        waits for node a: its daemon to finish
    "#]],
    );
}

#[test]
fn a_drain_that_a_budget_holds_names_pod_budget_and_owner() {
    let world = World::new().blocked("a").node(
        "a",
        "a",
        "b",
        "Working",
        &[
            ("machineconfiguration.openshift.io/desiredDrain", "drain-rendered-worker-b"),
            ("machinist.dev/drain-started", &ago(12)),
        ],
    );
    node(
        &world,
        "a",
        &expect![[r#"
        Blocked for 12m: it cannot be emptied for 12m: pod shop/web-1 is kept by disruption budget web
        waits for pod shop/web-1 is kept by disruption budget web
        run one more of them, so that one may go: kubectl -n shop scale deploy/web --replicas=4
        see what the budget asks: kubectl -n shop describe pdb web
        stop the pod whatever its budget says: kubectl -n shop delete pod web-1
    "#]],
    );
    pool(
        &world,
        &expect![[r#"
        Blocked: 0 of 1 nodes have rendered-worker-b
        waits for node a: pod shop/web-1 is kept by disruption budget web
        see why a does not move: machinist why node a
    "#]],
    );
}

#[test]
fn a_failed_node_says_its_reason_and_the_way_back() {
    let reason = ("machineconfiguration.openshift.io/reason", "unit app.service does not start");
    let world = World::new().node("a", "a", "b", "Degraded", &[reason]);
    node(
        &world,
        "a",
        &expect![[r#"
        Degraded: unit app.service does not start
        waits for a config that works here
        see what changed: machinist diff rendered-worker-a rendered-worker-b
        go back to the last config that worked: machinist rollback worker
        try again although a check refuses it: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
    "#]],
    );
}

#[test]
fn a_trial_that_was_reverted_asks_a_person() {
    let reverted = Standstill::TrialReverted { config: "rendered-worker-b".to_owned(), node: "a".to_owned() };
    let world = World::new()
        .standstill(reverted)
        .node("a", "a", "a", "Done", &[])
        .ledger(&json!({"held": [{"config": "rendered-worker-b", "node": "a", "reason": "kubelet is not healthy"}]}));
    pool(
        &world,
        &expect![[r#"
            Blocked: 0 of 1 nodes have rendered-worker-b
            waits for a person: a tried rendered-worker-b and went back: kubelet is not healthy
            waits for node a: a person: a tried rendered-worker-b and went back, so no other node gets it
            go back to the last config that worked: machinist rollback worker
            let it be tried once more: kubectl annotate mcp worker machinist.dev/approve=rendered-worker-b --overwrite
            see why a does not move: machinist why node a
        "#]],
    );
}

#[test]
fn a_paused_pool_says_who_paused_it_and_since_when() {
    let fields = json!([{"manager": "kubectl-patch", "operation": "Update", "apiVersion": "v1", "time": ago(90),
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}}}]);
    let world = World::new().standstill(Standstill::Paused).node("a", "a", "a", "Done", &[]).pool(|pool| {
        pool["spec"]["paused"] = json!(true);
        pool["metadata"]["managedFields"] = fields;
    });
    pool(
        &world,
        &expect![[r#"
        Paused for 1h30m: 0 of 1 nodes have rendered-worker-b
        waits for the pause to end, set by kubectl-patch
        go on: kubectl patch mcp worker --type merge -p '{"spec":{"paused":false}}'
    "#]],
    );
    node(
        &world,
        "a",
        &expect![[r#"
        Paused: it runs what it ran before, and shall get rendered-worker-b in its turn
        waits for its pool, which is paused
        go on: kubectl patch mcp worker --type merge -p '{"spec":{"paused":false}}'
    "#]],
    );
}

#[test]
fn a_pause_that_says_more_is_repeated_in_full() {
    let world = World::new().standstill(Standstill::Paused).node("a", "a", "a", "Done", &[]).pool(|pool| {
        pool["spec"]["paused"] = json!(true);
        pool["metadata"]["annotations"] = json!({
            "machinist.dev/pause-by": "anna", "machinist.dev/pause-reason": "a new kernel",
            "machinist.dev/pause-until": "2030-01-01T00:00:00Z",
        });
    });
    pool(
        &world,
        &expect![[r#"
        Paused: 0 of 1 nodes have rendered-worker-b
        waits for the pause to end, set by anna until 2030-01-01T00:00:00Z: a new kernel
        go on: kubectl patch mcp worker --type merge -p '{"spec":{"paused":false}}'
    "#]],
    );
}

#[test]
fn nodes_of_two_pools_and_of_none_are_told_apart() {
    let both = Member::Contested(vec!["infra".to_owned(), "edge".to_owned()]);
    let world =
        World::new().node_of("a", both, "a", "a", "Done", &[]).node_of("b", Member::Unmanaged, "a", "a", "Done", &[]);
    node(
        &world,
        "a",
        &expect![[r#"
        Blocked: the pools infra and edge both want it, so it follows neither
        waits for labels that only one custom pool selects
        take it out of infra: kubectl label node a node-role.kubernetes.io/infra-
        take it out of edge: kubectl label node a node-role.kubernetes.io/edge-
    "#]],
    );
    node(
        &world,
        "b",
        &expect![[r#"
        Unmanaged: no pool's nodeSelector matches its labels, so nothing changes it
        waits for a label that a pool selects
        put it into the worker pool: kubectl label node b node-role.kubernetes.io/worker=
    "#]],
    );
}

#[test]
fn a_held_node_says_who_would_let_it_go() {
    let world = World::new().node("a", "a", "a", "Done", &[("machinist.dev/hold", "database migration")]);
    node(
        &world,
        "a",
        &expect![[r#"
        Paused: a person holds it where it is: database migration
        waits for the hold to be taken off
        let it go: kubectl annotate node a machinist.dev/hold-
    "#]],
    );
}

#[test]
fn a_missing_controller_is_named_and_not_the_budget_of_some_pod() {
    let world = World::new().without_controller().blocked("a").node(
        "a",
        "a",
        "b",
        "Working",
        &[("machineconfiguration.openshift.io/desiredDrain", "drain-rendered-worker-b")],
    );
    let world = world.node("b", "a", "a", "Done", &[]);
    node(
        &world,
        "a",
        &expect![[r#"
            Blocked: it asks to be emptied, and the controller does not run
            waits for Deployment openshift-machine-config-operator/machine-config-controller, of which no replica runs: 0/3 nodes are available: 3 Insufficient cpu.
            see why it does not run: kubectl -n openshift-machine-config-operator describe pods -l k8s-app=machine-config-controller
        "#]],
    );
    node(
        &world,
        "b",
        &expect![[r#"
            Blocked: it waits for its turn, and the controller does not run
            waits for Deployment openshift-machine-config-operator/machine-config-controller, of which no replica runs: 0/3 nodes are available: 3 Insufficient cpu.
            see why it does not run: kubectl -n openshift-machine-config-operator describe pods -l k8s-app=machine-config-controller
        "#]],
    );
    pool(
        &world,
        &expect![[r#"
        Blocked: 0 of 2 nodes have rendered-worker-b
        waits for Deployment openshift-machine-config-operator/machine-config-controller, of which no replica runs: 0/3 nodes are available: 3 Insufficient cpu.
        see why it does not run: kubectl -n openshift-machine-config-operator describe pods -l k8s-app=machine-config-controller
    "#]],
    );
}

#[test]
fn a_node_that_waits_for_its_place_says_so() {
    let drain = ("machineconfiguration.openshift.io/desiredDrain", "drain-rendered-worker-b");
    let world = World::new()
        .node("a", "a", "b", "Working", &[drain])
        .node("c", "a", "b", "Working", &[])
        .ledger(&json!({"claims": [{"node": "c", "config": "rendered-worker-b"}]}));
    node(
        &world,
        "a",
        &expect![[r#"
            Waiting: it asks to be emptied for rendered-worker-b, and has no place yet
            waits for one of the places that pool worker has for nodes that are away; they are taken by c
            see who has the places: kubectl get poolledgers worker -o yaml
        "#]],
    );
}

#[test]
fn a_pool_without_any_machine_config_says_that() {
    let mut world = World::new().standstill(Standstill::NoConfiguration).blank("a", json!({})).pool(|pool| {
        pool["spec"] =
            json!({"machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}}});
        pool["status"] = json!({});
    });
    world.0.configs = Reading::known(Vec::new(), now());
    pool(
        &world,
        &expect![[r#"
        Waiting: there is no MachineConfig for pool worker
        waits for a MachineConfig that its machineConfigSelector matches
        see what it selects: kubectl get mcp worker -o jsonpath={.spec.machineConfigSelector}
    "#]],
    );
    node(
        &world,
        "a",
        &expect![[r#"
        Waiting: nothing is asked of it: there is no MachineConfig for pool worker
        waits for the first config of pool worker
        see what the pool waits for: machinist why pool worker
    "#]],
    );
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {},
        "metadata": {"name": "50-motd", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
    });
    world.0.configs = Reading::known(vec![serde_json::from_value(config).unwrap()], now());
    pool(
        &world,
        &expect![[r#"
        Waiting: it has no rendered config yet
        waits for the controller to render its fragments
        see whether it runs: machinist doctor
    "#]],
    );
}

#[test]
fn a_node_without_a_first_config_waits_for_its_turn_or_for_its_daemon() {
    let world = World::new()
        .blank("a", json!({}))
        .blank("b", json!({"machinist.dev/probe": "rendered-worker-b/7", "machinist.dev/answered": ""}));
    node(
        &world,
        "a",
        &expect![[r#"
        Waiting: it is new, and shall get its first config rendered-worker-b in its turn
        waits for its turn: 1 of 1 places are taken
        see what the pool waits for: machinist why pool worker
    "#]],
    );
    node(
        &world,
        "b",
        &expect![[r#"
        Blocked: it is new, and its daemon has not answered
        waits for its daemon to start
        look at its service, on the node: systemctl status machinistd
    "#]],
    );
}

#[test]
fn a_node_with_a_file_that_somebody_changed_names_the_command_with_the_path() {
    let changed = |what: &str| {
        let reason = format!("unexpected on-disk state validating against rendered-worker-b: {what}");
        World::new().node("a", "b", "b", "Degraded", &[("machineconfiguration.openshift.io/reason", reason.as_str())])
    };
    node(
        &changed("content mismatch for file \"/etc/motd\""),
        "a",
        &expect![[r#"
        Degraded: unexpected on-disk state validating against rendered-worker-b: content mismatch for file "/etc/motd"
        waits for the files on its disk to be what its config says
        see where it comes from, and since when: machinist blame a /etc/motd
        write them anew: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
    "#]],
    );
    node(
        &changed("mode mismatch for file: \"/etc/it's here\"; expected: 0644"),
        "a",
        &expect![[r#"
        Degraded: unexpected on-disk state validating against rendered-worker-b: mode mismatch for file: "/etc/it's here"; expected: 0644
        waits for the files on its disk to be what its config says
        see where it comes from, and since when: machinist blame a '/etc/it'\''s here'
        write them anew: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
    "#]],
    );
    node(
        &changed("something that nobody quotes"),
        "a",
        &expect![[r#"
        Degraded: unexpected on-disk state validating against rendered-worker-b: something that nobody quotes
        waits for the files on its disk to be what its config says
        see what it reports: kubectl describe machineconfignode a
        write them anew: kubectl annotate node a machinist.dev/force=rendered-worker-b --overwrite
    "#]],
    );
}

#[test]
fn a_node_that_lacks_only_its_image_has_not_arrived() {
    let image = |current: &str, desired: &str| {
        let images = [
            ("machineconfiguration.openshift.io/currentImage", current),
            ("machineconfiguration.openshift.io/desiredImage", desired),
        ];
        World::new().node("a", "b", "b", "Done", &images)
    };
    node(
        &image("quay.io/os@sha256:1", "quay.io/os@sha256:2"),
        "a",
        &expect![[r#"
        Updating: it changes to rendered-worker-b with image quay.io/os@sha256:2
        waits for its daemon to finish
    "#]],
    );
    pool(
        &image("quay.io/os@sha256:1", "quay.io/os@sha256:2"),
        &expect![[r#"
        Updating: 0 of 1 nodes have rendered-worker-b
        waits for node a: its daemon to finish
    "#]],
    );
    node(
        &image("quay.io/os@sha256:2", "quay.io/os@sha256:2"),
        "a",
        &expect![[r#"
        Updated: it runs rendered-worker-b, as it should
    "#]],
    );
}
