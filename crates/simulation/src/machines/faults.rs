//! What goes wrong in a run, and what people do meanwhile.

use std::sync::Arc;

use api::labels::MACHINE_CLUSTER;
use api::machine::{ControlPlaneMachineSet, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::api::{Guard, Kept};
use super::build::{self, template};
use super::cloud::{CLUSTER, Mood};
use super::hosts::Illness;
use super::replica::Replica;
use super::view::Watch;
use super::world::{Why, World};
use crate::random::Random;

/// The name of a copy that somebody made of a Machine.
pub(crate) const COPY: &str = "copy";

/// One thing happens to the world.
pub(crate) fn strike(world: &mut World, step: usize, random: &mut Random) {
    let fault = random.below(26);
    match fault {
        0..=2 => scale(world, random),
        3 | 4 => change_deployment(world, step, random),
        5 | 6 => person_deletes(world, random),
        7 | 8 => lose_instance(world, random),
        9..=11 => sicken(world, random),
        12 => heal(world, random),
        13 => lose_node(world, random),
        14..=16 => change_mood(world, random),
        17 => world.cloud.mood = Mood { whims: world.cloud.mood.whims, ..Mood::default() },
        18 => copy_machine(world, random),
        19 | 20 => change_control_plane(world, step),
        21 => protect(world, random),
        22 => edit_labels(world, random),
        23 => pause(world, random),
        24 => world.etcd.unread = !world.etcd.unread,
        _ => world.whims = !world.whims,
    }
}

/// One thing happens to a process.
pub(crate) fn disturb(world: &World, replica: &mut Replica, random: &mut Random) -> &'static str {
    let now = world.now();
    match random.below(8) {
        0 | 1 => {
            replica.restart(world);
            "dies"
        }
        2 => {
            replica.frozen = Some(now + random.seconds(240));
            "is stopped"
        }
        3 => {
            let hours = [-24, -1, 1, 24][random.below(4)];
            replica.clock = if random.once_in(2) { SignedDuration::ZERO } else { SignedDuration::from_hours(hours) };
            "has another clock"
        }
        4 => {
            replica.view.set_watch(random.below(6), Watch::Silent(now));
            "has a silent watch"
        }
        5 => {
            replica.view.set_watch(random.below(6), Watch::Fails);
            "has a failing watch"
        }
        _ => {
            replica.view.mend();
            "watches again"
        }
    }
}

/// Nothing goes wrong any more.
pub(crate) fn repair(world: &mut World) {
    world.cloud.mood = Mood::default();
    world.whims = false;
    world.etcd.mend();
    let ids: Vec<String> = world.hosts.all.keys().cloned().collect();
    for id in ids {
        world.hosts.ail(&id, Illness::None, world.api.now);
        if let Some(host) = world.hosts.all.get_mut(&id) {
            host.clock = SignedDuration::ZERO;
            host.protected = false;
        }
    }
    for name in names::<MachineHealthCheck>(world) {
        let _gone = world.api.edit::<MachineHealthCheck>(&name, &Guard::default(), |it| build::pause(it, false));
    }
    for name in names::<Machine>(world) {
        let _gone = world.api.edit::<Machine>(&name, &Guard::default(), |it| {
            it.metadata.labels.get_or_insert_default().insert(MACHINE_CLUSTER.to_owned(), CLUSTER.to_owned());
        });
    }
}

