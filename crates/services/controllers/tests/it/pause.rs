//! Pauses end at their time, and only then.

use api::machineconfiguration::MachineConfigPool;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::objects::file_config;
use testkit::wait_for;

use crate::stage::Stage;

async fn pause(stage: &Stage, until: &str) -> MachineConfigPool {
    let notes: Value = json!({
        "machinist.dev/pause-by": "anna", "machinist.dev/pause-reason": "a new kernel", "machinist.dev/pause-until": until,
    });
    let patch = json!({"metadata": {"annotations": notes}, "spec": {"paused": true}});
    stage.pools.patch("worker", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

fn is_paused(pool: &MachineConfigPool) -> bool {
    pool.spec.paused == Some(true)
}

#[tokio::test]
async fn a_pause_ends_at_its_time_and_one_without_a_time_that_can_be_read_does_not() {
    let stage = Stage::start().await;
    let _controllers = stage.control();
    stage.settled_pool("worker", &["a"]).await;

    pause(&stage, "tomorrow").await;
    stage.event("PauseDoesNotEnd", "machinist.dev/pause-until is \"tomorrow\"").await;
    // A time from before the pause is a leftover.
    pause(&stage, "2020-01-01T00:00:00Z").await;
    stage.event("PauseDoesNotEnd", "was paused after 2020-01-01T00:00:00Z").await;
    assert!(is_paused(&stage.pools.get("worker").await.unwrap()));
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage
        .says("worker", "Updating", &["Pool is paused; will not update to MachineConfig rendered-worker-", "by anna"])
        .await;

    let until = Timestamp::now() + SignedDuration::from_secs(3);
    pause(&stage, &until.to_string()).await;
    wait_for(&stage.pools, "worker", "the pause to end", |pool| pool.is_some_and(|pool| !is_paused(pool))).await;
    assert!(Timestamp::now() >= until);
    stage.event("PauseEnded", "it was paused by anna until").await;
    let pool = stage.pools.get("worker").await.unwrap();
    let left: Vec<_> = pool.annotations().keys().filter(|key| key.contains("pause")).collect();
    assert!(left.is_empty(), "{left:?}");
    stage.updated("worker", 1).await;
}

#[tokio::test]
async fn what_a_pause_said_goes_when_somebody_ends_it() {
    let stage = Stage::start().await;
    let _controllers = stage.control();
    stage.settled_pool("worker", &["a"]).await;
    pause(&stage, "2100-01-01T00:00:00Z").await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage.says("worker", "Updating", &["by anna until 2100-01-01T00:00:00Z: a new kernel"]).await;
    let patch = json!({"spec": {"paused": false}});
    stage.pools.patch("worker", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    wait_for(&stage.pools, "worker", "the notes to go", |pool| {
        pool.is_some_and(|pool| !pool.annotations().keys().any(|key| key.contains("pause")))
    })
    .await;
}
