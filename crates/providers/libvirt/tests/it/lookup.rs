//! How domains are found, and with how many calls.

use std::sync::Arc;

use machine::provider::{Mark, Provider, Request};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn looking_at_many_machines_takes_two_calls() {
    let Some(world) = World::start("many").await else { return };
    let requests: Vec<_> = (0..6).map(|number| world.machine(&number.to_string(), &world.spec())).collect();
    for request in &requests[..5] {
        world.create(request).await.unwrap();
    }
    world.edge.forget_calls();
    let answers = world.provider.instances(&requests).await;
    let found: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().len()).collect();
    assert_eq!(found, [1, 1, 1, 1, 1, 0]);
    assert_eq!(world.edge.calls().len(), 2);
}

#[tokio::test]
async fn updating_a_machine_at_rest_calls_nothing_and_a_changed_autostart_is_carried_out() {
    let Some(world) = World::start("rest").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let seen = world.look(&request).await.remove(0);
    world.edge.forget_calls();
    assert_eq!(world.provider.update(&request, &seen).await.unwrap(), seen);
    assert_eq!(world.edge.calls(), []);
    let request = Request { spec: Arc::new(world.spec_with("autostart", json!(true))), ..request };
    world.provider.update(&request, &seen).await.unwrap();
    assert!(world.ask(&["dominfo", "rest-m"]).contains("Autostart:      enable"));
}

#[tokio::test]
async fn an_unreachable_host_fails_only_its_own_machines() {
    let Some(world) = World::start("hosts").await else { return };
    let good = world.machine("good", &world.spec());
    world.create(&good).await.unwrap();
    let lost = world.machine("lost", &world.spec_with("uri", json!("test+unix:///default?socket=/nowhere")));
    let answers = world.provider.instances(&[lost, good]).await;
    let kinds: Vec<_> =
        answers.into_iter().map(|it| it.map(|it| it.len()).map_err(|error| error.kind.to_string())).collect();
    assert_eq!(kinds, [Err("Unreachable".to_owned()), Ok(1)]);
}

/// A domain as OpenShift's controller leaves it: named after its Machine, and without a mark.
fn define_unmarked(world: &World, name: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let domain =
        format!("<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>");
    std::fs::write(file.path(), domain).unwrap();
    world.ask(&["define", &file.path().display().to_string()]);
    for volume in [name.to_owned(), format!("{name}.ignition")] {
        world.store(&["vol-create-as", &world.id, &volume, "10"]);
    }
}

#[tokio::test]
async fn a_domain_that_upstream_made_is_taken_over_marked_and_removed_with_its_volumes() {
    let Some(world) = World::start("taken").await else { return };
    define_unmarked(&world, "taken-m");
    let id = world.ask(&["domuuid", "taken-m"]).trim().to_owned();
    let known = Some(serde_json::json!({"instanceID": id}));
    let request = Request { intent: None, provider_status: known, ..world.machine("m", &world.spec()) };
    let seen = world.look(&request).await;
    assert_eq!(seen.len(), 1);
    world.provider.update(&request, &seen[0]).await.unwrap();
    assert!(world.ask(&["dumpxml", "taken-m"]).contains("uid=\"uid-taken-m\""));
    assert_eq!(world.look(&request).await.len(), 1);
    world.provider.delete(&request).await.unwrap();
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn a_domain_of_the_same_name_that_is_not_the_machines_is_left_alone() {
    let Some(world) = World::start("same").await else { return };
    define_unmarked(&world, "same-m");
    let request = world.machine("m", &world.spec());
    assert!(world.look(&request).await.is_empty(), "we were about to make one, so this is somebody else's");
    let error = world.create(&request).await.unwrap_err();
    assert!(error.message.contains("another domain same-m"), "{error}");
    world.provider.delete(&request).await.unwrap();
    assert_eq!(world.domains(), ["same-m"]);
    let unused = Request { intent: None, ..request.clone() };
    assert!(world.look(&unused).await.is_empty(), "a name is no proof");
    world.provider.delete(&unused).await.unwrap();
    assert_eq!(world.domains(), ["same-m"], "a Machine that never had a domain takes none with it");

    let older = world.machine("n", &world.spec());
    world.create(&older).await.unwrap();
    let newer = Request { mark: Mark { uid: "another".to_owned(), ..older.mark.clone() }, ..older.clone() };
    assert!(world.look(&newer).await.is_empty());
    world.provider.delete(&newer).await.unwrap();
    assert_eq!(world.look(&older).await.len(), 1);
}

#[tokio::test]
async fn a_machine_that_lost_its_cluster_label_keeps_its_domain_and_takes_it_along() {
    let Some(world) = World::start("label").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let without = Request { mark: Mark { cluster: String::new(), ..request.mark.clone() }, ..request.clone() };
    assert_eq!(world.look(&without).await.len(), 1);
    world.provider.delete(&without).await.unwrap();
    world.assert_empty("after deletion");
}
