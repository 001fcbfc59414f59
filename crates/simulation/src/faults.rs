//! Faults of machines, nodes and the pool, and interventions by people.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::State;

use crate::daemon::Process;
use crate::host::{Host, Power};
use crate::pods::{Workload, WorkloadKind};
use crate::random::Random;
use crate::world::{BadConfig, Config, World, is_ours, set_unschedulable};

/// The name of the config that was created in this step.
pub(crate) fn config(number: usize) -> String {
    format!("rendered-pool-{number}")
}

/// The number of the pool's final config.
pub(crate) const LAST: usize = 10_000;

/// Injects one random fault.
pub(crate) fn strike(world: &mut World, step: usize, random: &mut Random) {
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    let Some(name) = random.pick(&names).cloned() else { return };
    let is_control_plane = rollout::control_plane::is_control_plane(&world.pool.name);
    match random.below(28) {
        0..=2 => new_target(world, step, random),
        3 => world.edit_pool(|pool| pool.paused = !pool.paused),
        4 => world.edit_pool(|pool| pool.paused = false),
        5 => {
            let limit = any_limit(random);
            world.edit_pool(|pool| pool.max_unavailable = limit);
        }
        6 | 7 => power_off(world, &name),
        8 => power_on(world, &name),
        9 => cut_off(world, &name),
        10 => names.iter().filter(|_| random.once_in(2)).for_each(|name| cut_off(world, name)),
        11 => link(world, &name),
        12 | 13 => names.iter().for_each(|name| link(world, name)),
        14 => edit(world, &name, |facts| facts.hold = if facts.hold.is_some() { None } else { Some(String::new()) }),
        15 | 16 => cordon(world, &name),
        17 => uncordon(world, &name),
        18 => set_by_hand(world, &name, &config(random.below(4))),
        19 => edit(world, &name, |facts| facts.state = State::Unknown("\u{1F980} garbage".to_owned())),
        20 if is_control_plane => toggle_member(world, &name),
        20 if world.nodes.len() > 2 => world.delete_node(&name),
        20 | 21 if !is_control_plane => add_node(world, step, random),
        20 | 21 => toggle_member(world, &name),
        22 => world.budget_open = !world.budget_open,
        23 => with_host(world, &name, |host| host.process = Process::default()),
        24 | 25 => {
            let jump = any_jump(random);
            with_host(world, &name, |host| host.clock += jump);
        }
        26 => {
            let name = format!("agent-{step}");
            world.workloads.push(Workload { name, kind: WorkloadKind::DaemonSet });
        }
        _ => edit(world, &name, |facts| facts.reason = Some("heartbeat".to_owned())),
    }
}

/// Ends all faults and sets a new, good target. In a `grim` run some nodes stay dead or cordoned for ever.
pub(crate) fn repair(world: &mut World, grim: bool, random: &mut Random) {
    world.outage = false;
    world.budget_open = true;
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in &names {
        let is_lost = world.nodes.get(name).is_some_and(|node| node.host.is_lost());
        if !(grim && is_lost && random.once_in(2)) {
            power_on(world, name);
            link(world, name);
        }
        with_host(world, name, |host| {
            if let Some(member) = &mut host.etcd {
                member.sick = false;
            }
        });
        edit(world, name, |facts| facts.hold = None);
        if !(grim && random.once_in(2)) {
            uncordon(world, name);
        }
    }
    world.edit_pool(|pool| {
        pool.paused = false;
        set_target(pool, &config(LAST));
    });
}

pub(crate) fn set_target(pool: &mut rollout::PoolFacts, name: &str) {
    pool.configuration = Some(api::machineconfiguration::MachineConfigPoolConfiguration {
        name: Some(name.to_owned()),
        ..Default::default()
    });
}

pub(crate) fn any_limit(random: &mut Random) -> Option<IntOrString> {
    match random.below(8) {
        0 => None,
        1 => Some(IntOrString::String("40%".to_owned())),
        2..=4 => Some(IntOrString::Int(1)),
        5 | 6 => Some(IntOrString::Int(2)),
        _ => Some(IntOrString::Int(3)),
    }
}

