//! Plans carried out on the world until it is quiet, with deaths between any two effects.

use api::machine::{Machine, MachineDeployment, MachineSet};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use machine::provider::ErrorKind;
use serde_json::json;

use crate::cloud::Fault;
use crate::make::object;
use crate::world::World;

fn set(name: &str, replicas: i32) -> MachineSet {
    object(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"set": name}},
            "template": {
                "metadata": {"labels": {"set": name, "machine.openshift.io/cluster-api-cluster": "c"}},
                "spec": {"providerSpec": {"value": {"type": "small"}}},
            },
        },
    }))
}

/// Nothing leaked, nothing was made twice, and exactly so many machines run.
#[track_caller]
fn check(world: &World, running: usize, case: &str) {
    assert_eq!(world.doubles, Vec::<String>::new(), "{case}: two instances for one machine");
    assert_eq!(world.leaks(), Vec::<String>::new(), "{case}: instances without a machine");
    assert_eq!(world.ghosts(), Vec::<String>::new(), "{case}: nodes without a machine");
    assert_eq!((world.running(), world.machines.len()), (running, running), "{case}: replicas");
    assert_eq!(world.cloud.entries.len(), running, "{case}: instances");
}

#[test]
fn a_set_grows_and_shrinks() {
    let mut world = World::new();
    world.add_set(set("a", 3));
    assert!(world.settle());
    check(&world, 3, "grown");
    world.scale("a", 1);
    assert!(world.settle());
    check(&world, 1, "shrunk");
    world.scale("a", 0);
    assert!(world.settle());
    check(&world, 0, "empty");
}

#[test]
fn a_deleted_machine_is_replaced_and_leaves_nothing_behind() {
    let mut world = World::new();
    world.add_set(set("a", 2));
    assert!(world.settle());
    let victim = world.machines.keys().next().unwrap().clone();
    let uid = world.machines[&victim].metadata.uid.clone();
    world.delete_machine(&victim);
    assert!(world.settle());
    check(&world, 2, "replaced");
    assert!(world.machines.values().all(|machine| machine.metadata.uid != uid));
}

/// The story of a set that grows, is scaled down and up again, with a death after so many effects of each part.
fn story(dies_after: usize, settling: SignedDuration) -> (World, usize) {
    let mut world = World::new();
    world.cloud.settling = settling;
    world.add_set(set("a", 3));
    world.lives_for = Some(dies_after);
    assert!(world.settle(), "never calm after a death at effect {dies_after} of growing");
    check(&world, 3, &format!("grown, death at {dies_after}"));
    let before = world.effects;
    world.scale("a", 1);
    world.lives_for = Some(dies_after);
    assert!(world.settle(), "never calm after a death at effect {dies_after} of shrinking");
    check(&world, 1, &format!("shrunk, death at {dies_after}"));
    (world, before)
}

#[test]
fn a_death_between_any_two_effects_leaks_nothing_and_doubles_nothing() {
    for settling in [SignedDuration::ZERO, SignedDuration::from_secs(20)] {
        let (_, effects) = story(usize::MAX, settling);
        assert!(effects > 20, "the story is too short to prove anything: {effects} effects");
        for dies_after in 0..effects {
            story(dies_after, settling);
        }
    }
}

#[test]
fn a_view_that_lags_behind_makes_no_machine_twice() {
    let mut world = World::new();
    world.add_set(set("a", 5));
    world.tick().unwrap();
    let first: Vec<_> = world.machines.values().cloned().collect();
    assert_eq!(first.len(), 5);
    // The set controller sees none, then only some of what it made.
    for seen in [0, 1, 3] {
        world.stale_machines = Some(first.iter().take(seen).cloned().collect());
        world.tick().unwrap();
        assert_eq!(world.machines.len(), 5, "after a view of {seen} machines");
    }
    assert!(world.settle());
    check(&world, 5, "calm");
}

