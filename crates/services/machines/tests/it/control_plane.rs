//! The control plane's set replaces machines one at a time.

use api::machine::{ControlPlaneMachineSet, Machine};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for, wait_for_all};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage};

on_both!(
    masters_are_replaced_one_at_a_time,
    a_master_stays_while_etcd_cannot_spare_it,
    no_master_goes_while_nobody_sees_etcd,
    the_set_is_claimed_before_a_master_is_deleted,
    a_master_without_a_machine_is_noticed_when_it_comes_and_goes,
);

const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";

const SETS: &str = "/apis/machine.openshift.io/v1/namespaces/openshift-machine-api/controlplanemachinesets";

/// Three masters that run, and a set that does not act yet on them.
async fn masters(stage: &Stage) -> Api<ControlPlaneMachineSet> {
    for index in 0..3 {
        let labels = json!({ROLE: "master", "machine.openshift.io/cluster-api-machine-type": "master"});
        stage.create_machine(&format!("c-master-{index}"), json!({"metadata": {"labels": labels}})).await;
    }
    for index in 0..3 {
        stage.running(&format!("c-master-{index}")).await;
    }
    let labels = json!({
        ROLE: "master", "machine.openshift.io/cluster-api-machine-type": "master",
        "machine.openshift.io/cluster-api-cluster": "c",
    });
    let template = json!({
        "machineType": "machines_v1beta1_machine_openshift_io",
        "machines_v1beta1_machine_openshift_io": {
            "metadata": {"labels": labels}, "spec": {"providerSpec": {"value": {"size": 1}}},
        },
    });
    let set = json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "metadata": {"name": "cluster"},
        "spec": {
            "replicas": 3, "state": "Active", "selector": {"matchLabels": {ROLE: "master"}}, "template": template,
        },
    });
    let sets: Api<ControlPlaneMachineSet> = Api::namespaced(stage.client.clone(), NAMESPACE);
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    wait_for_all(&stage.machines, "the masters to be adopted", |machines| {
        machines.iter().all(|machine| machine.owner_references().iter().any(|it| it.kind == "ControlPlaneMachineSet"))
    })
    .await;
    sets
}

async fn resize(sets: &Api<ControlPlaneMachineSet>, size: i32) {
    let machines = json!({"spec": {"providerSpec": {"value": {"size": size}}}});
    let patch = json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": machines}}});
    sets.patch("cluster", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn size(machine: &Machine) -> Option<i64> {
    machine.spec.provider_spec.as_ref()?.value.as_ref()?["size"].as_i64()
}

async fn masters_are_replaced_one_at_a_time(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.etcd_elsewhere = true;
    let _controllers = stage.control();
    let sets = masters(&stage).await;
    resize(&sets, 2).await;
    wait_for_all(&stage.machines, "three machines of the new size", |machines| {
        machines.len() == 3 && machines.iter().all(|machine| size(machine) == Some(2))
    })
    .await;
    assert_eq!(stage.account.lock().unwrap().peak, 4, "one more at a time");
    wait_for(&sets, "cluster", "the set to say so", |set| {
        let Some(status) = set.and_then(|set| set.status.as_ref()) else { return false };
        let is = |type_: &str, value: &str| status.conditions.iter().any(|it| it.type_ == type_ && it.status == value);
        status.updated_replicas == Some(3) && is("Available", "True") && is("Progressing", "False")
    })
    .await;
    assert_eq!(stage.instances().len(), 3);
    assert_eq!(stage.account.lock().unwrap().creations, 6);
}

/// A k3s server has etcd inside, and nothing shows it.
async fn no_master_goes_while_nobody_sees_etcd(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let sets = masters(&stage).await;
    resize(&sets, 2).await;
    stage.event("QuorumGuard", "etcd did not answer").await;
    let machines = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(machines.iter().filter(|machine| size(machine) == Some(1)).count(), 3);
    assert!(machines.iter().all(|machine| machine.metadata.deletion_timestamp.is_none()));
}

async fn a_master_without_a_machine_is_noticed_when_it_comes_and_goes(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    // Its own write brings the set back once more; from then on it rests.
    let rest = || {
        let is_status = |request: &str| request == format!("PATCH {SETS}/cluster/status");
        controllers.life.followed(is_status, |request| request.starts_with("GET") && request.ends_with("/pods"))
    };
    let sets = masters(&stage).await;
    let is_degraded = |set: Option<&ControlPlaneMachineSet>, value: &str| {
        let conditions = set.and_then(|set| set.status.as_ref()).map(|status| &status.conditions);
        conditions.into_iter().flatten().any(|it| it.type_ == "Degraded" && it.status == value)
    };
    wait_for(&sets, "cluster", "a set that is well", |set| is_degraded(set, "False")).await;
    rest().await;
    let labels = json!({"node-role.kubernetes.io/control-plane": ""});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "by-hand", "labels": labels}});
    stage.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    wait_for(&sets, "cluster", "the node to be noticed", |set| is_degraded(set, "True")).await;
    rest().await;
    stage.nodes.delete("by-hand", &kube::api::DeleteParams::default()).await.unwrap();
    wait_for(&sets, "cluster", "its end to be noticed", |set| is_degraded(set, "False")).await;
}

/// So that a process with an older view of the set meets a conflict instead of taking a second master away.
async fn the_set_is_claimed_before_a_master_is_deleted(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.etcd_elsewhere = true;
    let first = stage.control();
    let sets = masters(&stage).await;
    first.life.hold(Some("DELETE"));
    resize(&sets, 2).await;
    first.life.sent(|request| request.starts_with("DELETE") && request.contains("/machines/c-master-")).await;
    let set = sets.get("cluster").await.unwrap();
    assert!(set.annotations()["machinist.dev/claim"].starts_with("test "), "{:?}", set.annotations());
    let machines = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert!(machines.iter().all(|machine| machine.metadata.deletion_timestamp.is_none()));
}

async fn a_master_stays_while_etcd_cannot_spare_it(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.etcd_elsewhere = true;
    let _controllers = stage.control();
    let sets = masters(&stage).await;
    stage.faults.fail("pods", 503);
    resize(&sets, 2).await;
    stage.event("QuorumGuard", "etcd did not answer").await;
    let machines = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(machines.len(), 4);
    assert!(machines.iter().all(|machine| machine.metadata.deletion_timestamp.is_none()));
    stage.faults.mend("pods");
    wait_for_all(&stage.machines, "three machines of the new size", |machines| {
        machines.len() == 3 && machines.iter().all(|machine| size(machine) == Some(2))
    })
    .await;
}
