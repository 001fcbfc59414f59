//! `machinist status`: the fleet at a glance.

mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use explain::{Explanation, Snapshot, State};
use serde_json::{Value, json};

use crate::gather::{self, Cluster, Depth};
use crate::output::{self, Format};

/// How often a live table is drawn anew, at most.
const REDRAW: Duration = Duration::from_secs(1);

/// How much of the time a live table may be reading: a large fleet is looked at more seldom, so that nobody's terminal
/// keeps its API server busy.
const READING: u32 = 10;

/// Of a larger fleet only the nodes that are not where they should be are shown.
const SMALL: usize = 30;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// Keep the table live until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// Show every node, also of a large fleet
    #[arg(long)]
    all: bool,
    /// Only this pool and its nodes
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Print as JSON or YAML instead of a table
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(status(arguments))
}

async fn status(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    // Machines belong to no pool, so whoever asks for one pool is not told of them.
    let depth = if arguments.pool.is_some() { Depth::Fleet } else { Depth::Machines };
    let mut told = false;
    loop {
        let began = Instant::now();
        let world = gather::world(&client, depth).await?;
        let (took, snapshot) = (began.elapsed(), world.snapshot());
        if let Some(pool) = arguments.pool.as_deref().filter(|pool| !snapshot.pools.contains_key(*pool)) {
            bail!("there is no MachineConfigPool {pool}");
        }
        let fleet = Fleet::of(&snapshot, arguments.pool.as_deref());
        if !told {
            output::warn(world.notes.iter());
            told = true;
        }
        let text = match arguments.output {
            Some(format) => {
                let mut value = fleet.to_value(&snapshot);
                value["notes"] = json!(world.notes);
                format.write_one(&value)?
            }
            None => table::draw(&fleet, &snapshot, arguments.all),
        };
        if !arguments.watch {
            output::print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        // Home, then the table, then clear what an earlier, longer one left below: no flicker.
        let frame = if arguments.output.is_none() { format!("\x1b[H\x1b[2J{text}") } else { text };
        output::print(&frame)?;
        tokio::select! {
            () = tokio::time::sleep(pause(took)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// How long to leave the cluster alone after a reading that took this long.
fn pause(took: Duration) -> Duration {
    REDRAW.max(took * (READING - 1))
}

/// Everything the table says.
pub(crate) struct Fleet {
    pub(crate) pools: Vec<Explanation>,
    pub(crate) nodes: Vec<Explanation>,
    pub(crate) machine_sets: Vec<Explanation>,
    pub(crate) machines: Vec<Explanation>,
}

impl Fleet {
    fn of(snapshot: &Snapshot, only: Option<&str>) -> Self {
        let pools = snapshot.pools.keys().filter(|pool| only.is_none_or(|only| only == *pool));
        let in_pool = |name: &&String| match (only, snapshot.nodes.get(*name).map(|node| &node.member)) {
            (Some(only), Some(explain::Member::Pool(pool))) => pool == only,
            (Some(_), _) => false,
            (None, _) => true,
        };
        Self {
            pools: pools.filter_map(|pool| explain::pool(snapshot, pool)).collect(),
            nodes: snapshot.nodes.keys().filter(in_pool).filter_map(|node| explain::node(snapshot, node)).collect(),
            machine_sets: snapshot.machine_sets.keys().filter_map(|set| explain::machine_set(snapshot, set)).collect(),
            machines: snapshot.machines.keys().filter_map(|it| explain::machine(snapshot, it)).collect(),
        }
    }

    fn to_value(&self, snapshot: &Snapshot) -> Value {
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
                explain::Member::Pool(pool) => Some(pool),
                explain::Member::Contested(_) | explain::Member::Unmanaged => None,
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
    pub(crate) fn shown(&self, all: bool) -> Vec<&Explanation> {
        let whole = all || self.nodes.len() <= SMALL;
        self.nodes
            .iter()
            .filter(|node| whole || node.state != State::Updated)
            .take(if all { usize::MAX } else { SMALL })
            .collect()
    }

    /// The machines that are worth a line: one that runs is a node, which has its own.
    pub(crate) fn shown_machines(&self, all: bool) -> Vec<&Explanation> {
        let shown = self.machines.iter().filter(|machine| all || !is_running(machine));
        shown.take(if all { usize::MAX } else { SMALL }).collect()
    }

    /// The MachineSets that are worth a line.
    pub(crate) fn shown_sets(&self, all: bool) -> Vec<&Explanation> {
        let shown = self.machine_sets.iter().filter(|set| all || !is_running(set));
        shown.take(if all { usize::MAX } else { SMALL }).collect()
    }
}

/// Whether a machine or set is well; a node that restarts for its config is told of by its own line.
pub(crate) fn is_running(it: &Explanation) -> bool {
    matches!(it.state, State::Running | State::Updating)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_takes_long_to_read_is_read_more_seldom() {
        assert_eq!(pause(Duration::from_millis(20)), REDRAW);
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(18), "a tenth of the time");
    }
}
