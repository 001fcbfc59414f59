//! `machinist crds`: prints the definition of every kind.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

/// The definitions as one YAML stream, in the order in which `manifests/crds/` lists them.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut output = std::io::stdout().lock();
    for definition in api::crds() {
        let text = serde_saphyr::to_string(&api::manifest(&definition)).context("cannot write a definition as YAML")?;
        write!(output, "---\n{text}").context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}