#[test]
fn refused_creations_are_tried_again_and_no_further_machines_are_made_meanwhile() {
    let mut world = World::new();
    world.cloud.faults = std::iter::repeat_n(Fault::Refuse(ErrorKind::NoCapacity), 4).collect();
    world.add_set(set("a", 2));
    assert!(world.settle());
    check(&world, 2, "after refusals");
    world.cloud.faults = [Fault::Refuse(ErrorKind::NoCapacity)].into();
    world.scale("a", 3);
    for _ in 0..3 {
        world.tick().unwrap();
    }
    world.scale("a", 10);
    world.tick().unwrap();
    assert_eq!(world.machines.len(), 3, "a starved set makes no further machines");
    assert!(world.settle());
    check(&world, 10, "capacity came back");
}

#[test]
fn an_instance_that_the_cloud_gives_up_on_is_cleaned_up_and_made_again_under_another_token() {
    for dies_after in 0..40 {
        let mut world = World::new();
        world.cloud.faults = [Fault::FailLater(ErrorKind::NoCapacity), Fault::FailLater(ErrorKind::Quota)].into();
        world.add_set(set("a", 1));
        world.lives_for = Some(dies_after);
        assert!(world.settle(), "never calm, death at {dies_after}");
        check(&world, 1, &format!("made again, death at {dies_after}"));
    }
}

#[test]
fn an_instance_that_fails_after_its_id_was_written_is_made_again_and_its_machine_does_not_fail() {
    for dies_after in 0..40 {
        let mut world = World::new();
        let fault = Fault::FailWhileBooting(ErrorKind::NoCapacity);
        world.cloud.faults = [fault.clone(), fault].into();
        world.add_set(set("a", 1));
        world.lives_for = Some(dies_after);
        assert!(world.settle(), "never calm, death at {dies_after}");
        check(&world, 1, &format!("made again, death at {dies_after}"));
        assert!(world.cloud.faults.is_empty());
    }
}

#[test]
fn an_invalid_spec_fails_the_machine_and_costs_one_call() {
    let mut world = World::new();
    world.cloud.faults = std::iter::repeat_n(Fault::Refuse(ErrorKind::InvalidSpec), 5).collect();
    world.add_set(set("a", 1));
    assert!(world.settle());
    assert_eq!(world.cloud.faults.len(), 4);
    let machine = world.machines.values().next().unwrap();
    let status = machine.status.as_ref().unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.error_reason.as_deref()),
        (Some("Failed"), Some("InvalidConfiguration"))
    );
}

#[test]
fn a_machine_whose_spec_no_call_can_read_fails_and_can_be_deleted() {
    let mut world = World::new();
    let mut broken = set("a", 1);
    broken.spec.template.as_mut().unwrap().spec.as_mut().unwrap().provider_spec.as_mut().unwrap().value =
        Some(json!({"broken": true}));
    world.add_set(broken);
    for _ in 0..4 {
        world.tick().unwrap();
    }
    let status = world.machines.values().next().unwrap().status.clone().unwrap();
    // Lookups are refused too, so the machine waits for a spec that can be read.
    assert!(status.conditions.iter().any(|it| it.reason.as_deref() == Some("ErrorCheckingProvider")));
    world.scale("a", 0);
    assert!(world.settle(), "the machine cannot be deleted");
    check(&world, 0, "gone");
}

#[test]
fn a_machine_that_is_moved_to_another_region_keeps_its_instance_and_leaks_nothing_when_it_goes() {
    let region = |region: &str| json!({"type": "small", "region": region});
    let mut world = World::new();
    let mut placed = set("a", 1);
    placed.spec.template.as_mut().unwrap().spec.as_mut().unwrap().provider_spec.as_mut().unwrap().value =
        Some(region("r1"));
    world.add_set(placed);
    assert!(world.settle());
    let name = world.machines.keys().next().unwrap().clone();
    let edit = |world: &mut World, name: &str, value| {
        world.machines.get_mut(name).unwrap().spec.provider_spec.as_mut().unwrap().value = Some(value);
    };
    edit(&mut world, &name, region("r2"));
    assert!(world.settle());
    check(&world, 1, "moved");
    let status = world.machines[&name].status.clone().unwrap();
    assert!(status.conditions.iter().any(|it| it.reason.as_deref() == Some("PlaceChanged")), "{status:?}");
    world.delete_machine(&name);
    assert!(world.settle());
    check(&world, 1, "replaced");
    assert!(!world.machines.contains_key(&name));
}

