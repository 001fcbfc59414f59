//! The whole fleet at a glance: what `status` prints and the dashboard draws.

use serde_json::{Value, json};

use crate::{Explanation, Member, Snapshot, State};

/// Of a larger fleet only the nodes that are not where they should be are shown.
const SMALL: usize = 30;

/// Everything there is to say about a fleet.
pub struct Fleet {
    pub pools: Vec<Explanation>,
    pub nodes: Vec<Explanation>,
    pub machine_sets: Vec<Explanation>,
    pub machines: Vec<Explanation>,
}

impl Fleet {
    /// Explains everything there is, or one pool and its nodes.
    #[must_use]
    pub fn of(snapshot: &Snapshot, only: Option<&str>) -> Self {
        let pools = snapshot.pools.keys().filter(|pool| only.is_none_or(|only| only == *pool));
        let in_pool = |name: &&String| match (only, snapshot.nodes.get(*name).map(|node| &node.member)) {
            (Some(only), Some(Member::Pool(pool))) => pool == only,
            (Some(_), _) => false,
            (None, _) => true,
        };
        Self {
            pools: pools.filter_map(|pool| crate::pool(snapshot, pool)).collect(),
            nodes: snapshot.nodes.keys().filter(in_pool).filter_map(|node| crate::node(snapshot, node)).collect(),
            machine_sets: snapshot.machine_sets.keys().filter_map(|set| crate::machine_set(snapshot, set)).collect(),
            machines: snapshot.machines.keys().filter_map(|it| crate::machine(snapshot, it)).collect(),
        }
    }

    /// The same as a document, with the numbers that belong to each.
    ///
    /// # Panics
    /// If the snapshot is not the one that the fleet was made from.
    #[must_use]
    pub fn to_value(&self, snapshot: &Snapshot) -> Value {
        let pools = self.pools.iter().map(|it| {
            let facts = &snapshot.pools[&it.name];
            let status = &facts.status;
            let mut value = json!(it);
            value["target"] = json!(facts.target);
            value["paused"] = json!(facts.paused);
            if let Some(pause) = &facts.pause {
                value["pause"] = json!(pause);
            }
            value["machineCount"] = json!(status.machine_count.unwrap_or(0));
            value["updatedMachineCount"] = json!(status.updated_machine_count.unwrap_or(0));
            value["readyMachineCount"] = json!(status.ready_machine_count.unwrap_or(0));
            value["unavailableMachineCount"] = json!(status.unavailable_machine_count.unwrap_or(0));
            value["degradedMachineCount"] = json!(status.degraded_machine_count.unwrap_or(0));
            value
        });
        let nodes = self.nodes.iter().map(|it| {
            let facts = &snapshot.nodes[&it.name];
            let mut value = json!(it);
            value["pool"] = json!(match &facts.member {
                Member::Pool(pool) => Some(pool),
                Member::Contested(_) | Member::Born(_) | Member::Unmanaged => None,
            });
            value["currentConfig"] = json!(facts.current);
            value["desiredConfig"] = json!(facts.desired);
            value
        });
        let sets = self.machine_sets.iter().map(|it| {
            let facts = &snapshot.machine_sets[&it.name];
            let mut value = json!(it);
            value["replicas"] = json!(facts.desired);
            value["readyReplicas"] = json!(facts.ready);
            value["availableReplicas"] = json!(facts.available);
            value
        });
        let machines = self.machines.iter().map(|it| {
            let facts = &snapshot.machines[&it.name];
            let mut value = json!(it);
            value["phase"] = json!(facts.phase);
            value["node"] = json!(facts.node);
            value["machineSet"] = json!(facts.set);
            value
        });
        json!({
            "pools": pools.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>(),
            "machineSets": sets.collect::<Vec<_>>(), "machines": machines.collect::<Vec<_>>(),
        })
    }

    /// The nodes that are worth a line.
    #[must_use]
    pub fn shown(&self, all: bool) -> Vec<&Explanation> {
        let whole = all || self.nodes.len() <= SMALL;
        self.nodes
            .iter()
            .filter(|node| whole || node.state != State::Updated)
            .take(if all { usize::MAX } else { SMALL })
            .collect()
    }

    /// The machines that are worth a line: one that runs is a node, which has its own.
    #[must_use]
    pub fn shown_machines(&self, all: bool) -> Vec<&Explanation> {
        let shown = self.machines.iter().filter(|machine| all || !is_running(machine));
        shown.take(if all { usize::MAX } else { SMALL }).collect()
    }

    /// The MachineSets that are worth a line.
    #[must_use]
    pub fn shown_sets(&self, all: bool) -> Vec<&Explanation> {
        let shown = self.machine_sets.iter().filter(|set| all || !is_running(set));
        shown.take(if all { usize::MAX } else { SMALL }).collect()
    }
}

/// Whether a machine or set is well; a node that restarts for its config is told of by its own line.
#[must_use]
pub fn is_running(it: &Explanation) -> bool {
    matches!(it.state, State::Running | State::Updating)
}
