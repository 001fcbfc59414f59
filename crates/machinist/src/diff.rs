//! `machinist diff A B`: what differs between two configs, and what that would do to a running node.

mod json;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::MachineConfig;
use api::names::RENDERED_PREFIX;
use clap::Args;
use kube::ResourceExt as _;
use proposal::comparison::{Comparison, Side};
use proposal::inputs::{Inputs, Source};
use proposal::manifest::{Manifest, Origin};
use proposal::secrets::Secrets;

use crate::gather::{self, Cluster};
use crate::manifests;
use crate::output::{self, Format};

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
    let side = |path: &PathBuf, inputs| Side { name: path.display().to_string(), inputs };
    let (old, new) = (side(&arguments.old, &old), side(&arguments.new, &new));
    let comparisons = Comparison::of_sides(&old, &new, arguments.pool.as_deref())?;
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
    let origin = Origin { file: name.to_owned(), document: 1 };
    let manifest = Manifest { origin, ..Manifest::of(&config)? };
    Ok(Inputs { rendered: vec![Source { manifest, config }], ..Inputs::default() })
}

/// A comparison as text, for other verbs.
pub(crate) fn describe(comparison: &Comparison, secrets: Secrets) -> String {
    text::report(comparison, secrets)
}
