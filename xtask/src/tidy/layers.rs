//! The folder is the layer: a crate uses only crates from folders below its own, never its neighbours.

use std::path::Path;

use serde_json::Value;

/// Layers from the bottom up; a crate of one may use the crates of those before it.
const LAYERS: &[&str] =
    &["vocabulary", "decisions", "views", "adapters", "providers", "services", "sandbox", "binaries"];

/// How many of the layers, from the bottom, hold rules only and do no I/O.
const PURE: usize = 3;

/// Crates that decide may not even be able to wait, to read a disk or to open a connection.
const IMPURE: &[&str] = &["tokio", "reqwest", "axum", "hyper", "rustix", "tempfile", "zbus", "redb"];

pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let packages: Vec<Package> =
        metadata["packages"].as_array().into_iter().flatten().filter_map(Package::read).collect();
    let mut problems = Vec::new();
    for package in &packages {
        for dependency in &package.dependencies {
            if package.layer < PURE && IMPURE.contains(&dependency.as_str()) {
                problems.push(format!(
                    "crate {} is in {}, which does no I/O, but depends on {dependency}",
                    package.name, LAYERS[package.layer]
                ));
            }
            if let Some(used) = packages.iter().find(|other| &other.name == dependency)
                && used.layer >= package.layer
            {
                problems.push(format!(
                    "crate {} ({}) uses {} ({}): a crate uses only crates from folders below its own",
                    package.name, LAYERS[package.layer], used.name, LAYERS[used.layer]
                ));
            }
        }
    }
    problems
}

struct Package {
    name: String,
    layer: usize,
    /// Ordinary dependencies; those for tests and benchmarks are free.
    dependencies: Vec<String>,
}

impl Package {
    /// Reads a crate of a layer; `testkit`, `xtask`, `e2e` and foreign crates belong to none.
    fn read(package: &Value) -> Option<Package> {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
        if !package["source"].is_null() {
            return None;
        }
        let name = package["name"].as_str()?.to_owned();
        let parent = folder.parent()?.file_name()?.to_str()?;
        let layer = match (parent, name.as_str()) {
            ("crates", "machinist" | "machinistd") => LAYERS.len() - 1,
            _ => LAYERS.iter().position(|layer| *layer == parent)?,
        };
        let dependencies = package["dependencies"]
            .as_array()?
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
            .collect();
        Some(Package { name, layer, dependencies })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(path: &str, dependencies: &[&str]) -> Value {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let dependencies: Vec<_> = dependencies.iter().map(|name| json!({"name": name, "kind": null})).collect();
        json!({
            "name": name, "source": null,
            "manifest_path": format!("/somewhere/{path}/Cargo.toml"), "dependencies": dependencies,
        })
    }

    #[track_caller]
    fn check(packages: &[Value], expected: &[&str]) {
        assert_eq!(problems(&json!({ "packages": packages })), expected);
    }

    #[test]
    fn a_crate_may_use_what_lies_below_it() {
        check(&[package("crates/vocabulary/api", &["serde"]), package("crates/decisions/render", &["api"])], &[]);
    }

    #[test]
    fn a_neighbour_is_refused() {
        check(
            &[package("crates/decisions/change", &[]), package("crates/decisions/render", &["change"])],
            &["crate render (decisions) uses change (decisions): a crate uses only crates from folders below its own"],
        );
    }

    #[test]
    fn one_cloud_does_not_know_another() {
        check(
            &[package("crates/providers/aws", &[]), package("crates/providers/azure", &["aws"])],
            &["crate azure (providers) uses aws (providers): a crate uses only crates from folders below its own"],
        );
    }

    #[test]
    fn a_decision_that_could_wait_is_refused() {
        check(
            &[package("crates/decisions/render", &["tokio"])],
            &["crate render is in decisions, which does no I/O, but depends on tokio"],
        );
    }
}
