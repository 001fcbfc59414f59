//! `machinist why pool|node|machine|machineset NAME`: why it is in this state, since when, what it waits for, and what would move it.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use explain::{Explanation, Snapshot, ago};
use owo_colors::OwoColorize as _;

use crate::gather::{self, Cluster, Depth};
use crate::output::{self, Format};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// What to explain
    kind: Kind,
    /// Its name
    name: String,
    /// Print as JSON or YAML instead of text
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    #[value(alias = "mcp", alias = "machineconfigpool")]
    Pool,
    #[value(alias = "no", alias = "nodes")]
    Node,
    #[value(alias = "machines")]
    Machine,
    #[value(alias = "machinesets", alias = "machine-set", alias = "ms")]
    Machineset,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(why(arguments))
}

async fn why(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let depth = match arguments.kind {
        Kind::Pool | Kind::Node => Depth::Fleet,
        Kind::Machine | Kind::Machineset => Depth::Machines,
    };
    let world = gather::world(&client, depth).await?;
    output::warn(world.notes.iter());
    let snapshot = world.snapshot();
    let name = &arguments.name;
    let it = match arguments.kind {
        Kind::Pool => explain::pool(&snapshot, name).with_context(|| unknown("pool", name, snapshot.pools.keys()))?,
        Kind::Node => explain::node(&snapshot, name).with_context(|| unknown("node", name, snapshot.nodes.keys()))?,
        Kind::Machine => {
            explain::machine(&snapshot, name).with_context(|| unknown("machine", name, snapshot.machines.keys()))?
        }
        Kind::Machineset => explain::machine_set(&snapshot, name)
            .with_context(|| unknown("machineset", name, snapshot.machine_sets.keys()))?,
    };
    let text = match arguments.output {
        Some(format) => {
            let mut value = serde_json::to_value(&it)?;
            value["notes"] = serde_json::json!(world.notes);
            format.write_one(&value)?
        }
        None => report(&it, &snapshot),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<&str> = known.map(String::as_str).collect();
    match known.len() {
        0 => format!("there is no {kind} {name}, nor any other"),
        1..=12 => format!("there is no {kind} {name}; there are {}", known.join(", ")),
        count => format!("there is no {kind} {name} among {count}"),
    }
}

fn report(it: &Explanation, snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let since = it.since.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
    let _ = writeln!(text, "{} is {}{since}: {}", it.name.bold(), it.state.bold(), it.summary);
    for (index, what) in it.waiting_for.iter().enumerate() {
        let _ = writeln!(text, "{:<12} {what}", if index == 0 { "waits for" } else { "" });
    }
    for (index, step) in it.moves.iter().enumerate() {
        let _ = writeln!(text, "{:<12} {}", if index == 0 { "to move it" } else { "" }, step.what);
        let _ = writeln!(text, "{:<12}   {}", "", step.command.cyan());
    }
    text
}
