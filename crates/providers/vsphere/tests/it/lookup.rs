//! How virtual machines are found, and with how many calls.

use std::sync::Arc;

use machine::provider::{Mark, Provider, Request, State};
use serde_json::json;

use crate::world::{World, secrets_with};

#[tokio::test]
async fn looking_at_many_machines_takes_as_many_calls_as_looking_at_one() {
    let Some(world) = World::start("many").await else { return };
    let requests: Vec<_> = (0..6).map(|number| world.machine(&number.to_string(), &world.spec())).collect();
    for request in &requests[..5] {
        world.create(request).await.unwrap();
    }
    world.edge.forget_calls();
    world.provider.instances(&requests[..1]).await;
    let for_one = world.edge.arrived().len();
    world.edge.forget_calls();
    let answers = world.provider.instances(&requests).await;
    let found: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().len()).collect();
    assert_eq!(found, [1, 1, 1, 1, 1, 0]);
    assert_eq!(world.edge.arrived().len(), for_one);
}

#[tokio::test]
async fn updating_a_machine_at_rest_calls_nothing() {
    let Some(world) = World::start("rest").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let seen = world.look(&request).await.remove(0);
    world.edge.forget_calls();
    assert_eq!(world.provider.update(&request, &seen).await.unwrap(), seen);
    assert!(world.edge.arrived().is_empty());
}

#[tokio::test]
async fn a_machine_that_upstream_made_is_taken_over_and_marked() {
    let Some(world) = World::start("taken").await else { return };
    let uid = "5736bf56-49f5-4667-b38c-b97e09dc9578";
    let request = world.machine("m", &world.spec());
    let request = Request { mark: Mark { uid: uid.to_owned(), ..request.mark.clone() }, intent: None, ..request };
    world.copy_by_hand("taken-m").await;
    let vm = world.vm("taken-m").await;
    assert!(world.look(&request).await.is_empty());
    let uuid = format!("<spec><instanceUuid>{uid}</instanceUuid></spec>");
    world.ask("ReconfigVM_Task", ("VirtualMachine", &vm), &uuid).await;
    let seen = world.look_until(&request, |instance| instance.state == State::Stopped).await;
    world.provider.update(&request, &seen).await.unwrap();
    assert!(world.property(&vm, "config.extraConfig").await.contains(&format!("uid={uid};stage=made")));
    world.delete(&request).await;
    assert!(!world.has_vm("taken-m").await);
}

#[tokio::test]
async fn a_machine_made_anew_under_an_old_name_does_not_inherit() {
    let Some(world) = World::start("anew").await else { return };
    let older = world.machine("m", &world.spec());
    world.create(&older).await.unwrap();
    let newer = Request { mark: Mark { uid: "another".to_owned(), ..older.mark.clone() }, ..older.clone() };
    assert!(world.look(&newer).await.is_empty());
    world.provider.delete(&newer).await.unwrap();
    assert_eq!(world.look(&older).await.len(), 1);
    let without = Request { mark: Mark { cluster: String::new(), ..older.mark.clone() }, ..older.clone() };
    assert_eq!(world.look(&without).await.len(), 1, "a Machine that lost its cluster label keeps its machine");
}

#[tokio::test]
async fn credentials_that_are_refused_fail_only_their_own_machines_and_are_not_told() {
    let Some(world) = World::start("wrong").await else { return };
    let good = world.machine("good", &world.spec());
    world.create(&good).await.unwrap();
    let wrong = Request { secrets: Arc::new(secrets_with("not-the-password")), ..world.machine("bad", &world.spec()) };
    let nowhere = world.machine("nowhere", &world.spec_in("datacenter", "DC9"));
    let answers = world.provider.instances(&[wrong, good, nowhere]).await;
    let kinds: Vec<_> =
        answers.iter().map(|it| it.as_ref().map(Vec::len).map_err(|error| error.kind.to_string())).collect();
    assert_eq!(kinds, [Err("Credentials".to_owned()), Ok(1), Err("NotFound".to_owned())]);
    assert!(!format!("{answers:?}").contains("not-the-password"));
}

#[tokio::test]
async fn tags_are_attached_once() {
    let Some(world) = World::start("tags").await else { return };
    let tag = world.make_tag("red").await;
    let request = world.machine("m", &world.spec_with("tagIDs", json!([tag])));
    world.create(&request).await.unwrap();
    let vm = world.vm("tags-m").await;
    assert_eq!(world.tags_of(&vm).await, std::slice::from_ref(&tag));
    let seen = world.look(&request).await.remove(0);
    world.edge.forget_calls();
    world.provider.update(&request, &seen).await.unwrap();
    assert!(world.edge.arrived().is_empty());
    let unknown = "urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:GLOBAL";
    let lacking = world.machine("n", &world.spec_with("tagIDs", json!([unknown])));
    let error = world.create(&lacking).await.unwrap_err();
    assert!(error.kind.to_string() == "NotFound" && error.message.contains("tagIDs"), "{error}");
}