/// A person deletes what only a person can deal with. Says whether there was anything.
pub(crate) fn help(world: &mut World) -> bool {
    let now = world.now();
    let is_hopeless = |machine: &Machine| {
        let status = machine.status.clone().unwrap_or_default();
        let is_failed = status.phase.as_deref() == Some("Failed");
        let node = status.node_ref.as_ref().and_then(|it| world.api.get::<Node>(it.name.as_deref()?));
        let is_bereft =
            status.node_ref.as_ref().is_some_and(|it| node.is_none_or(|node| Some(node.uid()) != it.uid.as_deref()));
        let id = machine.spec.provider_id.clone().unwrap_or_default();
        let never = world.cloud.entries.get(&id).is_some_and(|it| it.boots.is_none() || it.has_failed(now));
        let host = world.hosts.all.get(&id);
        let never = never || host.is_some_and(|host| world.api.get::<Node>(&host.node).is_none());
        is_failed || is_bereft || never || machine.name() == COPY
    };
    let hopeless = world.api.all::<Machine>().filter(|it| !it.is_leaving() && is_hopeless(it));
    let mut hopeless: Vec<Arc<Machine>> = hopeless.cloned().collect();
    // One machine of the control plane at a time.
    let (masters, others): (Vec<_>, Vec<_>) = hopeless.into_iter().partition(|it| it.name().contains("master"));
    hopeless = others.into_iter().chain(masters.into_iter().take(1)).collect();
    for machine in &hopeless {
        let _gone = world.delete_machine(machine.name(), machine.uid(), &Why::Person);
    }
    // Nodes that nothing looks after any more.
    let ghosts = world.api.all::<Node>().filter(|node| {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        !world.cloud.entries.contains_key(&id)
    });
    let ghosts: Vec<String> = ghosts.map(|node| node.name().to_owned()).collect();
    for node in &ghosts {
        let _gone = world.api.delete::<Node>(node, &Guard::default());
    }
    world.pass_to(now);
    !hopeless.is_empty() || !ghosts.is_empty()
}

fn names<K: Kept>(world: &World) -> Vec<String> {
    world.api.all::<K>().map(|it| it.name().to_owned()).collect()
}

fn any<K: Kept>(world: &World, random: &mut Random) -> Option<Arc<K>> {
    let all: Vec<Arc<K>> = world.api.all::<K>().cloned().collect();
    random.pick(&all).cloned()
}

fn scale(world: &mut World, random: &mut Random) {
    let name = ["a", "b"][random.below(2)];
    let replicas = i32::try_from(random.below(6)).unwrap_or(0);
    world.tell(|| format!("a person scales {name} to {replicas}"));
    let _gone = world.api.edit::<MachineSet>(name, &Guard::default(), |it| it.spec.replicas = Some(replicas));
}

fn change_deployment(world: &mut World, step: usize, random: &mut Random) {
    let replicas = i32::try_from(random.below(5)).unwrap_or(0);
    let is_scaled = random.once_in(2);
    world.tell(|| format!("a person changes the deployment to size {step} or {replicas} replicas"));
    let _none = world.api.edit::<MachineDeployment>("d", &Guard::default(), |it| {
        if is_scaled {
            it.spec.replicas = Some(replicas);
        } else {
            it.spec.template = template("d", (step % 3) as u64);
        }
    });
}

fn person_deletes(world: &mut World, random: &mut Random) {
    // Nobody deletes two machines of a control plane at once by hand and expects it to live.
    let Some(machine) = any::<Machine>(world, random).filter(|it| !it.name().contains("master")) else { return };
    let _gone = world.delete_machine(machine.name(), machine.uid(), &Why::Person);
}

fn lose_instance(world: &mut World, random: &mut Random) {
    let ours =
        world.cloud.entries.values().filter(|it| it.mark.cluster == CLUSTER && !it.mark.machine.contains("hand"));
    // Whoever loses two of three members of etcd has lost the cluster, whatever the controllers do.
    let masters_stay = has_master_trouble(world);
    let ours = ours.filter(|it| !(masters_stay && it.mark.machine.contains("master")));
    let ids: Vec<String> = ours.map(|it| it.id.clone()).collect();
    if let Some(id) = random.pick(&ids).cloned() {
        world.tell(|| format!("somebody removes instance {id}"));
        world.cloud.take_away(&id, random);
    }
}

/// Whether a machine of the control plane is missing, unwell or on its way.
fn has_master_trouble(world: &World) -> bool {
    let masters = || world.cloud.entries.iter().filter(|(_, it)| it.mark.machine.contains("master"));
    let is_well = |id: &String| world.hosts.all.get(id).is_some_and(|host| host.illness == Illness::None);
    let leaving = world.api.all::<Machine>().any(|it| it.name().contains("master") && it.is_leaving());
    leaving || masters().count() != 3 || masters().any(|(id, it)| !it.is_live(world.now()) || !is_well(id))
}

