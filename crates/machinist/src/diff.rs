//! `machinist diff A B`: what differs between two configs, and what that would do to a running node.

mod json;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::labels::RENDERED_FOR;
use api::machineconfiguration::MachineConfig;
use api::names::RENDERED_PREFIX;
use change::content::Content;
use change::diff::{Diff, Kind};
use change::disruption::Disruption;
use change::reconcilable::{Obstacle, obstacles};
use clap::Args;
use kube::ResourceExt as _;

use crate::gather::{self, Cluster};
use crate::inputs::{Inputs, Source};
use crate::manifests::{Manifest, Origin};
use crate::output::{self, Format};
use crate::secrets::Secrets;
use crate::{manifests, pools};

/// There is something to see.
const DIFFERENT: u8 = 3;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A rendered config, or the fragments it is made of: a file, a folder, or - for standard input; or, from a cluster, the
    /// name of a rendered config or node/NAME
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
    #[command(flatten)]
    cluster: Cluster,
}

/// Two configs of one pool, compared.
pub(crate) struct Comparison {
    pool: Option<String>,
    old: String,
    new: String,
    diff: Diff,
    pub(crate) obstacles: Vec<Obstacle>,
    pub(crate) disruption: Disruption,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.old.as_os_str() == "-" && arguments.new.as_os_str() == "-" {
        bail!("standard input can be only one of the two");
    }
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Masked };
    let load = |path: &PathBuf| -> anyhow::Result<Inputs> {
        if let Some(name) = in_a_cluster(path) {
            return gather::block_on(load_from_cluster(&arguments.cluster, name));
        }
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

/// What can only be the name of something in a cluster: no such file is there.
fn in_a_cluster(path: &Path) -> Option<&str> {
    let name = path.to_str()?;
    let is_name = name.starts_with("node/") || name.starts_with(RENDERED_PREFIX);
    (is_name && !path.exists()).then_some(name)
}

/// A rendered config, or the one that a node runs.
async fn load_from_cluster(cluster: &Cluster, name: &str) -> anyhow::Result<Inputs> {
    let client = cluster.connect().await?;
    let config = match name.strip_prefix("node/") {
        None => name.to_owned(),
        Some(node) => {
            let object: k8s_openapi::api::core::v1::Node = gather::get(&client, node).await?;
            let current = object.annotations().get(api::annotations::CURRENT_CONFIG).cloned();
            current.with_context(|| format!("node {node} has not said which config it runs"))?
        }
    };
    let config: MachineConfig = gather::get(&client, &config).await?;
    let manifest = Manifest {
        origin: Origin { file: name.to_owned(), document: 1 },
        api_version: "machineconfiguration.openshift.io/v1".to_owned(),
        kind: "MachineConfig".to_owned(),
        name: config.name_any(),
        value: serde_json::to_value(&config)?,
    };
    Ok(Inputs { rendered: vec![Source { manifest, config }], ..Inputs::default() })
}

/// A comparison as text, for other verbs.
pub(crate) fn describe(comparison: &Comparison, secrets: Secrets) -> String {
    text::report(comparison, secrets)
}

impl Comparison {
    /// What changes, in a few words each: files, units, everything else.
    pub(crate) fn subjects(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        fn said<T: PartialEq>(kind: &str, changes: &[change::diff::Change<T>]) -> Vec<String> {
            let words = changes.iter().map(|change| {
                let verb = match change.kind() {
                    Kind::Added => "added",
                    Kind::Removed => "removed",
                    Kind::Updated => "changed",
                };
                format!("{verb} {kind}{}", change.name)
            });
            words.collect()
        }
        let diff = &self.diff;
        let mut files = said("", &diff.files);
        files.extend(said("folder ", &diff.directories));
        files.extend(said("link ", &diff.links));
        let mut other = said("user ", &diff.users);
        let settings = [
            ("kernel arguments", diff.kernel_arguments.is_some()),
            ("kernel type", diff.kernel_type.is_some()),
            ("extensions", diff.extensions.is_some()),
            ("FIPS mode", diff.fips.is_some()),
            ("OS image", diff.os_image.is_some()),
            ("extensions image", diff.extensions_image.is_some()),
        ];
        other.extend(settings.iter().filter(|(_, changed)| *changed).map(|(name, _)| format!("changed {name}")));
        other.extend(diff.first_boot.iter().map(|section| format!("changed {}", section.as_str())));
        (files, said("", &diff.units), other)
    }
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

pub(crate) fn compare_pair(
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
