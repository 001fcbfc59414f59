//! What the removal of one machine means for its node and its pods.

use api::annotations::EXCLUDE_NODE_DRAINING;
use api::machine::Machine;
use kube::ResourceExt as _;

use super::{Departure, Fleet};

impl Departure {
    pub(super) fn of(machine: &Machine, fleet: &Fleet, by: &str, why: &str) -> Self {
        let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()?.name.clone());
        let is_there = |name: &String| fleet.nodes.iter().any(|node| node.name_any() == *name);
        let drains = node.as_ref().is_some_and(is_there) && !machine.annotations().contains_key(EXCLUDE_NODE_DRAINING);
        let on_node = |name: &String| fleet.pods.as_ref().map(|all| all.get(name).cloned().unwrap_or_default());
        let pods = match &node {
            Some(name) if drains => on_node(name),
            Some(_) | None => Some(Vec::new()),
        };
        Self {
            machine: machine.name_any(),
            by: by.to_owned(),
            why: why.to_owned(),
            node,
            drains,
            pods,
            blocked: Vec::new(),
            hooks: hooks(machine),
        }
    }
}

fn hooks(machine: &Machine) -> Vec<String> {
    let Some(hooks) = &machine.spec.lifecycle_hooks else { return Vec::new() };
    let named = |when: &str, hook: &api::machine::LifecycleHook| format!("{when} {} of {}", hook.name, hook.owner);
    let before_drain = hooks.pre_drain.iter().map(|hook| named("preDrain", hook));
    before_drain.chain(hooks.pre_terminate.iter().map(|hook| named("preTerminate", hook))).collect()
}