#[test]
fn a_machine_without_an_instance_follows_its_spec_to_another_region() {
    let mut world = World::new();
    world.cloud.faults = [Fault::Refuse(ErrorKind::NoCapacity)].into();
    let mut placed = set("a", 1);
    placed.spec.template.as_mut().unwrap().spec.as_mut().unwrap().provider_spec.as_mut().unwrap().value =
        Some(json!({"region": "full"}));
    world.add_set(placed);
    for _ in 0..3 {
        world.tick().unwrap();
    }
    let machine = world.machines.values_mut().next().unwrap();
    machine.spec.provider_spec.as_mut().unwrap().value = Some(json!({"region": "empty"}));
    assert!(world.settle());
    check(&world, 1, "made");
    assert_eq!(world.cloud.entries[0].region, "empty");
}

#[test]
fn an_instance_that_vanishes_fails_its_machine_and_a_deletion_brings_another() {
    let mut world = World::new();
    world.add_set(set("a", 1));
    assert!(world.settle());
    world.cloud.entries.clear();
    world.nodes.clear();
    assert!(world.settle());
    let name = world.machines.keys().next().unwrap().clone();
    let status = world.machines[&name].status.clone().unwrap();
    assert_eq!(status.error_message.as_deref(), Some("can't find created instance"));
    world.delete_machine(&name);
    assert!(world.settle());
    check(&world, 1, "replaced");
}

/// Adds a copy of the only machine, as if admission had not run, and gives the original.
fn add_copy(world: &mut World) -> Machine {
    let original = world.machines.values().next().unwrap().clone();
    let mut copy = original.clone();
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.uid = Some("uid-copy".to_owned());
    copy.metadata.creation_timestamp = Some(Time(world.clock()));
    copy.metadata.owner_references = None;
    copy.metadata.labels = Some([("machine.openshift.io/cluster-api-cluster".to_owned(), "c".to_owned())].into());
    world.machines.insert("copy".to_owned(), copy);
    original
}

#[test]
fn deleting_the_original_waits_for_its_copy_and_leaks_nothing() {
    let mut world = World::new();
    world.add_set(set("a", 1));
    assert!(world.settle());
    let original = add_copy(&mut world).metadata.name.unwrap();
    world.scale("a", 0);
    for _ in 0..5 {
        world.tick().unwrap();
        world.pass(SignedDuration::from_secs(10));
    }
    assert!(world.machines.contains_key(&original), "the machine that the instance is marked for let go of it");
    world.delete_machine("copy");
    assert!(world.settle());
    check(&world, 0, "both are gone");
}

#[test]
fn deleting_a_copy_leaves_the_instance_to_the_original_whenever_the_process_dies() {
    for dies_after in 0..12 {
        let mut world = World::new();
        world.add_set(set("a", 1));
        assert!(world.settle());
        let original = add_copy(&mut world);
        world.tick().unwrap();
        for machine in world.machines.values() {
            let conditions = &machine.status.as_ref().unwrap().conditions;
            assert!(conditions.iter().any(|it| it.reason.as_deref() == Some("ProviderIDClaimedTwice")), "both say so");
        }
        let node = world.nodes.values_mut().next().unwrap();
        node.metadata.labels = Some([("touched".to_owned(), "never".to_owned())].into());
        world.delete_machine("copy");
        world.lives_for = Some(dies_after);
        assert!(world.settle(), "never calm, death at {dies_after}");
        check(&world, 1, &format!("the copy is gone, death at {dies_after}"));
        assert_eq!(world.cloud.entries[0].mark.uid, original.metadata.uid.unwrap());
        let node = world.nodes.values().next().unwrap();
        assert!(node.metadata.labels.is_some(), "the node was deleted and came again");
        assert!(node.spec.as_ref().unwrap().unschedulable.is_none(), "the node was cordoned");
    }
}

