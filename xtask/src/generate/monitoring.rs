//! `manifests/monitoring/`: the dashboard that Grafana imports.

use std::path::PathBuf;

use anyhow::Context;

use super::File;

pub(super) fn files() -> anyhow::Result<Vec<File>> {
    let text = serde_json::to_string_pretty(&operate::board::board()).context("cannot write the dashboard as JSON")?;
    Ok(vec![File { path: PathBuf::from("manifests/monitoring/grafana-dashboard.json"), text: format!("{text}\n") }])
}
