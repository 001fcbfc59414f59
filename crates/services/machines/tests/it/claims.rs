//! An instance belongs to exactly one Machine.

use serde_json::json;
use testkit::Kind;

use crate::on_both;
use crate::stage::Stage;

on_both!(an_instance_that_two_machines_claim_is_touched_for_neither, an_instance_goes_when_the_other_claim_is_let_go,);

/// The copy lets go of the instance, and somebody else's finalizer keeps it.
async fn an_instance_goes_when_the_other_claim_is_let_go(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_machine("original", json!({})).await;
    let original = stage.running("original").await;
    first.kill().await;
    let id = original.spec.provider_id.clone().unwrap();
    let finalizers = json!(["machine.machine.openshift.io", "test.dev/hold"]);
    stage.create_machine("copy", json!({"metadata": {"finalizers": finalizers}, "spec": {"providerID": id}})).await;
    stage.delete_machine("original").await;
    let second = stage.control();
    stage.says("original", "InstanceUnique", "False", "openshift-machine-api/copy").await;
    stage.delete_machine("copy").await;
    stage.machine_gone("original").await;
    assert!(!stage.account.lock().unwrap().has(&id));
    assert_eq!(stage.machines.get("copy").await.unwrap().metadata.finalizers.unwrap(), ["test.dev/hold"]);
    drop(second);
}

async fn an_instance_that_two_machines_claim_is_touched_for_neither(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_machine("original", json!({})).await;
    let original = stage.running("original").await;
    first.kill().await;
    let id = original.spec.provider_id.clone().unwrap();
    stage.create_machine("copy", json!({"spec": {"providerID": id}})).await;
    let before = stage.account.lock().unwrap().looks.len();
    let _second = stage.control();
    stage.says("copy", "InstanceUnique", "False", "openshift-machine-api/original").await;
    stage.says("original", "InstanceUnique", "False", "openshift-machine-api/copy").await;

    stage.delete_machine("copy").await;
    stage.machine_gone("copy").await;
    let alone = |machine: &api::machine::Machine| crate::stage::condition(machine, "InstanceUnique").is_none();
    stage.machine_is("original", "alone again", alone).await;
    let account = stage.account.lock().unwrap();
    assert!(account.has(&id), "the copy's deletion left the instance alone");
    assert_eq!(account.deletions, 0);
    assert!(account.looks[before..].iter().all(|asked| *asked == 1), "only the original was ever looked for");
}
