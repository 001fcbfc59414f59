//! `machinist rollback POOL`: back to the last config that worked.
//!
//! Only a way that was proven to lead there is written: all of it is tried first.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenance;
use clap::Args;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use owo_colors::OwoColorize as _;
use proposal::manifest::Manifest;
use proposal::rollback::{self, Way};

use crate::apply;
use crate::gather::{self, Cluster, refusal};
use crate::output;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The pool
    pool: String,
    /// The rendered config to go back to; absent, the last one that every node of the pool had
    #[arg(long, value_name = "CONFIG")]
    to: Option<String>,
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(roll_back(arguments))
}

async fn roll_back(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let way = find(&client, &arguments.pool, arguments.to.as_deref()).await?;
    output::print(&describe(&way))?;
    if !arguments.yes {
        if !std::io::stdin().is_terminal() {
            bail!("nothing was changed: nobody can be asked here; --yes does it without asking");
        }
        anstream::print!("Shall I? [y/N] ");
        std::io::stdout().flush()?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            output::print("Nothing was changed.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    carry_out(&client, &way).await?;
    output::print(&format!("Pool {} goes back to {}.\n", way.pool, way.config))?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the way back, and proves that it leads there.
pub(crate) async fn find(client: &Client, name: &str, to: Option<&str>) -> anyhow::Result<Way> {
    let pool: MachineConfigPool = gather::get(client, name).await?;
    let config = match rollback::destination(&pool, to) {
        Err(error @ rollback::Error::Reached { .. }) => bail!("{error}{}", earlier(client, &pool).await),
        found => found?,
    };
    let provenance: RenderedProvenance = gather::get(client, &config)
        .await
        .with_context(|| format!("where {config} came from is not known, so it cannot be made again"))?;
    let configs: Vec<MachineConfig> = gather::list(client).await?;
    let controller: Vec<ControllerConfig> = gather::list_if_installed(client).await?;
    Ok(rollback::find(&pool, &provenance, &configs, controller.first())?)
}

/// The other configs that the pool can go back to, as the end of a sentence.
async fn earlier(client: &Client, pool: &MachineConfigPool) -> String {
    let now = pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.clone()).unwrap_or_default();
    let all: Vec<RenderedProvenance> = match gather::list_if_installed(client).await {
        Ok(all) => all,
        Err(error) => return format!(" (those that are kept could not be read: {error:#})"),
    };
    let others =
        all.iter().filter(|it| it.spec.pool == pool.name_any() && it.name_any() != now).map(ResourceExt::name_any);
    let others: Vec<_> = others.collect();
    if others.is_empty() { " (none is kept)".to_owned() } else { format!(" one of {}", others.join(", ")) }
}

fn describe(way: &Way) -> String {
    let mut text = format!("Pool {} goes back to {}:\n", way.pool.bold(), way.config);
    for config in &way.deletes {
        text.push_str(&format!("  delete   MachineConfig {} (it came since)\n", config.name_any()));
    }
    for config in &way.writes {
        text.push_str(&format!("  restore  MachineConfig {}\n", config.name_any()));
    }
    if way.deletes.is_empty() && way.writes.is_empty() {
        text.push_str("  nothing to do: its fragments come to that config already\n");
    }
    text
}

pub(crate) async fn carry_out(client: &Client, way: &Way) -> anyhow::Result<()> {
    for dry_run in [true, false] {
        for config in &way.writes {
            let manifest = Manifest::of(config)?;
            apply::put(client, &manifest, dry_run).await?;
        }
        let api: Api<MachineConfig> = Api::all(client.clone());
        for config in &way.deletes {
            let uid = config.metadata.uid.clone();
            let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
            let parameters = DeleteParams { dry_run, preconditions, ..DeleteParams::default() };
            let deleted = api.delete(&config.name_any(), &parameters).await;
            deleted.map_err(|error| refusal(error, "delete", "machineconfigs"))?;
        }
    }
    Ok(())
}
