//! `manifests/crds/`: one file for each kind.

use std::path::PathBuf;

use anyhow::Context;

use super::File;

const HEADER: &str =
    "# Generated from the Rust types of crates/vocabulary/api by `cargo xtask generate`. Do not edit.\n";

pub(super) fn files() -> anyhow::Result<Vec<File>> {
    api::crds()
        .iter()
        .map(|definition| {
            let spec = &definition.spec;
            let path = PathBuf::from(format!("manifests/crds/{}_{}.yaml", spec.group, spec.names.plural));
            let text = serde_saphyr::to_string(&api::manifest(definition))
                .with_context(|| format!("cannot write {} as YAML", path.display()))?;
            Ok(File { path, text: format!("{HEADER}{text}") })
        })
        .collect()
}
