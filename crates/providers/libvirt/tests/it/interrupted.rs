//! A process that dies at any step, after libvirt did what it was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::provider::{Deletion, Provider, Request, Search, SecretData, Secrets, State};

use crate::world::{USER_DATA, World};

/// The answer to each change is lost in turn. A change that is not made at all leaves what the one before it left.
const CHANGES: std::ops::Range<usize> = 0..20;

#[tokio::test]
async fn a_creation_that_was_interrupted_is_finished_by_the_next_one() {
    let Some(world) = World::start("finish").await else { return };
    let mut interrupted = 0;
    for change in CHANGES {
        let name = change.to_string();
        let request = world.machine(&name, &world.spec());
        world.edge.breaks(Some(change));
        let first = world.create(&request).await;
        world.edge.breaks(None);
        if first.is_ok() {
            break;
        }
        interrupted += 1;
        let provider = world.restarted();
        let seen = provider.instances(std::slice::from_ref(&request)).await.pop().unwrap().unwrap();
        if seen.is_empty() {
            provider.create(&request, request.intent.as_ref().unwrap()).await.unwrap();
        }
        let seen = world.look(&request).await;
        assert_eq!(seen.iter().map(|it| it.state.clone()).collect::<Vec<_>>(), [State::Running], "{name}");
        let updated = provider.update(&request, &seen[0]).await.unwrap();
        assert_eq!(updated.provider_id, seen[0].provider_id);
        assert!(world.ask(&["dumpxml", &request.mark.machine]).contains("stage=\"made\""), "{name}");
        assert_eq!(provider.delete(&request).await.unwrap(), Deletion::Gone);
        world.assert_empty(&name);
    }
    // Define, the disk, the volume of the first boot and its content, the address, start, mark.
    assert_eq!(interrupted, 7);
}

#[tokio::test]
async fn whatever_an_interrupted_creation_left_is_listed_and_removed_by_the_sweep() {
    let Some(world) = World::start("sweep").await else { return };
    for change in CHANGES {
        let name = change.to_string();
        let request = world.machine(&name, &world.spec());
        world.edge.breaks(Some(change));
        let first = world.create(&request).await;
        world.edge.breaks(None);
        let place = request.intent.as_ref().unwrap().place.clone();
        let search = Search { cluster: "sweep-cluster".to_owned(), place: place.into(), secrets: Default::default() };
        for orphan in world.provider.marked(&search).await.unwrap() {
            assert_eq!(orphan.mark, request.mark);
            world.provider.remove(&search, &orphan).await.unwrap();
        }
        world.assert_empty(&name);
        if first.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn a_deletion_that_was_interrupted_is_finished_by_the_next_one() {
    let Some(world) = World::start("delete").await else { return };
    for change in CHANGES {
        let name = change.to_string();
        let request = world.machine(&name, &world.spec());
        world.create(&request).await.unwrap();
        world.edge.breaks(Some(change));
        let first = world.provider.delete(&request).await;
        world.edge.breaks(None);
        assert_eq!(world.restarted().delete(&request).await.unwrap(), Deletion::Gone);
        world.assert_empty(&name);
        if first.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn volumes_of_a_domain_that_a_person_undefined_go_with_the_machine() {
    let Some(world) = World::start("undefined").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    world.ask(&["destroy", "undefined-m"]);
    world.ask(&["undefine", "undefined-m"]);
    assert!(world.look(&request).await.is_empty());
    assert_eq!(world.volumes().len(), 2);
    world.provider.delete(&request).await.unwrap();
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn two_processes_that_make_the_same_machine_make_one() {
    let Some(world) = World::start("twice").await else { return };
    for number in 0..4 {
        let request = world.machine(&number.to_string(), &world.spec());
        let intent = request.intent.as_ref().unwrap();
        let providers = [world.restarted(), world.restarted()];
        let made = futures::future::join_all(providers.iter().map(|provider| provider.create(&request, intent))).await;
        let ids: Vec<_> = made.into_iter().map(|made| made.unwrap().provider_id).collect();
        assert_eq!(ids[0], ids[1]);
        let domain = world.ask(&["dumpxml", &request.mark.machine]);
        assert!(domain.contains("opt/com.coreos/config"), "it was started without its config: {domain}");
        let content = std::fs::read_to_string(world.folder.join(&intent.children["boot"])).unwrap();
        assert_eq!(content, USER_DATA);
    }
    assert_eq!(world.domains().len(), 4);
}

#[tokio::test]
async fn a_secret_that_changed_before_the_machine_was_made_counts_as_it_is_now() {
    let Some(world) = World::start("changed").await else { return };
    let request = world.machine("m", &world.spec());
    // The fourth change is the upload; the domain is not started yet.
    world.edge.breaks(Some(3));
    world.create(&request).await.unwrap_err();
    world.edge.breaks(None);
    let newer = BTreeMap::from([("userData".to_owned(), b"{\"newer\": true}".to_vec())]);
    let secrets = Secrets { credentials: None, user_data: Some(SecretData(newer)) };
    let request = Request { secrets: Arc::new(secrets), ..request };
    world.create(&request).await.unwrap();
    let boot = &request.intent.as_ref().unwrap().children["boot"];
    assert_eq!(std::fs::read_to_string(world.folder.join(boot)).unwrap(), "{\"newer\": true}");
}
