//! `machinist plan`: what a change would do, node by node, before it is applied. It changes nothing.

pub(crate) mod gathered;
mod machines;
pub(crate) mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::SignedDuration;
use proposal::saved::Saved;
use proposal::{Change, Secrets};

use crate::gather::{self, Cluster};
use crate::manifests;
use crate::output::{self, Format};

pub(crate) use gathered::Proposed;

/// There is something to do.
pub(crate) const TO_DO: u8 = 3;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// Manifests that would be applied: files, folders, or - for standard input; absent, what is under way now
    #[arg(short, long = "filename", value_name = "PATH", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into folders within folders
    #[arg(short = 'R', long)]
    recursive: bool,
    /// What would be deleted: a MachineConfig, or machine/NAME, machineset/NAME, machinedeployment/NAME; may be given several times
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// How long one reboot takes, in seconds, for the estimate
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    reboot_time: u32,
    /// Keep the plan in a file, for `machinist apply`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print as JSON or YAML instead of text
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Print pull secrets, password hashes and private keys as they are
    #[arg(long)]
    show_secrets: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(plan(arguments))
}

async fn plan(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.save.is_some() && arguments.filename.is_empty() && arguments.delete.is_empty() {
        bail!("--save keeps a change, and none was given; name its manifests with -f or --delete");
    }
    let mut manifests = match arguments.filename.as_slice() {
        [] => Vec::new(),
        paths => manifests::load(paths, arguments.recursive)?,
    };
    let mut deletes = arguments.delete.clone();
    let of_machines = machines::taken_from(&mut manifests, &mut deletes);
    let is_about_machines = !of_machines.apply.is_empty() || !of_machines.delete.is_empty();
    if is_about_machines && arguments.save.is_some() {
        bail!("--save keeps changes of configs only; leave the machines out of it");
    }
    let is_about_configs = !manifests.is_empty() || !deletes.is_empty() || !is_about_machines;
    let change = is_about_configs.then(|| Change::new(manifests, deletes)).transpose()?;
    let client = arguments.cluster.connect().await?;
    let code = match is_about_machines {
        true => plan_machines(&client, &of_machines, arguments).await?,
        false => ExitCode::SUCCESS,
    };
    let Some(change) = change else { return Ok(code) };
    let proposal = Proposed::compute(&client, &change, SignedDuration::from_secs(arguments.reboot_time.into())).await?;
    output::warn(proposal.notes.iter());
    let plan = &proposal.plan;
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Masked };
    let text = match arguments.output {
        Some(format) => format.write_one(&serde_json::to_value(plan)?)?,
        None => text::report(&proposal, secrets),
    };
    output::print(&text)?;
    if let Some(path) = &arguments.save {
        let saved = Saved::of(&change, &proposal.plan, &proposal.cluster);
        let bytes = serde_json::to_vec_pretty(&saved)?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        anstream::eprintln!("Saved. `machinist apply {}` does exactly this, or refuses.", path.display());
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(TO_DO) })
}

/// Prints what becomes of machines.
async fn plan_machines(
    client: &kube::Client,
    change: &proposal::machines::Change,
    arguments: &Arguments,
) -> anyhow::Result<ExitCode> {
    let mut notes = Vec::new();
    let plan = machines::plan(client, change, &mut notes).await?;
    output::warn(notes.iter());
    let text = match arguments.output {
        Some(format) => format.write_one(&serde_json::to_value(&plan)?)?,
        None => proposal::machines::report(&plan),
    };
    output::print(&text)?;
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(TO_DO) })
}
