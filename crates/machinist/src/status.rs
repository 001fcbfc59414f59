//! `machinist status`: the fleet at a glance.

mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use explain::Fleet;
use serde_json::json;

use crate::gather::{self, Cluster, Depth};
use crate::output::{self, Format};

/// How often a live table is drawn anew, at most.
const REDRAW: Duration = Duration::from_secs(1);

/// How much of the time a live table may be reading: a large fleet is looked at more seldom, so that nobody's terminal
/// keeps its API server busy.
const READING: u32 = 10;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_takes_long_to_read_is_read_more_seldom() {
        assert_eq!(pause(Duration::from_millis(20)), REDRAW);
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(18), "a tenth of the time");
    }
}