fn sicken(world: &mut World, random: &mut Random) {
    let ids: Vec<String> = world.hosts.all.keys().cloned().collect();
    let Some(id) = random.pick(&ids).cloned() else { return };
    let is_master = world.cloud.entries.get(&id).is_some_and(|it| it.mark.machine.contains("master"));
    if is_master && has_master_trouble(world) {
        return;
    }
    let illness = if random.once_in(2) { Illness::Silent } else { Illness::Complains };
    let now = world.now();
    world.tell(|| format!("the kubelet of {id} is {illness:?}"));
    world.hosts.ail(&id, illness, now);
    if let Some(host) = world.hosts.all.get_mut(&id) {
        // Its clock may be a day behind, so that it says it has been ill for as long.
        host.clock = SignedDuration::from_hours([0, -24, 24][random.below(3)]);
        host.persistent = !random.once_in(4);
    }
}

fn heal(world: &mut World, random: &mut Random) {
    let ids: Vec<String> = world.hosts.all.keys().cloned().collect();
    let now = world.now();
    for id in ids {
        if random.once_in(2) {
            world.hosts.ail(&id, Illness::None, now);
        }
    }
}

fn lose_node(world: &mut World, random: &mut Random) {
    if let Some(node) = any::<Node>(world, random) {
        world.tell(|| format!("a person deletes node {}", node.name()));
        let _gone = world.api.delete::<Node>(node.name(), &Guard::default());
    }
}

fn change_mood(world: &mut World, random: &mut Random) {
    let mood = &mut world.cloud.mood;
    let flags = [
        &mut mood.full,
        &mut mood.throttles,
        &mut mood.unreachable,
        &mut mood.locked_out,
        &mut mood.boots_nothing,
        &mut mood.whims,
    ];
    if let Some(flag) = flags.into_iter().nth(random.below(6)) {
        *flag = !*flag;
    }
    let mood = *mood;
    world.tell(|| format!("the cloud: {mood:?}"));
}

/// Somebody copies a Machine with everything that says whose instance it has, as if admission had not run.
fn copy_machine(world: &mut World, random: &mut Random) {
    let Some(original) = any::<Machine>(world, random) else { return };
    if original.spec.provider_id.is_none() || original.name() == COPY || original.is_leaving() {
        return;
    }
    world.tell(|| format!("a person copies machine {}", original.name()));
    let mut copy = Machine::clone(&original);
    copy.metadata.name = Some(COPY.to_owned());
    copy.metadata.owner_references = None;
    copy.metadata.labels = Some([(MACHINE_CLUSTER.to_owned(), CLUSTER.to_owned())].into());
    let _exists = world.api.create(copy);
}

fn change_control_plane(world: &mut World, step: usize) {
    let size = step % 3;
    world.tell(|| format!("a person changes the control plane to size {size}"));
    let _none = world.api.edit::<ControlPlaneMachineSet>("cluster", &Guard::default(), |it| {
        let template = it.spec.template.machines.get_or_insert_default();
        template.spec.get_or_insert_default().provider_spec.get_or_insert_default().value =
            Some(json!({ "size": size }));
    });
}

fn protect(world: &mut World, random: &mut Random) {
    for host in world.hosts.all.values_mut() {
        host.protected = random.once_in(3);
    }
}

fn edit_labels(world: &mut World, random: &mut Random) {
    let Some(machine) = any::<Machine>(world, random).filter(|it| !it.name().contains("master")) else { return };
    let label = if random.once_in(2) { MACHINE_CLUSTER } else { "app" };
    world.tell(|| format!("machine {} loses its label {label}", machine.name()));
    let _gone = world.api.edit::<Machine>(machine.name(), &Guard::default(), |it| {
        it.metadata.labels.get_or_insert_default().remove(label);
    });
}

fn pause(world: &mut World, random: &mut Random) {
    let paused = random.once_in(2);
    if let Some(check) = any::<MachineHealthCheck>(world, random) {
        let _gone =
            world.api.edit::<MachineHealthCheck>(check.name(), &Guard::default(), |it| build::pause(it, paused));
    }
}
