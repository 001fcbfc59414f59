//! A fleet at rest costs nothing but batched lookups.

use std::time::Duration;

use testkit::{Kind, wait_until};

use crate::on_both;
use crate::stage::Stage;

on_both!(a_fleet_at_rest_is_looked_at_in_batches_and_never_written);

async fn a_fleet_at_rest_is_looked_at_in_batches_and_never_written(kind: Kind) {
    const FLEET: i32 = 60;
    let Some(mut stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_set("worker", FLEET).await;
    stage.available("worker", FLEET).await;
    testkit::wait_for_all(&stage.machines, "all to run", |machines| {
        machines.iter().all(|machine| crate::stage::phase(machine) == Some("Running"))
    })
    .await;
    first.kill().await;
    stage.account.lock().unwrap().looks.clear();
    stage.settings.resync = Duration::from_secs(1);
    let second = stage.control();
    let fleet = usize::try_from(FLEET).unwrap();
    // The first pass asks about each, then two sweeps.
    wait_until("three rounds of looks", || {
        let asked: usize = stage.account.lock().unwrap().looks.iter().sum();
        async move { (asked >= 3 * fleet).then_some(()) }
    })
    .await;
    let looks = stage.account.lock().unwrap().looks.clone();
    assert!(looks.len() <= 10, "{looks:?}");
    assert_eq!(second.life.effects(), 0, "nothing was written");
    second.kill().await;
}
