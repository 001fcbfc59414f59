//! Machines and MachineSets: what each state says and proposes, and what `doctor` finds about them.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::{World, ago};

/// A world of machines; those of `set` belong to MachineSet `a`.
struct Machines(World);

impl Machines {
    fn new() -> Self {
        Self(World::new())
    }

    fn machine(mut self, name: &str, set: Option<&str>, change: impl FnOnce(&mut Value)) -> Self {
        let owners = set.map(|set| json!([{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": set, "uid": set, "controller": true}]));
        let mut machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "openshift-machine-api", "creationTimestamp": ago(60),
                "labels": {"role": "worker"}, "ownerReferences": owners.unwrap_or(json!([])),
            },
            "spec": {"providerID": format!("cloud:///{name}")},
            "status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": format!("node-{name}")}, "lastUpdated": ago(30)},
        });
        change(&mut machine);
        self.0.0.machines.push(serde_json::from_value(machine).unwrap());
        self
    }

    fn set(mut self, desired: i32, replicas: i32, available: i32, more: &Value) -> Self {
        let mut status = json!({"replicas": replicas, "readyReplicas": available, "availableReplicas": available});
        if let (Some(status), Some(more)) = (status.as_object_mut(), more.as_object()) {
            status.extend(more.clone());
        }
        let set = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": "a", "namespace": "openshift-machine-api"},
            "spec": {"replicas": desired}, "status": status,
        });
        self.0.0.machine_sets.push(serde_json::from_value(set).unwrap());
        self
    }

    fn check(mut self, name: &str, spec: &Value) -> Self {
        let check = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": {"name": name, "namespace": "openshift-machine-api"}, "spec": spec,
        });
        self.0.0.health_checks.push(serde_json::from_value(check).unwrap());
        self
    }

    fn without_controllers(mut self) -> Self {
        let deployment = json!({
            "metadata": {"name": "machine-api-controllers", "namespace": "openshift-machine-api"},
            "spec": {"replicas": 0, "selector": {}, "template": {}}, "status": {},
        });
        self.0.0.deployments.push(serde_json::from_value(deployment).unwrap());
        self
    }
}

fn condition(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "False", "reason": reason, "message": message, "lastTransitionTime": ago(20)})
}

fn text(it: &explain::Explanation) -> String {
    let mut text = format!("{} is {}: {}\n", it.name, it.state, it.summary);
    for what in &it.waiting_for {
        text.push_str(&format!("waits for {what}\n"));
    }
    for step in &it.moves {
        text.push_str(&format!("{}: {}\n", step.what, step.command));
    }
    text
}

#[track_caller]
fn check(world: &Machines, name: &str, expected: &Expect) {
    expected.assert_eq(&text(&explain::machine(&world.0.snapshot(), name).unwrap()));
}

#[track_caller]
fn check_set(world: &Machines, expected: &Expect) {
    expected.assert_eq(&text(&explain::machine_set(&world.0.snapshot(), "a").unwrap()));
}

