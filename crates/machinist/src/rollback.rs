//! `machinist rollback POOL`: back to the last config that worked.
//!
//! A pool follows its fragments, so going back means giving the fragments back what they said: those that are new go, those
//! that changed or went are made again from the archive of the config. The result is rendered here first; only if it is
//! the wanted config to the letter is anything written.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenance;
use clap::Args;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use owo_colors::OwoColorize as _;
use render::Fetched;
use serde_json::json;

use crate::apply;
use crate::gather::{self, Cluster, refusal};
use crate::manifests::{Manifest, Origin};
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

/// What going back takes.
pub(crate) struct Way {
    pool: String,
    pub(crate) config: String,
    /// Fragments that came since.
    deletes: Vec<MachineConfig>,
    /// Fragments as they were.
    writes: Vec<MachineConfig>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(roll_back(arguments))
}

async fn roll_back(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let way = find(&client, &arguments.pool, arguments.to.as_deref()).await?;
    output::print(&way.describe())?;
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
    let target = pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.clone());
    let reached = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    let reached = reached.and_then(|configuration| configuration.name.clone());
    let config = match (to, reached) {
        (Some(to), _) => to.to_owned(),
        (None, Some(reached)) if Some(&reached) != target.as_ref() => reached,
        (None, Some(reached)) => {
            let others = earlier(client, name, &reached).await;
            bail!(
                "every node of pool {name} has reached what the pool wants, {reached}; to go further back, choose with --to{others}"
            )
        }
        (None, None) => bail!("pool {name} has never had a config that every node reached; choose one with --to"),
    };
    let provenance: RenderedProvenance = gather::get(client, &config)
        .await
        .with_context(|| format!("where {config} came from is not known, so it cannot be made again"))?;
    let archive = provenance.spec.archive.as_ref().with_context(|| format!("{config} has no archive"))?;
    let rendered = render::restore(archive, name, &config)?;
    let configs: Vec<MachineConfig> = gather::list(client).await?;
    let selected =
        render::select(&pool, configs.iter().filter(|it| !it.name_any().starts_with(api::names::RENDERED_PREFIX)))?;
    let before = &provenance.spec.fragments;
    let unchanged = |now: &MachineConfig| {
        before.iter().any(|then| {
            then.name == now.name_any() && then.uid == now.metadata.uid && then.generation == now.metadata.generation
        })
    };
    let deletes: Vec<MachineConfig> = selected
        .iter()
        .filter(|now| !before.iter().any(|then| then.name == now.name_any()))
        .map(|now| (*now).clone())
        .collect();
    if let Some(generated) =
        deletes.iter().find_map(|now| Some((now.name_any(), now.metadata.owner_references.as_ref()?.first()?.clone())))
    {
        let (name, owner) = generated;
        bail!(
            "{name} is generated from {} {}; change or delete that, and the pool goes back by itself",
            owner.kind,
            owner.name
        );
    }
    let mut writes = Vec::new();
    for then in before.iter().filter(|then| !selected.iter().any(|now| now.name_any() == then.name && unchanged(now))) {
        writes.push(as_it_was(&then.name, name, &selected, &rendered, &provenance));
    }
    let kept = selected.iter().filter(|now| unchanged(now)).map(|now| (*now).clone());
    let after: Vec<MachineConfig> = kept.chain(writes.iter().cloned()).collect();
    prove(client, &pool, &after, &rendered).await?;
    Ok(Way { pool: name.to_owned(), config, deletes, writes })
}

async fn earlier(client: &Client, pool: &str, now: &str) -> String {
    let all: Vec<RenderedProvenance> = match gather::list_if_installed(client).await {
        Ok(all) => all,
        Err(error) => return format!(" (those that are kept could not be read: {error:#})"),
    };
    let others = all.iter().filter(|it| it.spec.pool == pool && it.name_any() != now).map(ResourceExt::name_any);
    let others: Vec<_> = others.collect();
    if others.is_empty() { " (none is kept)".to_owned() } else { format!(" one of {}", others.join(", ")) }
}

/// A fragment as the archive has it, under the labels it has now.
fn as_it_was(
    fragment: &str,
    pool: &str,
    now: &[&MachineConfig],
    rendered: &MachineConfig,
    provenance: &RenderedProvenance,
) -> MachineConfig {
    let mut config = MachineConfig::default();
    config.metadata.name = Some(fragment.to_owned());
    let present = now.iter().find(|now| now.name_any() == fragment);
    config.metadata.labels = match present.and_then(|present| present.metadata.labels.clone()) {
        Some(labels) => Some(labels),
        None => Some([(api::labels::ROLE.to_owned(), pool.to_owned())].into()),
    };
    config.spec = render::extract(rendered, &provenance.spec, fragment);
    config
}

/// The way back must lead to exactly the config that is wanted.
async fn prove(
    client: &Client,
    pool: &MachineConfigPool,
    fragments: &[MachineConfig],
    wanted: &MachineConfig,
) -> anyhow::Result<()> {
    let mut settings = render::Settings { keep_remote: true, ..render::Settings::default() };
    let controller: Vec<ControllerConfig> = gather::list_if_installed(client).await?;
    if let Some(config) = controller.first() {
        settings.os_image.clone_from(&config.spec.base_os_container_image);
        settings.extensions_image = config.spec.base_os_extensions_container_image.clone().unwrap_or_default();
    }
    let again = render::render(pool, fragments, &settings, &Fetched::default())?.machine_config;
    if !render::is_same_content(&again.spec, &wanted.spec) {
        bail!(
            "nothing was changed: from what is known, the fragments of {} cannot be made again exactly (it would come to {})",
            wanted.name_any(),
            again.name_any()
        );
    }
    Ok(())
}

impl Way {
    fn describe(&self) -> String {
        let mut text = format!("Pool {} goes back to {}:\n", self.pool.bold(), self.config);
        for config in &self.deletes {
            text.push_str(&format!("  delete   MachineConfig {} (it came since)\n", config.name_any()));
        }
        for config in &self.writes {
            text.push_str(&format!("  restore  MachineConfig {}\n", config.name_any()));
        }
        if self.deletes.is_empty() && self.writes.is_empty() {
            text.push_str("  nothing to do: its fragments come to that config already\n");
        }
        text
    }
}

pub(crate) async fn carry_out(client: &Client, way: &Way) -> anyhow::Result<()> {
    for dry_run in [true, false] {
        for config in &way.writes {
            let mut value = serde_json::to_value(config)?;
            value["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
            value["kind"] = json!("MachineConfig");
            let manifest = Manifest {
                origin: Origin { file: "the archive".to_owned(), document: 1 },
                api_version: "machineconfiguration.openshift.io/v1".to_owned(),
                kind: "MachineConfig".to_owned(),
                name: config.name_any(),
                value,
            };
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
