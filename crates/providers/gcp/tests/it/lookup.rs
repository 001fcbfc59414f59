//! How many calls a fleet costs, what a restart finds, and what is found that belongs to nobody.

use machine::provider::{Deletion, Provider, Request, Search, State};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_fleet_is_looked_up_with_as_many_calls_as_its_zones_have_pages() {
    let Some(world) = World::start("fleet").await else { return };
    let elsewhere = world.spec_with("zone", json!("us-east1-c"));
    let spec = |number: usize| if number.is_multiple_of(2) { world.spec() } else { elsewhere.clone() };
    let requests: Vec<_> = (0..60).map(|number| world.machine(&number.to_string(), &spec(number))).collect();
    for request in &requests {
        world.create(request).await.unwrap();
    }
    world.fake.page(20);
    let before = world.fake.count();
    let answers = world.provider.instances(&requests).await;
    assert_eq!(world.fake.count() - before, 4, "two pages of each zone");
    for (request, answer) in requests.iter().zip(answers) {
        let status = answer.unwrap().remove(0).provider_status.unwrap();
        assert_eq!(status["instanceId"], json!(request.mark.machine));
    }
    assert!(world.fake.faults().is_empty(), "{:?}", world.fake.faults());
}

#[tokio::test]
async fn operations_of_many_machines_are_looked_up_with_one_call() {
    let Some(world) = World::start("many").await else { return };
    let mut requests = Vec::new();
    for number in 0..10 {
        let request = world.machine(&number.to_string(), &world.spec());
        world.fake.exhaust("ZONE_RESOURCE_POOL_EXHAUSTED");
        let made = world.create(&request).await.unwrap();
        requests.push(Request { provider_status: made.provider_status, ..request });
    }
    let before = world.fake.count();
    let answers = world.provider.instances(&requests).await;
    assert_eq!(world.fake.count() - before, 2, "a list of instances and one of operations");
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap()[0].state == State::Pending));
}

#[tokio::test]
async fn a_process_that_died_between_the_insertion_and_its_report_makes_no_second_instance() {
    let Some(world) = World::start("died").await else { return };
    let request = world.machine("m", &world.spec());
    // Nothing of the answer is recorded on the Machine.
    world.create(&request).await.unwrap();
    let next = world.restarted();
    let made = next.create(&request, request.intent.as_ref().unwrap()).await.unwrap();
    assert_eq!((made.state, made.provider_id), (State::Pending, None));
    assert_eq!(world.fake.calls("compute.instances.insert").len(), 1);
    world.look(&request).await;
    let seen = world.look(&request).await.remove(0);
    assert_eq!(seen.provider_id.as_deref(), Some("gce://project-1/us-east1-b/died-m"));
    world.delete(&request).await;
    assert!(world.fake.left().is_empty());
}

#[tokio::test]
async fn the_sweep_finds_instances_and_disks_that_outlived_theirs_and_takes_nothing_else() {
    let Some(world) = World::start("sweep").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let search = world.search();
    let listed = world.provider.marked(&search).await.unwrap();
    let kinds = |listed: &[machine::provider::Marked]| listed.iter().map(|it| it.kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&listed), ["instance"], "a disk in use goes with its instance");
    assert_eq!((&listed[0].mark, listed[0].created.is_some()), (&request.mark, true));
    assert_eq!(listed[0].provider_id.as_deref(), Some("gce://project-1/us-east1-b/sweep-m"));
    let other = Search { cluster: "sweep-other".to_owned(), ..search.clone() };
    assert!(world.provider.marked(&other).await.unwrap().is_empty());
    // The name has become another Machine's since the list was made.
    let mut stale = listed[0].clone();
    stale.mark.uid = "uid-before".to_owned();
    assert_eq!(world.provider.remove(&search, &stale).await.unwrap(), Deletion::Gone);
    assert_eq!(world.look(&request).await.len(), 1);
    world.fake.strand();
    let listed = world.provider.marked(&search).await.unwrap();
    assert_eq!(kinds(&listed), ["disk"]);
    assert_eq!(world.provider.remove(&search, &listed[0]).await.unwrap(), Deletion::Requested);
    assert_eq!(world.provider.remove(&search, &listed[0]).await.unwrap(), Deletion::Gone, "again does no harm");
    assert!(world.fake.left().is_empty() && world.fake.faults().is_empty(), "{:?}", world.fake.faults());
}
