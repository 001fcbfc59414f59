//! A process that dies at any step, after vCenter did what it was asked for; and clones that take their time.

use std::sync::Arc;

use machine::provider::{Deletion, Intent, Provider, Request, Search, State};
use serde_json::json;

use crate::world::{World, secrets};

/// The answer to each change is lost in turn. A change that is not made at all leaves what the one before it left.
const CHANGES: std::ops::Range<usize> = 0..20;

#[tokio::test]
async fn a_creation_that_was_interrupted_is_finished_by_the_next_one() {
    let Some(world) = World::start("finish").await else { return };
    let mut interrupted = 0;
    for change in CHANGES {
        let name = change.to_string();
        let request = world.machine(&name, &world.spec_in("vmGroup", "group"));
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
        let seen = world.look_until(&request, |instance| instance.state == State::Running).await;
        let updated = provider.update(&request, &seen).await.unwrap();
        assert_eq!(updated.provider_id, seen.provider_id);
        let vm = world.vm(&request.mark.machine).await;
        assert!(world.property(&vm, "config.extraConfig").await.contains("stage=made"), "{name}");
        assert_eq!(world.marked().await, std::slice::from_ref(&request.mark.machine), "{name}");
        world.delete(&request).await;
        assert!(world.marked().await.is_empty(), "{name}");
    }
    // The clone, the group, the power, the mark.
    assert_eq!(interrupted, 4);
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
        // A clone whose answer was lost may still be on its way.
        let made = world.look_until_marked(&request).await;
        assert!(made, "{name}");
        let place = request.intent.as_ref().unwrap().place.clone();
        let search = Search { cluster: "sweep-cluster".to_owned(), place: place.into(), secrets: Arc::new(secrets()) };
        for orphan in world.provider.marked(&search).await.unwrap() {
            assert_eq!(orphan.mark, request.mark);
            world.provider.remove(&search, &orphan).await.unwrap();
        }
        assert!(world.marked().await.is_empty(), "{name}");
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
        world.delete(&request).await;
        assert!(world.marked().await.is_empty(), "{name}");
        if first.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn a_clone_that_takes_its_time_is_followed_by_its_recorded_task() {
    let Some(world) = World::start("slow").await else { return };
    let request = world.machine("m", &world.spec());
    world.edge.hold_clones(true).await;
    let pending = world.create_impatiently(&request).await.unwrap();
    assert_eq!((pending.state.clone(), pending.provider_id.as_deref()), (State::Pending, None));
    let recorded = Request { provider_status: pending.provider_status.clone(), ..request.clone() };
    // Another process finds the task, shows it, and clones nothing a second time.
    let other = world.restarted();
    let seen = other.instances(std::slice::from_ref(&recorded)).await.pop().unwrap().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].state, State::Pending);
    assert_eq!(other.update(&recorded, &seen[0]).await.unwrap(), seen[0], "there is nothing to change yet");
    let again = other.create(&recorded, recorded.intent.as_ref().unwrap()).await.unwrap();
    assert_eq!(again.provider_status, pending.provider_status);
    assert_eq!(world.edge.count("CloneVM_Task"), 1);
    world.edge.hold_clones(false).await;
    // Cloned and off is no instance: the next creation switches it on.
    assert!(world.look_until_marked(&request).await);
    let made = world.until_made(&recorded).await;
    assert_eq!(made.state, State::Running);
    assert_eq!(world.edge.count("CloneVM_Task"), 1);
    world.delete(&recorded).await;
}

#[tokio::test]
async fn a_task_that_nobody_wrote_down_makes_no_second_machine() {
    let Some(world) = World::start("lost").await else { return };
    let request = world.machine("m", &world.spec());
    world.edge.hold_clones(true).await;
    world.create_impatiently(&request).await.unwrap();
    // The status could not be written: the next process knows the intent and no more.
    let again = world.create_impatiently(&request).await.unwrap();
    assert_eq!(again.state, State::Pending);
    assert_eq!(world.edge.count("CloneVM_Task"), 2);
    world.edge.hold_clones(false).await;
    assert_eq!(world.until_made(&request).await.state, State::Running);
    assert_eq!(world.marked().await, ["lost-m"], "the second clone met the name of the first");
    world.delete(&request).await;
    assert!(world.marked().await.is_empty());
}

#[tokio::test]
async fn a_deletion_during_a_clone_waits_for_it_and_leaves_nothing() {
    let Some(world) = World::start("during").await else { return };
    for (name, is_recorded) in [("known", true), ("lost", false)] {
        let request = world.machine(name, &world.spec());
        world.edge.hold_clones(true).await;
        let pending = world.create_impatiently(&request).await.unwrap();
        let status = pending.provider_status.filter(|_| is_recorded);
        let request = Request { provider_status: status, ..request };
        assert_eq!(world.provider.delete(&request).await.unwrap(), Deletion::Requested, "{name}");
        world.edge.hold_clones(false).await;
        // A task that was asked to end may have gone too far: its machine appears, and goes.
        world.edge.settle_clones().await;
        world.delete(&request).await;
        assert!(world.marked().await.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_clone_that_failed_later_is_told_once_and_tried_anew() {
    let Some(world) = World::start("failed").await else { return };
    let request = world.machine("m", &world.spec());
    world.edge.hold_clones(true).await;
    let pending = world.create_impatiently(&request).await.unwrap();
    // Somebody takes the name meanwhile, in the folder of the clone.
    world.copy_by_hand("failed-m").await;
    world.edge.hold_clones(false).await;
    let recorded = Request { provider_status: pending.provider_status, ..request.clone() };
    let seen = world.look_until(&recorded, |instance| matches!(instance.state, State::Failed(_))).await;
    let State::Failed(error) = &seen.state else { panic!("{seen:?}") };
    assert!(error.message.contains("DuplicateName"), "{error}");
    // The next attempt has another number, and the old task is not its own.
    let intent = Intent { attempt: 2, ..request.intent.clone().unwrap() };
    let next = Request { intent: Some(intent), ..recorded };
    assert!(world.look(&next).await.is_empty());
    let error = world.create(&next).await.unwrap_err();
    assert!(error.message.contains("another virtual machine failed-m"), "{error}");
    world.delete(&next).await;
    assert!(world.has_vm("failed-m").await, "it is somebody else's");
}

#[tokio::test]
async fn two_processes_that_make_the_same_machine_make_one() {
    let Some(world) = World::start("twice").await else { return };
    for number in 0..3 {
        let request = world.machine(&number.to_string(), &world.spec_with("numCPUs", json!(2)));
        let intent = request.intent.as_ref().unwrap();
        let providers = [world.restarted(), world.restarted()];
        let made = futures::future::join_all(providers.iter().map(|provider| provider.create(&request, intent))).await;
        made.into_iter().for_each(|made| drop(made.unwrap()));
        assert_eq!(world.until_made(&request).await.state, State::Running);
    }
    assert_eq!(world.marked().await.len(), 3);
}