#[test]
fn a_deployment_rolls_within_its_bounds_and_ends() {
    let mut world = World::new();
    let deployment = |kind: &str| -> MachineDeployment {
        object(json!({
            "metadata": {"name": "d", "namespace": "ns", "uid": "uid-d", "generation": 1},
            "spec": {
                "replicas": 5,
                "selector": {"matchLabels": {"app": "d"}},
                "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
                "template": {
                    "metadata": {"labels": {"app": "d", "machine.openshift.io/cluster-api-cluster": "c"}},
                    "spec": {"providerSpec": {"value": {"type": kind}}},
                },
            },
        }))
    };
    world.deployments.insert("d".to_owned(), deployment("small"));
    assert!(world.settle());
    check(&world, 5, "first template");
    world.deployments.insert("d".to_owned(), deployment("large"));
    let mut fewest = usize::MAX;
    for _ in 0..60 {
        world.tick().unwrap();
        world.pass(SignedDuration::from_secs(10));
        fewest = fewest.min(world.serving());
    }
    assert!(world.settle());
    check(&world, 5, "second template");
    assert!(fewest >= 4, "only {fewest} machines served");
    assert!(world.peak <= 7, "{} instances at once", world.peak);
    let types = world
        .machines
        .values()
        .map(|machine| machine.spec.provider_spec.clone().unwrap().value.unwrap()["type"].clone());
    assert!(types.into_iter().all(|kind| kind == json!("large")));
    assert!(world.sets.len() <= 2, "history is kept to its limit");
    assert!(world.clock() > crate::make::now());
}

/// A small generator, so that a seed tells the whole story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn whatever_happens_the_account_balances_and_replicas_converge() {
    for seed in 1..=60 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut world = World::new();
        world.cloud.settling = SignedDuration::from_secs(i64::try_from(dice.roll(3) * 10).unwrap());
        world.add_set(set("a", 3));
        world.add_set(set("b", 2));
        for _ in 0..40 {
            trouble(&mut dice, &mut world);
            if world.tick().is_err() {
                world.lives_for = None;
            }
            world.pass(SignedDuration::from_secs(i64::try_from(dice.roll(15)).unwrap()));
        }
        world.lives_for = None;
        world.cloud.faults.clear();
        // What failed for good is what a health check would remove.
        for _ in 0..3 {
            assert!(world.settle(), "seed {seed}: never calm");
            let failed: Vec<_> = world
                .machines
                .iter()
                .filter(|(_, machine)| machine.status.as_ref().unwrap().phase.as_deref() == Some("Failed"))
                .map(|(name, _)| name.clone())
                .collect();
            failed.iter().for_each(|name| world.delete_machine(name));
        }
        let wanted = world.sets.values().map(|set| usize::try_from(set.spec.replicas.unwrap()).unwrap()).sum();
        check(&world, wanted, &format!("seed {seed}"));
    }
}

/// One thing that goes wrong, or changes, or nothing.
fn trouble(dice: &mut Dice, world: &mut World) {
    let kinds =
        [ErrorKind::NoCapacity, ErrorKind::Throttled { retry_after: None }, ErrorKind::Unreachable, ErrorKind::Other];
    let kind = kinds[usize::try_from(dice.roll(4)).unwrap()];
    let names: Vec<_> = world.machines.keys().cloned().collect();
    let pick = |dice: &mut Dice| names.get(usize::try_from(dice.roll(names.len().max(1) as u64)).unwrap()).cloned();
    match dice.roll(10) {
        0 => world.cloud.faults.push_back(Fault::Refuse(kind)),
        1 => world.cloud.faults.push_back(Fault::FailLater(kind)),
        2 | 3 => world.lives_for = Some(usize::try_from(dice.roll(25)).unwrap()),
        4 => world.scale("a", i32::try_from(dice.roll(6)).unwrap()),
        5 => pick(dice).iter().for_each(|name| world.delete_machine(name)),
        6 => {
            let seen = usize::try_from(dice.roll(names.len() as u64 + 1)).unwrap();
            world.stale_machines = Some(world.machines.values().take(seen).cloned().collect());
        }
        7 => {
            // Somebody removes an instance behind our back.
            let count = world.cloud.entries.len() as u64;
            if count > 0 {
                let index = usize::try_from(dice.roll(count)).unwrap();
                let entry = world.cloud.entries.remove(index);
                world.cloud.spent.push(entry.token.clone());
                let gone = format!("node-{}", entry.id.rsplit('/').next().unwrap());
                world.nodes.remove(&gone);
            }
        }
        _ => {}
    }
}
