//! What the server serves: the built-in resources and, as definitions come and go, the custom ones.
//!
//! A registry is a value; the server swaps in a new one when a CustomResourceDefinition changes.

mod builtin;
mod custom;
pub(crate) mod priority;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use schema::Schema;
use serde_json::{Value, json};

pub(crate) use custom::{Conversion, Custom, Scale, mark as custom_mark, serve as serve_custom};

/// What compiles a schema, once.
pub(crate) type Compile = Box<dyn FnOnce() -> Arc<Schema> + Send + Sync>;

/// One resource in one version.
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    pub columns: Vec<Column>,
    /// Where objects live in the store: `group/plural`. Both event groups share one.
    pub collection: Arc<str>,
    /// The `apiVersion` objects are stored with.
    pub stored_as: String,
    /// Compiled when first used: most resources are never written to.
    pub schema: LazyLock<Arc<Schema>, Compile>,
    /// What the real server calls the storage version; clients only compare it.
    pub storage_hash: String,
    /// The key of a built-in kind in the generated tables.
    pub(crate) definition: String,
    /// What the API knows about the kind beyond its schema.
    pub(crate) rules: &'static ::builtin::Kind,
    /// `None` for built-ins.
    pub(crate) custom: Option<Custom>,
}

#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    /// Of custom resources; built-in cells are computed.
    pub path: String,
}

impl Resource {
    /// `plural.group`, or the plural alone for the core group: how messages name a resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The group under which a refusal names this kind: both event APIs are judged as one.
    pub fn judged_group(&self) -> &str {
        if self.is("/events") { "" } else { &self.group }
    }

    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub fn details(&self, name: &str) -> Value {
        let mut details = json!({"kind": self.plural});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !self.group.is_empty() {
            details["group"] = self.group.as_str().into();
        }
        details
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn is(&self, collection: &str) -> bool {
        *self.collection == *collection
    }
}

pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[derive(Clone, Default)]
pub(crate) struct Registry {
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Default)]
pub(crate) struct Group {
    /// The preferred version first.
    pub versions: Vec<Version>,
}

#[derive(Clone)]
pub(crate) struct Version {
    pub name: String,
    pub resources: BTreeMap<String, Arc<Resource>>,
}

impl Registry {
    pub(crate) fn builtin() -> Self {
        static BUILTIN: LazyLock<Registry> = LazyLock::new(|| {
            let mut registry = Registry::default();
            builtin::resources().into_iter().for_each(|resource| registry.add(resource));
            registry
        });
        BUILTIN.clone()
    }

    pub(crate) fn add(&mut self, resource: Arc<Resource>) {
        let group = self.groups.entry(resource.group.clone()).or_default();
        let position = group.versions.iter().position(|version| version.name == resource.version);
        let position = position.unwrap_or_else(|| {
            let rank = custom::version_rank(&resource.version);
            let at = group.versions.partition_point(|version| custom::version_rank(&version.name) >= rank);
            group.versions.insert(at, Version { name: resource.version.clone(), resources: BTreeMap::new() });
            at
        });
        group.versions[position].resources.insert(resource.plural.clone(), resource);
    }

    pub(crate) fn groups(&self) -> &BTreeMap<String, Group> {
        &self.groups
    }

    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.groups.get(group)?.versions.iter().find(|served| served.name == version)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.resources.get(plural)
    }

    /// Whether a group is one of the server's, be it that none of its kinds is in the version somebody asks for.
    pub(crate) fn is_own(&self, group: &str) -> bool {
        let versions = self.groups.get(group).map(|group| group.versions.as_slice()).unwrap_or_default();
        versions.iter().flat_map(|version| version.resources.values()).any(|resource| resource.custom.is_none())
    }

    /// Every group but the core one, as discovery orders them.
    pub(crate) fn named_groups(&self) -> Vec<(&str, &Group)> {
        let mut groups: Vec<_> = self
            .groups
            .iter()
            .map(|(name, group)| (name.as_str(), group))
            .filter(|(name, _)| !name.is_empty())
            .collect();
        groups.sort_by_key(|(name, group)| {
            let own = group.versions.iter().map(|version| priority::of(name, &version.name).group).max();
            std::cmp::Reverse(own)
        });
        groups
    }

    /// The resource of a kind, in the version named or, if that is not served, in any.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let group = self.groups.get(group)?;
        let named = group.versions.iter().find(|served| served.name == version);
        named
            .into_iter()
            .chain(&group.versions)
            .find_map(|served| served.resources.values().find(|resource| resource.kind == kind))
    }

    /// One resource per collection: the preferred version of everything that is stored.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        self.groups
            .values()
            .flat_map(|group| &group.versions)
            .flat_map(|version| version.resources.values())
            .filter(move |resource| resource.allows("list") && seen.insert(Arc::clone(&resource.collection)))
    }

    /// Every served version of what a collection holds, the preferred one first.
    pub(crate) fn versions_of(&self, collection: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let (group, plural) = collection.split_once('/').unwrap_or_default();
        let versions = self.groups.get(group).map(|group| group.versions.as_slice()).unwrap_or_default();
        versions
            .iter()
            .filter_map(move |version| version.resources.get(plural))
            .filter(|resource| resource.custom.is_some())
    }

    pub(crate) fn of_collection(&self, collection: &str) -> Option<&Arc<Resource>> {
        let (group, plural) = collection.split_once('/')?;
        self.groups.get(group)?.versions.iter().find_map(|version| version.resources.get(plural))
    }
}
