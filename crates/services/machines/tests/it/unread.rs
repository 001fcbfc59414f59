//! What cannot be read is not taken for missing: nothing is created or deleted because of it.

use api::machine::MachineHealthCheck;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage, set_ready};

on_both!(
    nothing_is_made_while_machines_cannot_be_listed,
    a_drain_waits_while_daemon_sets_cannot_be_listed,
    a_secret_that_cannot_be_read_is_not_a_secret_that_is_missing,
    a_secret_that_cannot_be_read_holds_up_no_deletion,
    credentials_that_cannot_be_read_any_more_are_told_of,
    a_check_that_cannot_be_read_deletes_nothing,
    a_set_that_was_deleted_unseen_adopts_nothing,
);

async fn nothing_is_made_while_machines_cannot_be_listed(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    stage.account.lock().unwrap().add("fake:///100");
    let labels = json!({"machine.openshift.io/cluster-api-machineset": "worker"});
    stage.create_machine("old", json!({"metadata": {"labels": labels}, "spec": {"providerID": "fake:///100"}})).await;
    stage.create_set("worker", 1).await;
    stage.faults.fail("machines", 503);
    let _controllers = stage.control();
    stage.event("CannotWatch", "cannot watch machines").await;
    assert_eq!(stage.account.lock().unwrap().creations, 0);
    stage.faults.mend("machines");
    stage.machine_is("old", "adopted", |machine| machine.metadata.owner_references.is_some()).await;
    assert_eq!(stage.account.lock().unwrap().creations, 0);
}

async fn a_drain_waits_while_daemon_sets_cannot_be_listed(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    first.kill().await;
    let pods = stage.place("web", "a", json!({})).await;
    stage.faults.fail("daemonsets", 503);
    let _second = stage.control();
    stage.delete_machine("a").await;
    stage.says("a", "Drained", "False", "cannot read daemonsets").await;
    assert!(pods.get("web").await.unwrap().metadata.deletion_timestamp.is_none());
    assert_eq!(stage.instances(), ["a"]);
    stage.faults.mend("daemonsets");
    stage.machine_gone("a").await;
    assert!(pods.get_opt("web").await.unwrap().is_none());
}

async fn a_secret_that_cannot_be_read_is_not_a_secret_that_is_missing(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    stage.faults.fail("secrets", 503);
    let _controllers = stage.control();
    let spec = json!({"providerSpec": {"value": {"userDataSecret": {"name": "user-data"}}}});
    stage.create_machine("a", json!({"spec": spec})).await;
    stage.says("a", "InstanceCreated", "False", "cannot read secret openshift-machine-api/user-data").await;
    assert_eq!(stage.account.lock().unwrap().creations, 0);
    stage.faults.mend("secrets");
    stage.running("a").await;
}

/// User data is needed by a creation only.
async fn a_secret_that_cannot_be_read_holds_up_no_deletion(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    let spec = json!({"providerSpec": {"value": {"userDataSecret": {"name": "user-data"}}}});
    stage.create_machine("a", json!({"spec": spec})).await;
    stage.running("a").await;
    first.kill().await;
    stage.faults.fail("secrets", 503);
    let _second = stage.control();
    stage.delete_machine("a").await;
    stage.machine_gone("a").await;
    assert_eq!(stage.instances(), Vec::<String>::new());
}

/// A machine at rest has nothing else that would bring it back.
async fn credentials_that_cannot_be_read_any_more_are_told_of(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.resync = std::time::Duration::from_millis(200);
    let _controllers = stage.control();
    let spec = json!({"providerSpec": {"value": {"credentialsSecret": {"name": "keys"}}}});
    stage.create_machine("a", json!({"spec": spec})).await;
    stage.running("a").await;
    stage.faults.fail("secrets", 503);
    stage.says("a", "InstanceExists", "Unknown", "cannot read secret openshift-machine-api/keys").await;
}

async fn a_check_that_cannot_be_read_deletes_nothing(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 2).await;
    stage.available("worker", 2).await;
    let checks: Api<MachineHealthCheck> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "check"}, "spec": {"selector": {}, "unhealthyConditions": [
            {"type": "Ready", "status": "False", "timeout": "11s"}]}});
    checks.create(&PostParams::default(), &serde_json::from_value(check).unwrap()).await.unwrap();
    wait_for(&checks, "check", "a first look", |check| check.is_some_and(|check| check.status.is_some())).await;
    let sick = stage.machines.list(&ListParams::default()).await.unwrap().items[0].name_any();
    set_ready(&stage.nodes, &sick, "False").await;
    stage.event("DetectedUnhealthy", &sick).await;
    // A watch that fails is believed for ten seconds. Nobody here sees that a person takes the check away.
    stage.faults.fail("machinehealthchecks", 503);
    checks.delete("check", &DeleteParams::default()).await.unwrap();
    stage.event("CannotJudge", "cannot read machinehealthchecks").await;
    assert!(stage.machines.get(&sick).await.unwrap().metadata.deletion_timestamp.is_none());
}

/// Somebody deletes a set and keeps its machines. The watch of sets lags behind that of machines.
async fn a_set_that_was_deleted_unseen_adopts_nothing(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    stage.create_set("worker", 1).await;
    stage.available("worker", 1).await;
    let machine = stage.machines.list(&ListParams::default()).await.unwrap().items[0].name_any();
    // Without an owner first, so that no garbage collector takes the machine.
    stage.faults.stall("machinesets");
    let uid = stage.sets.get("worker").await.unwrap().uid();
    stage.sets.delete("worker", &DeleteParams::orphan()).await.unwrap();
    let set = json!({"metadata": {"finalizers": null}});
    let _ = stage.sets.patch("worker", &PatchParams::default(), &Patch::Merge(set)).await;
    stage.patch_machine(&machine, json!({"metadata": {"ownerReferences": []}})).await;
    controllers.life.sent(|request| request.starts_with("GET") && request.ends_with("/machinesets/worker")).await;
    // The next machine without an owner is looked at in a later plan.
    let labels = json!({"machine.openshift.io/cluster-api-machineset": "worker"});
    stage.create_machine("later", json!({"metadata": {"labels": labels}})).await;
    stage.running("later").await;
    let owners = stage.machines.get(&machine).await.unwrap().metadata.owner_references.unwrap_or_default();
    assert!(owners.iter().all(|owner| Some(&owner.uid) != uid.as_ref()), "{owners:?}");
}
