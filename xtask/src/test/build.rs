//! Builds test programs and lists them.
//!
//! Running is left to [`super::lanes`]: cargo runs one program after another, and most of ours wait for servers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::Value;

use super::part::Part;
use crate::workspace;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Package and target, such as `e2e it`.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) part: Part,
    /// The package's folder, in which cargo would run it.
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
}

/// Binaries that tests of other packages start.
const BINARIES: [&str; 2] = ["machinist", "machinistd"];

/// Builds the tests of some packages, or of all, and the binaries that they start.
pub(super) fn build(packages: Option<&BTreeSet<String>>) -> anyhow::Result<Vec<Program>> {
    let mut arguments = vec!["test", "--no-run", "--locked", "--message-format=json-render-diagnostics"];
    match packages {
        None => arguments.push("--workspace"),
        Some(packages) => {
            let all = packages.iter().map(String::as_str).chain(BINARIES);
            arguments.extend(all.flat_map(|package| ["--package", package]));
        }
    }
    let output = workspace::command("cargo", &arguments).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built");
    }
    let root = workspace::root();
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("cargo printed something that is not JSON")?;
        programs.extend(program(&message, &root));
    }
    if let Some(packages) = packages {
        programs.retain(|program| packages.contains(&program.package));
    }
    Ok(programs)
}

/// The packages of a part.
pub(super) fn packages(part: Part) -> anyhow::Result<BTreeSet<String>> {
    let metadata = workspace::capture("cargo", &["metadata", "--no-deps", "--locked", "--format-version=1"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo's metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let root = workspace::root();
    let is_its = |package: &&Value| folder(package, &root).is_some_and(|folder| Part::of(&folder) == part);
    Ok(packages.iter().filter(is_its).filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

/// The test program that one of cargo's messages tells of.
fn program(message: &Value, root: &Path) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = folder(message, root)?;
    let package = package(message["package_id"].as_str()?);
    let kinds = message["target"]["kind"].as_array()?;
    let target = if kinds.iter().any(|kind| kind == "test") { message["target"]["name"].as_str()? } else { "unit" };
    Some(Program {
        name: format!("{package} {target}"),
        package: package.to_owned(),
        part: Part::of(&folder),
        folder: root.join(folder),
        path: PathBuf::from(message["executable"].as_str()?),
    })
}

/// The folder of a package, relative to the root.
fn folder(message: &Value, root: &Path) -> Option<PathBuf> {
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(manifest.parent()?.strip_prefix(root).ok()?.to_owned())
}

/// The name in an id such as `path+file:///a/b#name@0.1.0`, or `path+file:///a/name#0.1.0` where the folder has its name.
fn package(id: &str) -> &str {
    let (path, end) = id.rsplit_once('#').unwrap_or(("", id));
    match end.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(end),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_of_cargo_names_a_program_its_package_and_its_part() {
        let mut message = json!({
            "reason": "compiler-artifact", "package_id": "path+file:///w/crates/services/machines#0.1.0",
            "manifest_path": "/w/crates/services/machines/Cargo.toml", "target": {"kind": ["test"], "name": "it"},
            "profile": {"test": true}, "executable": "/w/target/debug/deps/it-1",
        });
        let found = program(&message, Path::new("/w")).expect("a program");
        assert_eq!((found.name.as_str(), found.part), ("machines it", Part::Product));
        assert_eq!(found.folder, Path::new("/w/crates/services/machines"));
        message["profile"]["test"] = json!(false);
        assert_eq!(program(&message, Path::new("/w")), None, "a binary that tests start");
    }

    #[test]
    fn a_package_has_the_name_of_its_folder_unless_it_is_told() {
        assert_eq!(package("path+file:///w/kubernetes/cel#kubernetes-cel@0.1.0"), "kubernetes-cel");
        assert_eq!(package("path+file:///w/xtask#0.1.0"), "xtask");
    }
}
