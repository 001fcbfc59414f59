//! A process that dies at any step, after libvirt did what it was asked for.

use machine::provider::{Deletion, Provider, Search, State};

use crate::world::World;

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
    // Define, three volumes' worth of changes and an upload, the address, define again, start, mark.
    assert_eq!(interrupted, 9);
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
