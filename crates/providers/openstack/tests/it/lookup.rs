//! How many calls a fleet costs.

use axum::http::Method;
use machine::provider::{Provider, Request};
use serde_json::json;

use crate::world::{World, spec};

#[tokio::test]
async fn a_fleet_is_looked_up_with_as_many_calls_as_there_are_pages() {
    let world = World::start().await;
    let requests: Vec<_> = (0..60).map(|number| world.machine(&format!("m-{number}"), &spec(json!({})))).collect();
    for request in &requests {
        world.create(request).await.unwrap();
    }
    world.fake.project.lock().page = 25;
    let before = world.fake.count();
    let answers = world.provider.instances(&requests).await;
    assert_eq!(world.fake.count() - before, 3, "three pages of 25");
    for (request, answer) in requests.iter().zip(answers) {
        let seen = answer.unwrap();
        assert_eq!(seen.len(), 1, "{}", request.mark.machine);
        assert!(seen[0].addresses.iter().any(|it| it.address == request.mark.machine));
    }
}

#[tokio::test]
async fn a_few_machines_are_asked_for_by_their_tags() {
    let world = World::start().await;
    let requests: Vec<_> = (0..3).map(|number| world.machine(&format!("m-{number}"), &spec(json!({})))).collect();
    world.run(&requests[0]).await;
    let before = world.fake.count();
    let answers = world.provider.instances(&requests).await;
    assert_eq!(answers.iter().map(|answer| answer.as_ref().unwrap().len()).collect::<Vec<_>>(), [1, 0, 0]);
    assert_eq!(world.fake.count() - before, 1);
    let list = world.fake.calls(&Method::GET, "/servers/detail").pop().unwrap();
    assert_eq!(list.query[0].1, "machinist-uid-uid-m-0,machinist-uid-uid-m-1,machinist-uid-uid-m-2");
}

#[tokio::test]
async fn a_server_whose_tags_were_taken_away_is_found_by_its_id() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    let instance = world.run(&request).await;
    world.fake.project.lock().servers[0]["tags"] = json!([]);
    let known = Request { provider_id: instance.provider_id.clone(), ..request };
    let seen = world.look(&known).await;
    assert_eq!(seen.len(), 1);
    world.provider.update(&known, &seen[0]).await.unwrap();
    let tags = world.fake.project.lock().servers[0]["tags"].clone();
    assert_eq!(tags, json!(["machinist-cluster-c1", "machinist-uid-uid-m-1"]), "they are written again");
}

#[tokio::test]
async fn one_cloud_s_trouble_is_not_another_s() {
    let [one, two] = [World::start().await, World::start().await];
    let good = one.machine("m-1", &spec(json!({})));
    one.run(&good).await;
    let bad = Request { secrets: two.secrets().into(), ..one.machine("m-2", &spec(json!({}))) };
    for _ in 0..3 {
        let garbage = crate::fake::Answer { status: 200, body: "<html>a login page".to_owned(), headers: Vec::new() };
        two.fake.plan(Method::GET, "/servers/detail", garbage);
    }
    let answers = one.provider.instances(&[bad, good]).await;
    assert!(answers[0].is_err(), "garbage is no empty list");
    assert_eq!(answers[1].as_ref().unwrap().len(), 1);
}
