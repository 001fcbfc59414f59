//! `doctor`: what goes wrong with the installation itself.

use super::*;

/// A world in which every node is well.
fn well() -> World {
    World::new().node("a", "b", "b", "Done", &[]).node("b", "b", "b", "Done", &[])
}

/// What was found, with the commands that help.
fn found(world: &World) -> Vec<String> {
    let findings = explain::doctor(&world.snapshot());
    let told = findings.into_iter().map(|it| {
        let moves: Vec<_> = it.moves.iter().map(|step| step.command.clone()).collect();
        format!("{:?} {} {}: {} [{}]", it.severity, it.id, it.subject, it.problem, moves.join("; "))
    });
    told.collect()
}

fn operator(name: &str, available: &str, degraded: &str, message: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {}, "status": {"conditions": [
        {"type": "Available", "status": available, "message": message, "lastTransitionTime": ago(5)},
        {"type": "Degraded", "status": degraded, "message": message, "lastTransitionTime": ago(5)},
    ]}})
}

#[test]
fn an_operator_that_is_not_well_is_told_with_its_message_where_nothing_else_explains_it() {
    let mut world = well();
    for one in [
        operator("machine-config", "True", "True", "Unable to apply 4.18: the pull secret is no JSON"),
        operator("machine-api", "False", "False", "no provider runs"),
        operator("dns", "False", "True", "somebody else's"),
    ] {
        world.0.cluster_operators.push(serde_json::from_value(typed("ClusterOperator", one)).unwrap());
    }
    assert_eq!(
        found(&world),
        [
            "Problem operator-not-well clusteroperator/machine-config: ClusterOperator machine-config is degraded: Unable to apply 4.18: the pull secret is no JSON [kubectl describe clusteroperator machine-config; kubectl -n openshift-machine-config-operator logs deploy/machine-config-operator]",
            "Problem operator-not-well clusteroperator/machine-api: ClusterOperator machine-api is not available: no provider runs [kubectl describe clusteroperator machine-api; kubectl -n openshift-machine-api logs deploy/machine-api-operator]",
        ]
    );
    let failed = world.node("c", "a", "b", "Degraded", &[("machineconfiguration.openshift.io/reason", "no space")]);
    let ids: Vec<_> = explain::doctor(&failed.snapshot()).iter().map(|it| it.id).collect();
    assert_eq!(ids, ["pool-stuck-after-change"], "the operator only sums that up");
}

fn typed(kind: &str, mut value: Value) -> Value {
    value["apiVersion"] = json!("config.openshift.io/v1");
    value["kind"] = json!(kind);
    value
}

fn daemon_set(wanted: i32, newest: i32) -> Value {
    json!({
        "metadata": {"name": "machine-config-daemon", "namespace": "openshift-machine-config-operator"},
        "spec": {"selector": {}, "template": {}},
        "status": {"desiredNumberScheduled": wanted, "currentNumberScheduled": wanted, "numberMisscheduled": 0,
            "numberReady": newest, "updatedNumberScheduled": newest},
    })
}

fn daemon_pod(node: &str, ready: &str, container: &Value) -> Value {
    json!({
        "metadata": {"name": format!("machine-config-daemon-{node}"), "labels": {"k8s-app": "machine-config-daemon"}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": ago(5)}],
            "containerStatuses": [container]},
    })
}

