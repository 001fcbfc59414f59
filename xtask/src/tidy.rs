//! `cargo xtask tidy`: checks rules about the whole repository that the compiler cannot check.
//!
//! Each check is a function that returns its findings; this file runs them all, so that one run reports every problem.

mod dependencies;
mod layers;
mod licences;
mod proofs;
mod sources;

use anyhow::bail;
use serde_json::Value;

use crate::{generate, workspace};

pub(crate) fn run() -> anyhow::Result<()> {
    let metadata: Value =
        serde_json::from_str(&workspace::capture("cargo", &["metadata", "--format-version", "1", "--locked"])?)?;
    let files = workspace::files()?;
    let mut problems = Vec::new();
    problems.extend(dependencies::problems(&metadata)?);
    problems.extend(layers::problems(&metadata));
    problems.extend(licences::problems(&metadata));
    problems.extend(proofs::problems(&files)?);
    problems.extend(sources::problems(&files)?);
    problems.extend(generate::check()?);
    for problem in &problems {
        println!("tidy: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problems found by tidy", problems.len());
    }
    Ok(())
}
