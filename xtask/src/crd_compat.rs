//! `cargo xtask crd-compat DIR`: compares our CRDs with a folder of upstream's.
//!
//! Every difference must be listed in `xtask/crd-compat.allow` with a reason, and every line there must still be a
//! difference. Descriptions are not compared, nor are kinds that the folder does not contain.

mod allow;
mod walk;

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::workspace;

const ALLOW_LIST: &str = "xtask/crd-compat.allow";

pub(crate) fn run(folder: &Path) -> anyhow::Result<()> {
    let ours: Vec<Value> = api::crds().iter().map(api::manifest).collect();
    let theirs = load(folder)?;
    let found: Vec<String> = theirs.iter().flat_map(|upstream| differences(upstream, &ours)).collect();
    let text = std::fs::read_to_string(workspace::root().join(ALLOW_LIST))
        .with_context(|| format!("cannot read {ALLOW_LIST}"))?;
    let problems = allow::judge(&text, &found).with_context(|| format!("cannot use {ALLOW_LIST}"))?;
    for problem in &problems {
        println!("crd-compat: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problems; a difference that is meant stands in {ALLOW_LIST} with its reason", problems.len());
    }
    println!("crd-compat: {} definitions compared, {} differences, all of them meant", theirs.len(), found.len());
    Ok(())
}

fn load(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        bail!("{} has no file that ends in .yaml", folder.display());
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not one YAML document", path.display()))
        })
        .collect()
}

fn differences(upstream: &Value, ours: &[Value]) -> Vec<String> {
    let name = upstream["metadata"]["name"].as_str().unwrap_or("a definition without a name");
    let found = match ours.iter().find(|definition| definition["metadata"]["name"] == name) {
        Some(definition) => walk::definition(upstream, definition),
        None => vec!["we lack the kind".to_owned()],
    };
    found.into_iter().map(|difference| format!("{name}: {difference}")).collect()
}
