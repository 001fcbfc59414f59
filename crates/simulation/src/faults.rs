//! What goes wrong, and what people do meanwhile.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::State;

use crate::random::Random;
use crate::world::{Pod, World, is_ours, set_unschedulable, unready};

/// Configs are numbered; the pool's newest one is the highest that was set.
pub(crate) fn config(number: u64) -> String {
    format!("rendered-worker-{number}")
}

/// Lets one thing happen to nodes or pool. Says whether it did.
pub(crate) fn strike(world: &mut World, random: &mut Random) -> bool {
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    let Some(name) = random.pick(&names).cloned() else { return false };
    match random.below(16) {
        0 | 1 => new_target(world, random),
        2 => world.edit_pool(|pool| pool.paused = !pool.paused),
        3 => {
            let limit = i32::try_from(1 + random.below(3)).unwrap_or(1);
            world.edit_pool(|pool| pool.max_unavailable = Some(IntOrString::Int(limit)));
        }
        4 | 5 => crash(world, &name),
        6 => recover(world, &name),
        7 => edit(world, &name, |facts| facts.hold = if facts.hold.is_some() { None } else { Some(String::new()) }),
        8 => cordon(world, &name),
        9 => uncordon(world, &name),
        10 => {
            let hand_set = config(random.below(4) as u64);
            edit(world, &name, |facts| facts.desired = Some(hand_set));
        }
        11 => edit(world, &name, |facts| facts.state = State::Unknown("\u{1F980} garbage".to_owned())),
        12 if world.nodes.len() > 2 => world.delete_node(&name),
        12 | 13 => {
            let born = random.once_in(2).then(|| config(0));
            let ours = !random.once_in(3);
            let name = format!("new-{}", world.version);
            world.add_node(&name, born.as_deref(), ours);
        }
        14 => world.budget_open = !world.budget_open,
        _ => edit(world, &name, |facts| facts.reason = Some("heartbeat".to_owned())),
    }
    true
}

/// Repairs everything, so that from now on the fleet has to come to its end.
pub(crate) fn repair(world: &mut World) {
    world.outage = false;
    world.budget_open = true;
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in &names {
        recover(world, name);
        edit(world, name, |facts| facts.hold = None);
        uncordon(world, name);
    }
    let number = world.version;
    world.edit_pool(|pool| {
        pool.paused = false;
        set_target(pool, &config(number));
    });
}

/// The small things of life: pods come and go, time passes.
pub(crate) fn live(world: &mut World, random: &mut Random) {
    world.pass(SignedDuration::from_millis(i64::try_from(random.below(1500)).unwrap_or(0)));
    world.version += 1;
    let uid = world.version;
    for node in world.nodes.values_mut() {
        node.pods.retain(|pod| pod.terminating.is_none() || random.once_in(2));
        if !node.facts.unschedulable && node.pods.len() < 2 && random.once_in(4) {
            node.pods.push(Pod {
                uid: uid * 100 + node.pods.len() as u64,
                protected: random.once_in(3),
                terminating: None,
            });
        }
    }
}

fn new_target(world: &mut World, random: &mut Random) {
    let name = config(world.version);
    if random.once_in(4) {
        world.bad.insert(name.clone(), random.once_in(2));
    }
    world.edit_pool(|pool| set_target(pool, &name));
}

pub(crate) fn set_target(pool: &mut rollout::PoolFacts, name: &str) {
    pool.configuration = Some(api::machineconfiguration::MachineConfigPoolConfiguration {
        name: Some(name.to_owned()),
        ..Default::default()
    });
}

fn crash(world: &mut World, name: &str) {
    if let Some(node) = world.nodes.get_mut(name) {
        node.crashed = true;
    }
    let _gone = world.change_node(name, None, |facts| facts.unready = unready(false, facts.unschedulable));
}

fn recover(world: &mut World, name: &str) {
    let Some(node) = world.nodes.get_mut(name) else { return };
    if node.crashed {
        node.crashed = false;
        let _gone = world.change_node(name, None, |facts| facts.unready = unready(true, facts.unschedulable));
    }
}

/// `kubectl cordon` does nothing to a node that is cordoned.
fn cordon(world: &mut World, name: &str) {
    let Some(node) = world.nodes.get_mut(name) else { return };
    if !node.facts.unschedulable {
        // While the note that the cordon is ours is still on the node, nobody can tell a person's from it.
        node.cordoned_by_person = !is_ours(&node.facts);
        edit(world, name, |facts| set_unschedulable(facts, true));
    }
}

fn uncordon(world: &mut World, name: &str) {
    if let Some(node) = world.nodes.get_mut(name) {
        node.cordoned_by_person = false;
    }
    edit(world, name, |facts| set_unschedulable(facts, false));
}

fn edit(world: &mut World, name: &str, edit: impl FnOnce(&mut rollout::NodeFacts)) {
    let _gone = world.change_node(name, None, edit);
}
