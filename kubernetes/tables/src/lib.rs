//! Tables of the built-in Kubernetes resources: names, verbs, subresources and schemas, without prose.
//!
//! The tables are generated (`cargo xtask generate`) from what the real server publishes, parsed once at first use and
//! never changed. Nothing here decides anything; the `schema` crate compiles and applies these schemas.

mod wire;

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

pub use wire::{Field, Message, message};

/// The release of the real server that the tables were taken from.
pub const RELEASE: &str = "v1.36.3";

/// One built-in resource in one version.
#[derive(Debug, Clone, Deserialize)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub storage_version_hash: String,
    pub subresources: Vec<Subresource>,
    /// The key of this kind in [`definitions`].
    pub schema: String,
}

/// A subresource, with the kind its requests and answers carry.
#[derive(Debug, Clone, Deserialize)]
pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Tables {
    resources: Vec<Resource>,
    definitions: Map<String, Value>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tables.json")).expect("the generated tables are checked by a test")
});

static BY_NAME: LazyLock<HashMap<(&'static str, &'static str, &'static str), &'static Resource>> =
    LazyLock::new(|| {
        let key = |r: &'static Resource| ((r.group.as_str(), r.version.as_str(), r.plural.as_str()), r);
        TABLES.resources.iter().map(key).collect()
    });

/// Every built-in resource, core group first.
#[must_use]
pub fn resources() -> &'static [Resource] {
    &TABLES.resources
}

/// The resource served at this group, version and plural name.
#[must_use]
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    // The map's keys live for ever, so the look-up key may live shorter.
    BY_NAME.get(&(group, version, plural)).copied()
}

/// The schemas (`components.schemas` of OpenAPI v3) that the resources reach.
#[must_use]
pub fn definitions() -> &'static Map<String, Value> {
    &TABLES.definitions
}

/// The definition with exactly this group, version and kind.
#[must_use]
pub fn definition_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    definitions()
        .iter()
        .find(|(_, definition)| {
            definition["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| {
                kinds.len() == 1
                    && kinds[0]["group"] == group
                    && kinds[0]["version"] == version
                    && kinds[0]["kind"] == kind
            })
        })
        .map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_schema() {
        assert!(resources().len() > 40);
        for resource in resources() {
            assert!(definitions().contains_key(&resource.schema), "{} has no schema", resource.plural);
        }
    }

    #[test]
    fn resources_are_found_by_name() {
        assert_eq!(resource("", "v1", "pods").map(|r| r.kind.as_str()), Some("Pod"));
        assert_eq!(resource("apps", "v1", "pods").map(|r| r.kind.as_str()), None);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        for (name, definition) in definitions() {
            let text = definition.to_string();
            for part in text.split("#/components/schemas/").skip(1) {
                let target = part.split('"').next().unwrap_or_default();
                assert!(definitions().contains_key(target), "{name} refers to {target}");
            }
        }
    }
}