#[track_caller]
fn doctor(world: &Machines, expected: &Expect) {
    let findings = explain::doctor(&world.0.snapshot());
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{:?} {} {}: {}\n", finding.severity, finding.id, finding.subject, finding.problem));
        for step in finding.moves {
            text.push_str(&format!("  {}: {}\n", step.what, step.command));
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn a_machine_that_is_a_node_is_well_and_so_is_its_set() {
    let world = Machines::new().machine("m", Some("a"), |_| {}).set(1, 1, 1, &json!({}));
    check(
        &world,
        "m",
        &expect![[r#"
        m is Running: it is node node-m
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Running: 1 of 1 machines are available
    "#]],
    );
    doctor(&world, &expect![[""]]);
}

#[test]
fn a_machine_on_its_way_says_what_it_waits_for() {
    let new = |machine: &mut Value| {
        machine["status"] = json!({"phase": "Provisioning"});
        machine["metadata"]["creationTimestamp"] = json!(ago(1));
    };
    let world = Machines::new().machine("m", Some("a"), new).set(1, 1, 0, &json!({}));
    check(
        &world,
        "m",
        &expect![[r#"
        m is Provisioning: its instance is being made
        waits for the provider to make the instance
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Provisioning: 0 of 1 machines are available
        waits for machine m: the provider to make the instance
        see why m is not ready: machinist why machine m
    "#]],
    );
    doctor(&world, &expect![[""]]);
}

#[test]
fn a_machine_that_never_joins_says_where_it_stopped() {
    let pending = |machine: &mut Value| {
        let told =
            condition("NodeJoined", "CertificatePending", "certificate signing request csr-1 waits for approval");
        machine["status"] = json!({"phase": "Provisioned", "conditions": [told]});
    };
    let world = Machines::new().machine("m", Some("a"), pending).set(1, 1, 0, &json!({}));
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: its instance runs, and no node has come of it
        waits for its node to join: certificate signing request csr-1 waits for approval
        see whether its kubelet waits for a certificate: kubectl get csr
        have MachineSet a make another one: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
    doctor(
        &world,
        &expect![[r#"
        Problem machine-never-joined machine/m: machine m was made 1h ago and has not become a node: certificate signing request csr-1 waits for approval
          see whether its kubelet waits for a certificate: kubectl get csr
          have MachineSet a make another one: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
    let fresh = |machine: &mut Value| {
        pending(machine);
        machine["metadata"]["creationTimestamp"] = json!(ago(2));
    };
    let world = Machines::new().machine("m", Some("a"), fresh);
    check(
        &world,
        "m",
        &expect![[r#"
        m is Provisioning: its instance runs, and no node has come of it
        waits for its node to join: certificate signing request csr-1 waits for approval
        see whether its kubelet waits for a certificate: kubectl get csr
        have MachineSet a make another one: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
    doctor(&world, &expect![[""]]);
}

#[test]
fn a_failed_machine_is_found_because_nothing_replaces_it() {
    let failed = |machine: &mut Value| {
        machine["status"]["phase"] = json!("Failed");
        machine["status"]["errorMessage"] = json!("can't find created instance");
    };
    let world = Machines::new().machine("m", Some("a"), failed).set(1, 1, 0, &json!({}));
    check(
        &world,
        "m",
        &expect![[r#"
        m is Failed: can't find created instance
        waits for somebody to delete it: a machine that has failed does not recover
        delete it; MachineSet a makes another one: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Failed: 0 of 1 machines are available
        waits for machine m: somebody to delete it: a machine that has failed does not recover
        see why m is not ready: machinist why machine m
    "#]],
    );
    doctor(
        &world,
        &expect![[r#"
        Problem machine-failed machine/m: machine m has failed: can't find created instance
          delete it: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
}

#[test]
fn an_instance_that_two_machines_name_is_told_once_and_the_copy_is_the_one_to_change() {
    let copy = |machine: &mut Value| {
        machine["spec"]["providerID"] = json!("cloud:///m");
        machine["status"] = json!({});
        machine["metadata"]["creationTimestamp"] = json!(ago(5));
    };
    let world = Machines::new().machine("m", None, |_| {}).machine("copy", None, copy);
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: machines copy and m both name instance cloud:///m
        waits for one of them to let go; until then the provider is called for neither
        let copy have an instance of its own: kubectl -n openshift-machine-api patch machine copy --type merge -p '{"spec":{"providerID":null}}'
        or take copy away, which leaves the instance running: kubectl -n openshift-machine-api delete machine copy --wait=false
    "#]],
    );
    check(
        &world,
        "copy",
        &expect![[r#"
        copy is Blocked: machines copy and m both name instance cloud:///m
        waits for one of them to let go; until then the provider is called for neither
        let copy have an instance of its own: kubectl -n openshift-machine-api patch machine copy --type merge -p '{"spec":{"providerID":null}}'
        or take copy away, which leaves the instance running: kubectl -n openshift-machine-api delete machine copy --wait=false
    "#]],
    );
    doctor(
        &world,
        &expect![[r#"
        Problem machine-contested machine/copy: machines copy and m both name instance cloud:///m
          let copy have an instance of its own: kubectl -n openshift-machine-api patch machine copy --type merge -p '{"spec":{"providerID":null}}'
          or take copy away, which leaves the instance running: kubectl -n openshift-machine-api delete machine copy --wait=false
    "#]],
    );
}

#[test]
fn a_set_that_gets_no_capacity_is_told_with_the_words_of_the_provider() {
    let starved = |machine: &mut Value| {
        let told = condition("InstanceCreated", "NoCapacity", "no capacity for m5.large in zone-a");
        machine["status"] = json!({"phase": "Provisioning", "conditions": [told]});
        machine["spec"] = json!({});
    };
    let world =
        Machines::new().machine("m", Some("a"), starved).machine("n", Some("a"), starved).set(2, 2, 0, &json!({}));
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: the provider does not make its instance; it is asked again
        waits for the provider, which answered: no capacity for m5.large in zone-a
        make machines of another type or in another place: kubectl -n openshift-machine-api edit machineset a
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Blocked: 0 of 2 machines are available
        waits for machine m: the provider, which answered: no capacity for m5.large in zone-a
        waits for machine n: the provider, which answered: no capacity for m5.large in zone-a
        see why m is not ready: machinist why machine m
        see why n is not ready: machinist why machine n
    "#]],
    );
    doctor(
        &world,
        &expect![[r#"
        Problem machineset-starved machineset/a: MachineSet a gets no instance for 2 machines: no capacity for m5.large in zone-a
          make machines of another type or in another place: kubectl -n openshift-machine-api edit machineset a
          see the other sets: kubectl -n openshift-machine-api get machinesets
    "#]],
    );
}

#[test]
fn a_machine_that_is_written_wrongly_sends_to_its_set() {
    let invalid = |machine: &mut Value| {
        let told = condition("Valid", "InvalidConfiguration", "spec.providerSpec.value: Required value");
        machine["status"] = json!({"conditions": [told]});
    };
    let world = Machines::new().machine("m", Some("a"), invalid).machine("own", None, invalid);
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: it cannot be made as it is written
        waits for a correction: spec.providerSpec.value: Required value
        correct the template of MachineSet a, then delete m: kubectl -n openshift-machine-api edit machineset a
    "#]],
    );
    check(
        &world,
        "own",
        &expect![[r#"
        own is Blocked: it cannot be made as it is written
        waits for a correction: spec.providerSpec.value: Required value
        correct it: kubectl -n openshift-machine-api edit machine own
    "#]],
    );
}

#[test]
fn a_deletion_names_the_step_it_is_at() {
    let deleting = |machine: &mut Value| {
        machine["metadata"]["deletionTimestamp"] = json!(ago(3));
        machine["status"]["phase"] = json!("Deleting");
    };
    let held = |machine: &mut Value| {
        deleting(machine);
        machine["spec"]["lifecycleHooks"] = json!({"preDrain": [{"name": "backup", "owner": "backup-operator"}]});
    };
    let drained = |machine: &mut Value| {
        deleting(machine);
        machine["status"]["conditions"] = json!([
            {"type": "Drained", "status": "True"},
            condition("InstanceDeleted", "Unreachable", "the endpoint does not answer"),
        ]);
    };
    let world = Machines::new().machine("m", None, deleting).machine("h", None, held).machine("d", None, drained);
    check(
        &world,
        "m",
        &expect![[r#"
        m is Deleting: it is being deleted
        waits for its node to be drained
        see the pods that are still there: kubectl get pods -A --field-selector spec.nodeName=node-m
    "#]],
    );
    check(
        &world,
        "h",
        &expect![[r#"
        h is Blocked: it is being deleted, and its node is not drained while a hook is there
        waits for backup-operator to remove the hook backup
        see the hooks, which their owners remove when they are done: kubectl -n openshift-machine-api get machine h -o jsonpath='{.spec.lifecycleHooks}'
    "#]],
    );
    check(
        &world,
        "d",
        &expect![[r#"
        d is Deleting: it is being deleted
        waits for the provider to remove the instance: the endpoint does not answer
    "#]],
    );
}

#[test]
fn a_machine_whose_node_is_gone_or_not_ready_is_told() {
    let gone = |machine: &mut Value| {
        machine["status"]["conditions"] = json!([condition("NodeExists", "NodeMissing", "node node-m is gone")]);
    };
    let mut world = Machines::new().machine("m", None, gone).machine("n", None, |_| {});
    let node =
        json!({"metadata": {"name": "node-n"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    world.0.0.nodes.push(serde_json::from_value(node).unwrap());
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: its node node-m is gone, and its instance is still there
        waits for node node-m to come back, or somebody to delete the machine
        take the machine away: kubectl -n openshift-machine-api delete machine m
    "#]],
    );
    check(
        &world,
        "n",
        &expect![[r#"
        n is Blocked: its node node-n is NotReady
        waits for node node-n to report that it is ready
        see the node: machinist why node node-n
    "#]],
    );
}

#[test]
fn a_node_that_restarts_for_its_config_is_no_trouble_of_its_machine() {
    let mut world = Machines::new().machine("m", Some("a"), |_| {}).set(1, 1, 0, &json!({}));
    let rebooting = ("machineconfiguration.openshift.io/post-config-action", "Rebooting");
    world.0 = world.0.node("node-m", "a", "b", "Working", &[rebooting]);
    let node = &mut world.0.0.nodes[0];
    node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".to_owned();
    check(
        &world,
        "m",
        &expect![[r#"
        m is Updating: its node node-m is on its way to another config
        waits for node node-m: the machine to come back
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Updating: 0 of 1 machines are available
        waits for machine m: node node-m: the machine to come back
        see why m is not ready: machinist why machine m
    "#]],
    );
}

#[test]
fn without_their_controllers_machines_wait_for_them() {
    let new = |machine: &mut Value| machine["status"] = json!({"phase": "Provisioning"});
    let world = Machines::new().machine("m", Some("a"), new).set(2, 1, 0, &json!({})).without_controllers();
    check(
        &world,
        "m",
        &expect![[r#"
        m is Blocked: its instance is being made
        waits for Deployment openshift-machine-api/machine-api-controllers, which is scaled to 0
        waits for the provider to make the instance
        let it run: kubectl -n openshift-machine-api scale deployment machine-api-controllers --replicas=1
    "#]],
    );
    check_set(
        &world,
        &expect![[r#"
        a is Blocked: 0 of 2 machines are available
        waits for Deployment openshift-machine-api/machine-api-controllers, which is scaled to 0
        let it run: kubectl -n openshift-machine-api scale deployment machine-api-controllers --replicas=1
    "#]],
    );
}

#[test]
fn a_set_that_cannot_be_acted_on_says_why() {
    let broken = json!({"errorMessage": "spec.selector does not match the labels of spec.template"});
    check_set(
        &Machines::new().set(1, 0, 0, &broken),
        &expect![[r#"
        a is Blocked: 0 of 1 machines are available
        waits for a correction: spec.selector does not match the labels of spec.template
        correct it: kubectl -n openshift-machine-api edit machineset a
    "#]],
    );
    check_set(
        &Machines::new().set(1, 0, 0, &json!({})),
        &expect![[r#"
        a is Provisioning: 0 of 1 machines are available
        waits for its controller to make the machines that are missing
    "#]],
    );
}

#[test]
fn health_checks_that_disagree_about_a_machine_are_told_and_those_that_complete_each_other_are_not() {
    let asks = |type_: &str, timeout: &str, most: &str| {
        json!({
            "selector": {"matchLabels": {"role": "worker"}}, "maxUnhealthy": most,
            "unhealthyConditions": [{"type": type_, "status": "Unknown", "timeout": timeout}],
        })
    };
    let machines = || Machines::new().machine("m", None, |_| {});
    let ready = asks("Ready", "300s", "40%");
    doctor(
        &machines().check("one", &ready).check("two", &asks("Ready", "600s", "40%")),
        &expect![[r#"
        Warning health-checks-disagree machinehealthcheck/two: MachineHealthChecks one and two both choose machine m and disagree: Ready=Unknown for 300s and for 600s
          compare them: kubectl -n openshift-machine-api get machinehealthcheck -o yaml
          leave each machine to one of them: kubectl -n openshift-machine-api edit machinehealthcheck two
    "#]],
    );
    doctor(
        &machines().check("one", &ready).check("two", &asks("Ready", "300s", "100%")),
        &expect![[r#"
        Warning health-checks-disagree machinehealthcheck/two: MachineHealthChecks one and two both choose machine m and disagree: maxUnhealthy 40% and 100%
          compare them: kubectl -n openshift-machine-api get machinehealthcheck -o yaml
          leave each machine to one of them: kubectl -n openshift-machine-api edit machinehealthcheck two
    "#]],
    );
    doctor(&machines().check("one", &ready).check("two", &asks("DiskPressure", "600s", "100%")), &expect![[""]]);
    let mut elsewhere = asks("Ready", "600s", "40%");
    elsewhere["selector"] = json!({"matchLabels": {"role": "master"}});
    doctor(&machines().check("one", &ready).check("two", &elsewhere), &expect![[""]]);
}

#[test]
fn a_health_check_that_replaces_nobody_is_told_with_its_reason() {
    let check = |status: &str| {
        let mut world = Machines::new().check("workers", &json!({"selector": {"matchLabels": {"role": "worker"}}}));
        let message =
            "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy";
        let condition =
            json!({"type": "RemediationAllowed", "status": status, "reason": "TooManyUnhealthy", "message": message});
        world.0.0.health_checks[0].status = Some(serde_json::from_value(json!({"conditions": [condition]})).unwrap());
        world
    };
    doctor(&check("True"), &expect![[""]]);
    doctor(
        &check("False"),
        &expect![[r#"
        Problem health-check-held machinehealthcheck/workers: MachineHealthCheck workers replaces no machine: Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy
          see which nodes are unhealthy: kubectl get nodes
          see how many it may replace at once: kubectl -n openshift-machine-api describe machinehealthcheck workers
    "#]],
    );
}

#[test]
fn a_node_that_fell_silent_is_told_with_who_would_replace_it() {
    let silent = |minutes: i64| {
        let mut world = Machines::new().machine("m", None, |_| {});
        world.0 = world.0.node("node-m", "b", "b", "Done", &[]);
        let conditions = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": ago(minutes)}]);
        world.0.0.nodes[0].status.as_mut().unwrap().conditions = Some(serde_json::from_value(conditions).unwrap());
        world
    };
    doctor(&silent(0), &expect![[""]]);
    doctor(
        &silent(5),
        &expect![[r#"
        Problem node-not-ready node/node-m: node node-m has not been Ready for 5m
          see what the kubelet last said: kubectl describe node node-m
          look at the kubelet, on the node: systemctl status kubelet
          see its machine: machinist why machine m
    "#]],
    );
    let check = json!({"selector": {"matchLabels": {"role": "worker"}}});
    let findings = explain::doctor(&silent(5).check("workers", &check).0.snapshot());
    expect!["MachineHealthCheck workers replaces its machine when its timeout is over"].assert_eq(&findings[0].effect);
}
