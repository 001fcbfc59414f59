//! Finds registry crates in `[workspace.dependencies]` that no crate of the workspace depends on.
//!
//! Cargo neither resolves nor warns about such an entry, so it would stay in the manifest and look as if it were in use.
//! This check does not look at sources: whether a crate uses what its own manifest names is left to review.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value;

use crate::workspace;

pub(super) fn problems(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let path = workspace::root().join("Cargo.toml");
    let manifest = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    unused(&manifest, metadata)
}

fn unused(manifest: &str, metadata: &Value) -> anyhow::Result<Vec<String>> {
    let manifest: Value = toml::from_str(manifest).context("cannot parse the workspace's Cargo.toml")?;
    let offered = manifest["workspace"]["dependencies"].as_object().into_iter().flatten();
    let named = named_by_members(metadata);
    Ok(offered
        // An entry with a path is a crate of this repository. It may be new, with nothing built on it yet.
        .filter(|(name, entry)| entry.get("path").is_none() && !named.contains(name.as_str()))
        .map(|(name, _)| format!("Cargo.toml: no crate depends on {name}, which [workspace.dependencies] lists"))
        .collect())
}

/// Names under which the workspace's own crates list their dependencies, for tests and builds too.
fn named_by_members(metadata: &Value) -> BTreeSet<&str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let members = packages.filter(|package| package["source"].is_null());
    let dependencies = members.flat_map(|package| package["dependencies"].as_array().into_iter().flatten());
    // A dependency with `package = "…"` is listed under its new name.
    dependencies.filter_map(|dependency| dependency["rename"].as_str().or(dependency["name"].as_str())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(manifest: &str, packages: &[Value], expected: &[&str]) {
        assert_eq!(unused(manifest, &json!({ "packages": packages })).unwrap(), expected);
    }

    fn member(dependency: Value) -> Value {
        json!({ "name": "api", "source": null, "dependencies": [dependency] })
    }

    #[test]
    fn an_entry_that_no_crate_names_is_found() {
        check(
            "[workspace.dependencies]\nserde = \"1\"\nurl = \"2\"",
            &[member(json!({ "name": "serde", "rename": null }))],
            &["Cargo.toml: no crate depends on url, which [workspace.dependencies] lists"],
        );
    }

    #[test]
    fn a_dependency_of_a_registry_crate_does_not_count() {
        let foreign = json!({ "name": "reqwest", "source": "registry", "dependencies": [{ "name": "url" }] });
        check(
            "[workspace.dependencies]\nurl = \"2\"",
            &[foreign],
            &["Cargo.toml: no crate depends on url, which [workspace.dependencies] lists"],
        );
    }

    #[test]
    fn a_renamed_dependency_counts_under_its_new_name() {
        check(
            "[workspace.dependencies]\ncel = { version = \"1\", package = \"kubernetes-cel\" }",
            &[member(json!({ "name": "kubernetes-cel", "rename": "cel" }))],
            &[],
        );
    }

    #[test]
    fn a_crate_of_this_repository_needs_no_user() {
        check("[workspace.dependencies]\nmetal = { path = \"crates/providers/metal\" }", &[], &[]);
    }
}
