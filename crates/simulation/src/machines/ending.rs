//! What must hold when nothing goes wrong any more and nothing moves.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::machine::{ControlPlaneMachineSet, Machine, MachineCondition, MachineDeployment, MachineSet};
use k8s_openapi::api::core::v1::Node;
use machine::set::Readiness;

use super::Kind;
use super::api::Kept;
use super::cloud::{CLUSTER, Entry};
use super::world::World;

/// What stands still says why.
pub(crate) fn explained(world: &mut World) {
    let silent: Vec<String> = world
        .api
        .all::<Machine>()
        .filter(|machine| !serves(world, machine) && !says_why(world, machine))
        .map(|machine| {
            format!("machine {} is {:?}", machine.name(), machine.status.as_ref().and_then(|it| it.phase.clone()))
        })
        .collect();
    for sentence in silent {
        world.violate(Kind::Unexplained, sentence);
    }
    let short: Vec<String> = world
        .api
        .all::<MachineSet>()
        .filter(|set| i32::try_from(of_set(world, set).len()).ok() != set.spec.replicas && !set_says_why(set))
        .map(|set| format!("set {} has {} of {:?} machines", set.name(), of_set(world, set).len(), set.spec.replicas))
        .collect();
    for sentence in short {
        world.violate(Kind::Unexplained, sentence);
    }
}

/// Everything is as it was asked for, and the account balances.
pub(crate) fn finished(world: &mut World) {
    let mut sentences = Vec::new();
    for set in world.api.all::<MachineSet>() {
        let serving = of_set(world, set).iter().filter(|machine| serves(world, machine)).count();
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(0)).unwrap_or(0);
        if serving != wanted || of_set(world, set).len() != wanted {
            let all = of_set(world, set).len();
            sentences.push(format!("set {} wants {wanted} machines: {all} are there, {serving} serve", set.name()));
        }
    }
    for deployment in world.api.all::<MachineDeployment>() {
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.replicas;
        if [status.replicas, status.updated_replicas, status.available_replicas] != [wanted; 3] {
            sentences.push(format!("deployment {} wants {wanted:?} machines: {status:?}", deployment.name()));
        }
    }
    for set in world.api.all::<ControlPlaneMachineSet>() {
        let status = set.status.clone().unwrap_or_default();
        if [status.replicas, status.ready_replicas, status.updated_replicas] != [Some(3); 3] {
            let conditions: Vec<_> = status.conditions.iter().map(|it| (&it.reason, &it.message)).collect();
            sentences.push(format!("the control plane has {:?} of 3: {conditions:?}", status.updated_replicas));
        }
    }
    let leaving = world.api.all::<Machine>().filter(|machine| machine.is_leaving());
    sentences.extend(leaving.map(|machine| format!("machine {} does not go", machine.name())));
    for sentence in sentences {
        world.violate(Kind::Unfinished, sentence);
    }
    account(world);
}

/// Every instance of the cluster belongs to a Machine, and strangers are where they were.
fn account(world: &mut World) {
    let left: Vec<String> =
        orphans(world).map(|it| format!("instance {} of machine {}", it.id, it.mark.machine)).collect();
    for sentence in left {
        world.violate(Kind::Leak, sentence);
    }
    let strangers =
        world.cloud.entries.values().filter(|it| it.mark.cluster != CLUSTER || it.mark.machine == "by-hand");
    let strangers = strangers.filter(|it| it.leaving.is_none()).count();
    if strangers != 3 {
        world.violate(Kind::Touched, format!("{strangers} of 3 instances of others are left"));
    }
}

/// Whether an instance of the cluster belongs to no Machine.
pub(crate) fn has_orphans(world: &World) -> bool {
    orphans(world).next().is_some()
}

fn orphans(world: &World) -> impl Iterator<Item = &Entry> {
    let uids: BTreeSet<&str> = world.api.all::<Machine>().map(|it| it.uid()).collect();
    let named: BTreeSet<&str> = world.api.all::<Machine>().filter_map(|it| it.spec.provider_id.as_deref()).collect();
    let ours = world.cloud.entries.values().filter(|it| it.mark.cluster == CLUSTER && it.mark.machine != "by-hand");
    ours.filter(move |it| !uids.contains(it.mark.uid.as_str()) && !named.contains(it.id.as_str()))
}

fn of_set<'a>(world: &'a World, set: &MachineSet) -> Vec<&'a Arc<Machine>> {
    world.api.all::<Machine>().filter(|it| it.owner() == Some(set.uid()) && !it.is_leaving()).collect()
}

/// Whether a Machine has what it is for: a live instance with a node that is ready.
fn serves(world: &World, machine: &Machine) -> bool {
    let status = machine.status.clone().unwrap_or_default();
    let id = machine.spec.provider_id.as_deref().unwrap_or_default();
    let lives = world.cloud.entries.get(id).is_some_and(|it| it.is_live(world.now()));
    let node = status.node_ref.as_ref().and_then(|it| world.api.get::<Node>(it.name.as_deref()?));
    let node = node.filter(|node| status.node_ref.as_ref().is_some_and(|it| it.uid.as_deref() == Some(node.uid())));
    let is_ready = node.is_some_and(|node| Readiness::of_node(node) != Readiness::NotReady);
    lives && is_ready && status.phase.as_deref() == Some("Running")
}

/// Whether a condition, an error or the node itself says what is wrong.
fn says_why(world: &World, machine: &Machine) -> bool {
    let status = machine.status.clone().unwrap_or_default();
    let node = status.node_ref.as_ref().and_then(|it| world.api.get::<Node>(it.name.as_deref()?));
    let is_unready = node.is_some_and(|node| Readiness::of_node(node) == Readiness::NotReady);
    status.error_message.is_some() || is_unready || tells(&status.conditions)
}

fn set_says_why(set: &MachineSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    status.error_message.is_some() || tells(&status.conditions)
}

fn tells(conditions: &[MachineCondition]) -> bool {
    let is_trouble =
        |it: &MachineCondition| it.status != "True" && it.message.as_ref().is_some_and(|it| !it.is_empty());
    conditions.iter().any(is_trouble)
}
