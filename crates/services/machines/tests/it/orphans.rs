//! What is in the cloud and belongs to no Machine.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use machine::provider::Mark;
use machines::Orphans;
use serde_json::json;
use testkit::{Kind, wait_until};

use crate::cloud::SILENT;
use crate::on_both;
use crate::stage::Stage;

#[tokio::test]
async fn a_place_that_never_answers_keeps_no_orphan_of_another_from_being_told_of() {
    let Some(mut stage) = Stage::start(Kind::Embedded).await else { return };
    leave_behind(&stage);
    stage.settings.resync = Duration::from_millis(200);
    let silent = json!({"metadata": {"labels": {api::labels::MACHINE_CLUSTER: SILENT}}});
    stage.create_machine("silent", silent).await;
    let _controllers = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.event("OrphanFound", "instance fake:///901 belongs to machine ns/gone (uid old), which does not exist").await;
}

on_both!(what_belongs_to_no_machine_is_told_of_and_removed_by_policy);

/// Instances of a Machine that never was, of a young one and of another cluster.
fn leave_behind(stage: &Stage) {
    let mark = |cluster: &str, uid: &str| Mark {
        cluster: cluster.to_owned(),
        namespace: "ns".to_owned(),
        machine: "gone".to_owned(),
        uid: uid.to_owned(),
    };
    let now = Timestamp::now();
    let mut account = stage.account.lock().unwrap();
    account.add_marked("fake:///901", mark("c", "old"), now - SignedDuration::from_hours(2));
    account.add_marked("fake:///902", mark("c", "young"), now - SignedDuration::from_mins(50));
    account.add_marked("fake:///903", mark("another", "foreign"), now - SignedDuration::from_hours(2));
}

async fn what_belongs_to_no_machine_is_told_of_and_removed_by_policy(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    leave_behind(&stage);
    stage.settings.resync = Duration::from_millis(200);
    let first = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    stage.event("OrphanFound", "instance fake:///901 belongs to machine ns/gone (uid old), which does not exist").await;
    let searches = stage.account.lock().unwrap().searches;
    let looked = async || (stage.account.lock().unwrap().searches > searches + 1).then_some(());
    wait_until("two more looks", looked).await;
    assert!(stage.account.lock().unwrap().has("fake:///901"), "it is only told of");
    first.kill().await;

    stage.settings.orphans = Orphans::Remove { cluster: "c".to_owned() };
    // A Machine that was copied from another cluster leads there, and is no reason to remove what is that cluster's.
    let copied = json!({"metadata": {"labels": {api::labels::MACHINE_CLUSTER: "another"}}});
    stage.create_machine("copied", copied).await;
    let _second = stage.control();
    stage.event("OrphanFound", "instance fake:///903 belongs to machine ns/gone (uid foreign)").await;
    let searches = stage.account.lock().unwrap().searches;
    let looked = async || (stage.account.lock().unwrap().searches > searches + 4).then_some(());
    wait_until("more looks", looked).await;
    stage.event("OrphanRemoved", "removed instance fake:///901 of machine ns/gone").await;
    let account = stage.account.lock().unwrap();
    assert!(!account.has("fake:///901"));
    assert!(account.has("fake:///902"), "it is too young");
    assert!(account.has("fake:///903"), "it is another cluster's");
    assert_eq!(account.entries.len(), 4);
}
