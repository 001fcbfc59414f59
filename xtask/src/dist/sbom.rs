//! The bill of materials: every crate that the two binaries are linked from, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use operate::programs::{MACHINIST, MACHINISTD};
use serde_json::{Value, json};

use super::VERSION;
use crate::workspace;

pub(super) fn write(target: &str) -> anyhow::Result<String> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&workspace::capture("cargo", &arguments)?)?;
    Ok(format!("{:#}\n", bill(&metadata)?))
}

/// The bill of what `cargo metadata` says.
fn bill(metadata: &Value) -> anyhow::Result<Value> {
    let graph = Graph::read(metadata)?;
    let linked = graph.linked()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let used = packages.filter(|package| linked.contains(package["id"].as_str().unwrap_or_default()));
    let mut components: Vec<Value> = used.map(component).collect();
    components.sort_by_key(|component| component["bom-ref"].as_str().unwrap_or_default().to_owned());
    let name = |id: &str| graph.names.get(id).cloned().unwrap_or_default();
    let mut dependencies: Vec<Value> = linked
        .iter()
        .map(|id| {
            let uses: BTreeSet<String> = graph.uses(id).map(|used| name(used)).collect();
            json!({"ref": name(id), "dependsOn": uses})
        })
        .collect();
    dependencies.sort_by_key(|one| one["ref"].as_str().unwrap_or_default().to_owned());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "machinist-release", "name": "machinist", "version": VERSION}},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Value) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": text("name"),
        "version": text("version"),
        "purl": reference(package),
        "licenses": [{"expression": text("license").replace('/', " OR ")}],
    });
    if let Some(address) = package["repository"].as_str() {
        component["externalReferences"] = json!([{"type": "vcs", "url": address}]);
    }
    component
}

fn reference(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

/// Which package uses which.
struct Graph<'a> {
    names: BTreeMap<&'a str, String>,
    edges: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Graph<'a> {
    fn read(metadata: &'a Value) -> anyhow::Result<Self> {
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let names = packages.iter().filter_map(|package| Some((package["id"].as_str()?, reference(package)))).collect();
        let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves nothing")?;
        let edges = nodes.iter().filter_map(|node| {
            let uses =
                node["deps"].as_array()?.iter().filter(|used| is_linked(used)).filter_map(|used| used["pkg"].as_str());
            Some((node["id"].as_str()?, uses.collect()))
        });
        Ok(Self { names, edges: edges.collect() })
    }

    fn uses(&self, id: &str) -> impl Iterator<Item = &&'a str> {
        self.edges.get(id).into_iter().flatten()
    }

    /// Everything that the binaries reach.
    fn linked(&self) -> anyhow::Result<BTreeSet<&'a str>> {
        let mut open = Vec::new();
        for program in [MACHINIST, MACHINISTD] {
            let name = format!("pkg:cargo/{program}@{VERSION}");
            let found = self.names.iter().find(|(_, known)| **known == name);
            open.push(*found.with_context(|| format!("cargo metadata has no package {program}"))?.0);
        }
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.uses(id));
            }
        }
        Ok(seen)
    }
}

/// Neither for tests nor for build scripts, which leave nothing of themselves in a binary.
fn is_linked(used: &Value) -> bool {
    used["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_the_binaries_reach_is_listed_and_what_only_tests_use_is_not() {
        let package = |name: &str| json!({"id": name, "name": name, "version": VERSION, "license": "MIT/Apache-2.0"});
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["machinist", "machinistd", "a", "b", "only-tests", "stranger"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "machinist", "deps": [uses("a", Value::Null), uses("only-tests", json!("dev"))]},
                {"id": "machinistd", "deps": []},
                {"id": "a", "deps": [uses("b", Value::Null)]},
                {"id": "b", "deps": []},
            ]},
        });
        let bill = bill(&metadata).unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "machinist", "machinistd"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!([format!("pkg:cargo/b@{VERSION}")]));
    }
}
