//! Finding instances: how few calls it takes, and whose they are.

use machine::provider::{Deletion, Provider, Request};
use serde_json::json;

use crate::world::{World, id_of, secrets};

#[tokio::test]
async fn a_thousand_machines_are_looked_up_with_a_handful_of_calls() {
    let Some(world) = World::start("thousand").await else { return };
    let mut requests: Vec<_> = (0..1000).map(|number| world.machine(&format!("{number}"), &world.spec())).collect();
    for at in [7, 500, 999] {
        let made = world.create(&requests[at]).await.unwrap();
        requests[at].provider_id = made.provider_id;
    }
    let before = world.edge.count();
    let answers = world.provider.instances(&requests).await;
    let calls = world.edge.count() - before;
    assert!(calls <= 3, "{calls} calls");
    let found: Vec<_> = (0..1000).filter(|at| !answers[*at].as_ref().unwrap().is_empty()).collect();
    assert_eq!(found, [7, 500, 999]);
    // What was just seen is not asked for again.
    let before = world.edge.count();
    world.provider.update(&requests[7], &answers[7].as_ref().unwrap()[0]).await.unwrap();
    assert_eq!(world.edge.count(), before);
}

#[tokio::test]
async fn trouble_with_one_account_fails_only_its_machines() {
    let Some(world) = World::start("accounts").await else { return };
    world.edge.throttle("AKIABAD");
    let good = world.machine("one", &world.spec());
    world.create(&good).await.unwrap();
    let bad = Request { secrets: secrets("AKIABAD").into(), ..world.machine("two", &world.spec()) };
    let answers = world.provider.instances(&[bad.clone(), good, bad]).await;
    assert!(answers[0].is_err() && answers[2].is_err());
    assert_eq!(answers[1].as_ref().unwrap().len(), 1);
}

#[tokio::test]
async fn an_instance_that_upstream_made_is_taken_over_and_marked() {
    let Some(world) = World::start("takeover").await else { return };
    let fields = [
        ("ImageId", world.image.as_str()),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("SubnetId", world.subnet.as_str()),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", "Name"),
        ("TagSpecification.1.Tag.1.Value", "takeover-one"),
        ("TagSpecification.1.Tag.2.Key", "kubernetes.io/cluster/takeover-cluster"),
        ("TagSpecification.1.Tag.2.Value", "owned"),
    ];
    let theirs = world.made("RunInstances", &fields, "instanceId").await;
    let request = Request { intent: None, ..world.machine("one", &world.spec()) };
    let seen = world.look(&request).await.pop().unwrap();
    assert_eq!(id_of(&seen), theirs);
    let known = Request { provider_id: seen.provider_id.clone(), ..request };
    world.provider.update(&known, &seen).await.unwrap();
    let described = world.described(&seen).await;
    assert!(described.contains("<key>machinist.dev/uid</key><value>uid-takeover-one</value>"), "{described}");
    let anew = Request { mark: machine::provider::Mark { uid: "another".to_owned(), ..known.mark.clone() }, ..known };
    let anew = Request { provider_id: None, ..anew };
    assert!(world.look(&anew).await.is_empty(), "a Machine made anew under the name does not inherit it");
}

#[tokio::test]
async fn an_instance_whose_tags_were_taken_away_is_found_by_its_id_and_tagged_again() {
    let Some(world) = World::start("untagged").await else { return };
    let request = world.machine("one", &world.spec());
    let made = world.create(&request).await.unwrap();
    let keys = ["Name", "kubernetes.io/cluster/untagged-cluster", "machinist.dev/machine", "machinist.dev/uid"];
    for key in keys {
        world.ask("DeleteTags", &[("ResourceId.1", id_of(&made)), ("Tag.1.Key", key)]).await;
    }
    assert!(world.look(&request).await.is_empty());
    let known = Request { provider_id: made.provider_id.clone(), ..request.clone() };
    let seen = world.look(&known).await.pop().unwrap();
    assert_eq!(seen.provider_id, made.provider_id);
    world.provider.update(&known, &seen).await.unwrap();
    assert_eq!(world.look(&request).await.len(), 1);
}

#[tokio::test]
async fn an_instance_that_somebody_renamed_is_still_found() {
    let Some(world) = World::start("renamed").await else { return };
    let request = world.machine("one", &world.spec());
    let made = world.create(&request).await.unwrap();
    world.tag(id_of(&made), "Name", "pet").await;
    assert_eq!(world.look(&request).await.len(), 1);
}

#[tokio::test]
async fn a_machine_that_lost_its_spec_is_deleted_by_what_the_intent_kept() {
    let Some(world) = World::start("specless").await else { return };
    let request = world.machine("one", &world.spec());
    world.create(&request).await.unwrap();
    let place = request.intent.as_ref().unwrap().place.clone();
    assert_eq!(place, json!({"placement": {"region": "us-east-1"}, "credentialsSecret": {"name": "keys"}}));
    let bare = Request { spec: place.into(), ..request };
    assert_eq!(world.provider.delete(&bare).await.unwrap(), Deletion::Requested);
    assert_eq!(world.provider.delete(&bare).await.unwrap(), Deletion::Gone);
}