#[test]
fn daemons_that_do_not_run_on_their_nodes_are_told() {
    let fine = json!({"name": "d", "image": "", "imageID": "", "ready": true, "restartCount": 0});
    let mut crashing = fine.clone();
    crashing["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
    let mut world = well();
    world.0.daemon_sets.push(serde_json::from_value(daemon_set(2, 2)).unwrap());
    world.0.pods.push(serde_json::from_value(daemon_pod("a", "True", &fine)).unwrap());
    world.0.pods.push(serde_json::from_value(daemon_pod("b", "True", &fine)).unwrap());
    assert_eq!(found(&world), [""; 0]);
    world.0.pods[1] = serde_json::from_value(daemon_pod("b", "False", &crashing)).unwrap();
    assert_eq!(
        found(&world),
        [
            "Problem daemon-not-running node/b: the daemon of node b does not run: pod machine-config-daemon-b is not ready: CrashLoopBackOff: back-off 5m0s [kubectl -n openshift-machine-config-operator describe pod machine-config-daemon-b; kubectl -n openshift-machine-config-operator logs machine-config-daemon-b]"
        ]
    );
    world.0.pods.pop();
    world.0.daemon_sets[0] = serde_json::from_value(daemon_set(2, 1)).unwrap();
    assert_eq!(
        found(&world),
        [
            "Problem daemon-not-running node/b: node b has no pod of DaemonSet machine-config-daemon [kubectl -n openshift-machine-config-operator describe daemonset machine-config-daemon]",
            "Warning daemon-not-rolled-out daemonset/machine-config-daemon: the newest machine-config-daemon runs on 1 of 2 nodes [kubectl -n openshift-machine-config-operator rollout status daemonset/machine-config-daemon]",
        ]
    );
}

#[test]
fn nodes_beyond_the_daemon_set_have_a_daemon_of_their_own() {
    let fine = json!({"name": "d", "image": "", "imageID": "", "ready": true, "restartCount": 0});
    let mut world = well();
    world.0.daemon_sets.push(serde_json::from_value(daemon_set(1, 1)).unwrap());
    world.0.pods.push(serde_json::from_value(daemon_pod("a", "True", &fine)).unwrap());
    assert_eq!(found(&world), [""; 0], "node b runs it as a service");
}

fn request(name: &str, minutes: i64, conditions: &Value) -> Value {
    json!({
        "metadata": {"name": name, "creationTimestamp": ago(minutes)},
        "spec": {"request": "", "signerName": "kubernetes.io/kubelet-serving", "username": "system:node:a"},
        "status": {"conditions": conditions},
    })
}

#[test]
fn requests_of_kubelets_that_nobody_approves_are_told_with_the_command_that_does() {
    let mut world = well();
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let other = {
        let mut other = request("user", 9, &json!([]));
        other["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
        other
    };
    for one in [request("csr-1", 9, &json!([])), request("csr-2", 3, &json!([])), request("csr-3", 9, &approved), other]
    {
        world.0.requests.push(serde_json::from_value(one).unwrap());
    }
    world.0.requests.push(serde_json::from_value(request("young", 0, &json!([]))).unwrap());
    assert_eq!(
        found(&world),
        [
            "Warning certificate-not-approved csr/csr-1: 2 certificate requests of system:node:a wait for 9m for approval [kubectl describe csr csr-1 csr-2; kubectl certificate approve csr-1 csr-2]"
        ]
    );
}

#[test]
fn mirrors_and_policies_that_are_not_in_force_are_told_once_with_the_reason() {
    let mut world = well();
    let noted = json!({"ImageDigestMirrorSet team": "\"quay.io/*\" is no registry", "others": "2f"}).to_string();
    for pool in ["worker", "master"] {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {},
            "metadata": {"name": format!("99-{pool}-generated-registries"), "annotations": {api::annotations::LEFT_OUT: noted}},
        });
        let Reading::Known { value, .. } = &mut world.0.configs else { panic!("configs are known") };
        value.push(serde_json::from_value(config).unwrap());
    }
    let policy = |name: &str, reason: &str| {
        let condition = json!({"type": "Pending", "status": "False", "reason": reason, "message": "no key", "lastTransitionTime": ago(1)});
        let root = json!({"policyType": "PublicKey", "publicKey": {"keyData": ""}});
        typed(
            "ImagePolicy",
            json!({"metadata": {"name": name, "namespace": "shop"},
            "spec": {"scopes": ["quay.io/shop"], "policy": {"rootOfTrust": root}}, "status": {"conditions": [condition]}}),
        )
    };
    world.0.image_policies.push(serde_json::from_value(policy("signed", "InvalidPolicy")).unwrap());
    world.0.image_policies.push(serde_json::from_value(policy("fine", "AsExpected")).unwrap());
    assert_eq!(
        found(&world),
        [
            "Problem not-in-force imagepolicy/signed: imagepolicy signed is not in force: no key [kubectl -n shop edit imagepolicy signed]",
            "Problem not-in-force imagedigestmirrorset/team: imagedigestmirrorset team is not in force: \"quay.io/*\" is no registry [kubectl edit imagedigestmirrorset team]",
        ]
    );
}

#[test]
fn a_pool_that_cannot_be_rendered_is_told_with_its_message() {
    let world = well().pool(|pool| {
        pool["spec"]["machineConfigSelector"] = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
        pool["status"]["conditions"] =
            json!([{"type": "RenderDegraded", "status": "True", "message": "MachineConfig 60-broken: kernelType fast is not known"}]);
    });
    assert_eq!(
        found(&world),
        [
            "Problem pool-cannot-render machineconfigpool/worker: MachineConfig 60-broken: kernelType fast is not known [kubectl get mc -l machineconfiguration.openshift.io/role=worker]"
        ]
    );
}

#[test]
fn typed_configuration_that_failed_is_told_with_its_last_condition() {
    let failed = |kind: &str, status: &str| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": "custom"}, "spec": {},
            "status": {"conditions": [
                {"type": "Success", "status": "True", "message": "Success", "lastTransitionTime": ago(9)},
                {"type": "Failure", "status": status, "message": "maxPods is no number", "lastTransitionTime": ago(1)},
            ]},
        })
    };
    let mut world = well();
    world.0.kubelet_configs.push(serde_json::from_value(failed("KubeletConfig", "True")).unwrap());
    let mut runtime = failed("ContainerRuntimeConfig", "True");
    runtime["spec"] = json!({"containerRuntimeConfig": {}});
    world.0.container_runtime_configs.push(serde_json::from_value(runtime).unwrap());
    assert_eq!(
        found(&world),
        [
            "Problem generator-failed kubeletconfig/custom: kubeletconfig custom is not in force: maxPods is no number [kubectl edit kubeletconfig custom]",
            "Problem generator-failed containerruntimeconfig/custom: containerruntimeconfig custom is not in force: maxPods is no number [kubectl edit containerruntimeconfig custom]",
        ]
    );
    world.0.container_runtime_configs.clear();
    world.0.kubelet_configs = vec![serde_json::from_value(failed("KubeletConfig", "False")).unwrap()];
    assert_eq!(found(&world), [""; 0]);
}
