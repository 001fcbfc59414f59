//! `machinist diff A B`: what differs between two configs, and what that would do to a running node.

mod json;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::labels::RENDERED_FOR;
use api::machineconfiguration::MachineConfig;
use api::names::RENDERED_PREFIX;
use change::content::Content;
use change::diff::Diff;
use change::disruption::Disruption;
use change::reconcilable::{Obstacle, obstacles};
use clap::Args;
use kube::ResourceExt as _;

use crate::inputs::{Inputs, Source};
use crate::output::{self, Format};
use crate::secrets::Secrets;
use crate::{manifests, pools};

/// There is something to see.
const DIFFERENT: u8 = 3;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A rendered config, or the fragments it is made of: a file, a folder, or - for standard input.
    #[arg(value_name = "A")]
    old: PathBuf,
    /// What to compare it with.
    #[arg(value_name = "B")]
    new: PathBuf,
    /// Look into folders within folders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Compare only this pool.
    #[arg(long)]
    pool: Option<String>,
    /// Print the comparison as JSON or YAML instead of text.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Print pull secrets, password hashes and private keys as they are.
    #[arg(long)]
    show_secrets: bool,
    /// Refuse objects of unknown kind instead of skipping them.
    #[arg(long)]
    strict: bool,
}

/// Two configs of one pool, compared.
struct Comparison {
    pool: Option<String>,
    old: String,
    new: String,
    diff: Diff,
    obstacles: Vec<Obstacle>,
    disruption: Disruption,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.old.as_os_str() == "-" && arguments.new.as_os_str() == "-" {
        bail!("standard input can be only one of the two");
    }
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Masked };
    let load = |path: &PathBuf| -> anyhow::Result<Inputs> {
        let manifests = manifests::load(std::slice::from_ref(path), arguments.recursive)?;
        Ok(Inputs::sort(manifests, arguments.strict)?)
    };
    let (old, new) = (load(&arguments.old)?, load(&arguments.new)?);
    output::warn(old.warnings.iter().chain(&new.warnings));
    let comparisons = compare(&old, &new, arguments)?;
    let different = comparisons.iter().any(|comparison| !comparison.diff.is_empty());
    match arguments.output {
        Some(format) => {
            let reports: Vec<_> = comparisons.iter().map(|comparison| json::report(comparison, secrets)).collect();
            output::print(&format.write_one(&serde_json::json!({"comparisons": reports}))?)?;
        }
        None => {
            let reports: Vec<_> = comparisons.iter().map(|comparison| text::report(comparison, secrets)).collect();
            output::print(&reports.join("\n"))?;
        }
    }
    Ok(if different { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

/// Pairs the configs of both sides by pool; two lone configs are a pair whatever their names.
fn compare(old: &Inputs, new: &Inputs, arguments: &Arguments) -> anyhow::Result<Vec<Comparison>> {
    let (before, after) = (side(old)?, side(new)?);
    if before.is_empty() {
        bail!("{}: no MachineConfig found", arguments.old.display());
    }
    if after.is_empty() {
        bail!("{}: no MachineConfig found", arguments.new.display());
    }
    if let ([(one, old_config)], [(two, new_config)]) = (before.as_slice(), after.as_slice()) {
        let pool = (one == two).then(|| one.clone());
        return Ok(vec![compare_pair(pool, old_config, new_config, new)?]);
    }
    let (before, after): (BTreeMap<_, _>, BTreeMap<_, _>) = (before.into_iter().collect(), after.into_iter().collect());
    let wanted = |pool: &&String| arguments.pool.as_ref().is_none_or(|wanted| wanted == *pool);
    let shared: Vec<_> = before.keys().filter(|pool| after.contains_key(*pool)).filter(wanted).collect();
    if shared.is_empty() {
        let list = |side: &BTreeMap<String, MachineConfig>| side.keys().cloned().collect::<Vec<_>>().join(", ");
        bail!(
            "no pool is on both sides: {} has {}; {} has {}",
            arguments.old.display(),
            list(&before),
            arguments.new.display(),
            list(&after)
        );
    }
    shared.into_iter().map(|pool| compare_pair(Some(pool.clone()), &before[pool], &after[pool], new)).collect()
}

/// The configs of one side by pool: rendered ones as they are, fragments rendered.
fn side(inputs: &Inputs) -> anyhow::Result<Vec<(String, MachineConfig)>> {
    if inputs.rendered.is_empty() {
        let pools = pools::render_all(inputs, None)?;
        return Ok(pools.into_iter().map(|pool| (pool.name, pool.rendered.machine_config)).collect());
    }
    Ok(inputs.rendered.iter().map(|source| (pool_of(source), source.config.clone())).collect())
}

/// The pool a rendered config is for: by its label, else by its name, as in `rendered-worker-0a1b`.
fn pool_of(source: &Source) -> String {
    if let Some(pool) = source.config.labels().get(RENDERED_FOR) {
        return pool.clone();
    }
    let name = &source.manifest.name;
    let name = name.strip_prefix(RENDERED_PREFIX).unwrap_or(name);
    name.rsplit_once('-').map_or(name, |(pool, _)| pool).to_owned()
}

fn compare_pair(
    pool: Option<String>,
    old: &MachineConfig,
    new: &MachineConfig,
    inputs: &Inputs,
) -> anyhow::Result<Comparison> {
    let (before, after) = Content::read_both(old, new).context("cannot compare")?;
    let diff = Diff::between(&before, &after);
    let disruption = Disruption::of(&diff, &inputs.effective_policies());
    let obstacles = obstacles(&diff, &after, &inputs.settings, &inputs.allowances);
    Ok(Comparison { pool, old: old.name_any(), new: new.name_any(), diff, obstacles, disruption })
}
