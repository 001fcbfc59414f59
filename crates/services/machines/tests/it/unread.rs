//! What cannot be read is not taken for missing: nothing is created or deleted because of it.

use serde_json::json;
use testkit::Kind;

use crate::on_both;
use crate::stage::Stage;

on_both!(
    nothing_is_made_while_machines_cannot_be_listed,
    a_drain_waits_while_daemon_sets_cannot_be_listed,
    a_secret_that_cannot_be_read_is_not_a_secret_that_is_missing,
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
    stage.says("a", "InstanceExists", "Unknown", "cannot read secret openshift-machine-api/user-data").await;
    assert_eq!(stage.account.lock().unwrap().creations, 0);
    stage.faults.mend("secrets");
    stage.running("a").await;
}
