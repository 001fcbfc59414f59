//! `machinist apply PLAN`: carries out a saved plan exactly, or refuses because the world has changed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use clap::Args;
use jiff::SignedDuration;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams, Preconditions};
use kube::{Api, Client};
use proposal::saved::Saved;
use serde_json::Value;

use crate::gather::{self, Cluster, refusal};
use crate::manifests::Manifest;
use crate::output;
use crate::plan::Proposed;

const MANAGER: &str = "machinist-apply";

/// How long the controller may take to render what was applied.
const RENDER: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// A file of `machinist plan --save`
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(apply(arguments))
}

async fn apply(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let path = &arguments.plan;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let saved = Saved::parse(&text).with_context(|| format!("{} is not a plan", path.display()))?;
    let change = saved.change()?;
    let client = arguments.cluster.connect().await?;
    let proposal = Proposed::compute(&client, &change, SignedDuration::ZERO).await?;
    let differences = saved.differences(&proposal.plan, &proposal.cluster);
    if !differences.is_empty() {
        let list: Vec<_> = differences.iter().take(10).map(|line| format!("\n  {line}")).collect();
        bail!(
            "nothing was applied, because the world is not the one the plan was made for; plan again:{}",
            list.concat()
        );
    }
    // All of it is tried first, so that half a change is never left behind by a refusal.
    for dry_run in [true, false] {
        for manifest in &change.manifests {
            put(&client, manifest, dry_run).await?;
        }
        for name in &change.deletes {
            delete(&client, name, &proposal, dry_run).await?;
        }
    }
    let wanted = proposal.plan.pools.iter().map(|pool| (pool.pool.as_str(), pool.to.as_str()));
    for (pool, config) in wanted {
        rendered(&client, pool, config).await?;
        output::print(&format!("pool {pool} goes to {config}\n"))?;
    }
    output::print("Applied. `machinist status --watch` shows how far it is.\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one object: its spec becomes exactly the manifest's.
pub(crate) async fn put(client: &Client, manifest: &Manifest, dry_run: bool) -> anyhow::Result<()> {
    let (version, kind) = (manifest.api_version.as_str(), manifest.kind.as_str());
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let parameters = PostParams { dry_run, field_manager: Some(MANAGER.to_owned()) };
    let present = api.get_opt(&manifest.name).await.map_err(|error| refusal(error, "get", &resource.plural))?;
    let written = match present {
        None => api.create(&parameters, &serde_json::from_value(manifest.value.clone())?).await,
        Some(present) => {
            let old: Value = serde_json::to_value(&present)?;
            let new = proposal::request::laid_over(&old, &manifest.value);
            api.replace(&manifest.name, &parameters, &serde_json::from_value(new)?).await
        }
    };
    match written {
        Ok(_) => Ok(()),
        Err(error) if cluster::problem(&error) == cluster::Problem::Conflict => {
            bail!(
                "nothing more was applied, because somebody else changed {kind} {} just now; plan again",
                manifest.name
            )
        }
        Err(error) => {
            Err(refusal(error, "update", &resource.plural)).with_context(|| format!("{kind} {}", manifest.name))
        }
    }
}

async fn delete(client: &Client, name: &str, proposal: &Proposed, dry_run: bool) -> anyhow::Result<()> {
    let api: Api<MachineConfig> = Api::all(client.clone());
    let planned = proposal.cluster.config(name);
    let uid = planned.and_then(|config| config.metadata.uid.clone());
    let parameters = DeleteParams {
        dry_run,
        preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    };
    api.delete(name, &parameters).await.map(drop).map_err(|error| refusal(error, "delete", "machineconfigs"))
}

/// Waits until the controller wants what the plan said.
async fn rendered(client: &Client, pool: &str, config: &str) -> anyhow::Result<()> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let target = |it: Option<&MachineConfigPool>| {
        let configuration = it.and_then(|it| it.spec.configuration.as_ref());
        configuration.and_then(|configuration| configuration.name.clone())
    };
    let there = kube::runtime::wait::await_condition(pools.clone(), pool, |it: Option<&MachineConfigPool>| {
        target(it).as_deref() == Some(config)
    });
    match tokio::time::timeout(RENDER, there).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error).with_context(|| format!("cannot watch pool {pool}")),
        Err(_) => {
            let now = match cluster::write::in_time(pools.get(pool)).await {
                Ok(pool) => format!("wants {}", target(Some(&pool)).unwrap_or_else(|| "nothing".to_owned())),
                Err(error) => format!("cannot be read ({error})"),
            };
            bail!(
                "the change is applied, but after {} s pool {pool} {now} and not {config}; does the controller run? \
                 (`machinist doctor`)",
                RENDER.as_secs()
            )
        }
    }
}