/// A clock jump: small or large, forward or back.
pub(crate) fn any_jump(random: &mut Random) -> SignedDuration {
    let jumps = [30, -30, 3600, -3600, 86_400, -86_400];
    SignedDuration::from_secs(*random.pick(&jumps).unwrap_or(&0))
}

fn new_target(world: &mut World, step: usize, random: &mut Random) {
    let name = config(step);
    let faults = [BadConfig::Refused, BadConfig::Unwritable, BadConfig::FailsTrial, BadConfig::Kills].map(Some);
    let fault = if random.once_in(3) { random.pick(&faults).copied().flatten() } else { None };
    let live = random.once_in(4) && fault != Some(BadConfig::Kills);
    world.configs.insert(name.clone(), Config { fault, live });
    world.tell(|| format!("{name} is {fault:?}, live {live}"));
    world.edit_pool(|pool| set_target(pool, &name));
}

fn add_node(world: &mut World, step: usize, random: &mut Random) {
    let born = random.once_in(2).then(|| config(0));
    let ours = born.is_none() || !random.once_in(3);
    world.add_node(&format!("new-{step}"), born.as_deref(), ours);
}

fn with_host(world: &mut World, name: &str, change: impl FnOnce(&mut Host)) {
    if let Some(node) = world.nodes.get_mut(name) {
        change(&mut node.host);
    }
}

fn power_off(world: &mut World, name: &str) {
    world.tell(|| format!("{name} loses its power"));
    with_host(world, name, |host| host.power = Power::Off);
}

fn power_on(world: &mut World, name: &str) {
    let now = world.now;
    with_host(world, name, |host| {
        if host.power == Power::Off {
            *host = Host {
                power: Power::On,
                boot: host.boot + 1,
                booted: now,
                process: Process::default(),
                ..host.clone()
            };
        }
    });
    world.tell(|| format!("{name} has power"));
}

fn cut_off(world: &mut World, name: &str) {
    world.tell(|| format!("{name} is cut off from the cluster"));
    with_host(world, name, |host| host.linked = false);
}

fn link(world: &mut World, name: &str) {
    if world.nodes.get(name).is_some_and(|node| !node.host.linked) {
        world.tell(|| format!("{name} can be reached again"));
        with_host(world, name, |host| host.linked = true);
    }
}

fn toggle_member(world: &mut World, name: &str) {
    let now = world.now;
    with_host(world, name, |host| {
        if let Some(member) = &mut host.etcd {
            member.sick = !member.sick;
        }
        host.watch_member(now);
    });
    world.tell(|| format!("the member of etcd on {name} falls sick or is well again"));
}

/// `kubectl cordon` does nothing to a node that is already cordoned.
pub(crate) fn cordon(world: &mut World, name: &str) {
    let Some(node) = world.nodes.get_mut(name) else { return };
    if !node.facts.unschedulable {
        // While our annotation is still on the node, a person's cordon cannot be told from ours.
        node.cordoned_by_person = !is_ours(&node.facts);
        world.tell(|| format!("a person cordons {name}"));
        edit(world, name, |facts| set_unschedulable(facts, true));
    }
}

fn uncordon(world: &mut World, name: &str) {
    if let Some(node) = world.nodes.get_mut(name) {
        node.cordoned_by_person = false;
        node.host.opened |= node.facts.unschedulable;
    }
    edit(world, name, |facts| set_unschedulable(facts, false));
}

fn set_by_hand(world: &mut World, name: &str, config: &str) {
    if let Some(node) = world.nodes.get_mut(name) {
        node.hand_set |= node.facts.desired.as_deref() != Some(config);
    }
    edit(world, name, |facts| facts.desired = Some(config.to_owned()));
}

fn edit(world: &mut World, name: &str, edit: impl FnOnce(&mut rollout::NodeFacts)) {
    let _gone = world.change_node(name, None, edit);
}
