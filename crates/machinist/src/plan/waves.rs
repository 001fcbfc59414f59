//! In which order nodes would go: the rollout's own plan, carried out on paper until it rests.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfigPool, MachineConfigPoolConfiguration};
use explain::Objects;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use rollout::node::State;
use rollout::{Action, NodeFacts};

use super::proposal::Left;

/// Where a rollout would get.
pub(super) struct Reach {
    pub(super) waves: Vec<Vec<String>>,
    pub(super) left: Vec<Left>,
    /// What each node runs now.
    pub(super) current: BTreeMap<String, Option<String>>,
}

pub(super) fn of(pool: &MachineConfigPool, to: &str, objects: &Objects, now: Timestamp) -> Reach {
    let mut pool = pool.clone();
    pool.spec.configuration = Some(MachineConfigPoolConfiguration { name: Some(to.to_owned()), ..Default::default() });
    pool.spec.paused = Some(false);
    let mut pools = objects.pools.clone();
    match pools.iter_mut().find(|it| it.name_any() == pool.name_any()) {
        Some(it) => *it = pool.clone(),
        None => pools.push(pool.clone()),
    }
    let input = rollout::Objects {
        machine_config_nodes: &objects.machine_config_nodes,
        pods: objects.etcd.as_ref().map(Vec::as_slice),
        ..rollout::Objects::new(&pool, &pools, &objects.nodes)
    };
    let settings = rollout::Settings { settle: SignedDuration::ZERO, ..Default::default() };
    let mut snapshot = rollout::Snapshot::from_objects(input, settings, now);
    let current = snapshot.nodes.iter().map(|node| (node.name.clone(), node.current.clone())).collect();
    let mut waves = Vec::new();
    loop {
        let plan = rollout::plan(&snapshot);
        let targets: Vec<String> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Target(target) => Some(target.node.clone()),
                _ => None,
            })
            .collect();
        if targets.is_empty() {
            return Reach { waves, left: left(&snapshot, to, &plan.next), current };
        }
        for name in &targets {
            let Some(facts) = snapshot.nodes.get(name).cloned() else { continue };
            snapshot.observe_node(arrived(facts, to));
        }
        waves.push(targets);
    }
}

/// A node that has made the change.
fn arrived(facts: NodeFacts, to: &str) -> NodeFacts {
    NodeFacts {
        current: Some(to.to_owned()),
        desired: Some(to.to_owned()),
        state: State::Done,
        unready: None,
        unschedulable: false,
        reason: None,
        reverted: None,
        ..facts
    }
}

fn left(snapshot: &rollout::Snapshot, to: &str, next: &rollout::Next) -> Vec<Left> {
    let (rollout::Next::OnChange(waiting) | rollout::Next::After(_, waiting)) = next;
    let there = |node: &&NodeFacts| node.desired.as_deref() != Some(to);
    let left = snapshot.nodes.iter().filter(there).map(|node| Left {
        node: node.name.clone(),
        why: match &node.hold {
            Some(_) => "a person holds it".to_owned(),
            None => waiting.to_string(),
        },
    });
    left.collect()
}
