//! The registry: every built-in kind that has rules of its own, by group. A kind is looked up here and nowhere else.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;

use std::{collections::HashMap, sync::LazyLock};

use crate::{Kind, Strategy};

pub use self::{
    admissionregistration::{BINDINGS, MUTATING_BINDINGS, MUTATING_POLICIES, POLICIES},
    apiextensions::{DEFINITION_FINALIZER, DEFINITIONS},
    apiregistration::API_SERVICES,
    apps::TEMPLATE_GENERATION,
    core::{grace, has_spec_finalizers},
};

/// Kinds that have nothing of their own.
static PLAIN: Kind = Kind::plain("");

/// Custom resources, which all behave alike.
static CUSTOM: Kind = Kind { strategy: Strategy::CUSTOM, ..Kind::plain("") };

/// Where objects of a built-in resource are kept: `group/plural`. Both event groups share one.
#[must_use]
pub fn collection(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("events.k8s.io", "events") => "/events".to_owned(),
        (group, plural) => format!("{group}/{plural}"),
    }
}

/// The rules of the built-in kind whose objects are kept in a collection (`group/plural`).
#[must_use]
pub fn of(collection: &str) -> &'static Kind {
    static BY_COLLECTION: LazyLock<HashMap<&str, &Kind>> =
        LazyLock::new(|| all().map(|kind| (kind.collection, kind)).collect());
    BY_COLLECTION.get(collection).copied().unwrap_or(&PLAIN)
}

/// The rules of every custom resource.
#[must_use]
pub fn custom() -> &'static Kind {
    &CUSTOM
}

static GROUPS: &[&[&Kind]] = &[
    admissionregistration::KINDS,
    &[&apiextensions::KIND, &apiregistration::KIND],
    apps::KINDS,
    &[&autoscaling::KIND],
    batch::KINDS,
    &[&certificates::KIND, &coordination::KIND],
    core::KINDS,
    &[&discovery::KIND],
    flowcontrol::KINDS,
    networking::KINDS,
    &[&node::KIND, &policy::KIND],
    rbac::KINDS,
    resource::KINDS,
    &[&scheduling::KIND],
    storage::KINDS,
];

fn all() -> impl Iterator<Item = &'static Kind> {
    GROUPS.iter().copied().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_entry_is_a_resource_of_the_tables_and_stands_there_once() {
        let served: BTreeSet<String> =
            tables::resources().iter().map(|resource| format!("{}/{}", resource.group, resource.plural)).collect();
        let mut seen = BTreeSet::new();
        for kind in all() {
            assert!(served.contains(kind.collection), "{} is not served", kind.collection);
            assert!(seen.insert(kind.collection), "{} stands there twice", kind.collection);
        }
    }

    #[test]
    fn every_resource_that_can_be_written_has_an_entry() {
        for resource in tables::resources().iter().filter(|resource| resource.verbs.iter().any(|verb| verb == "update"))
        {
            let collection = collection(&resource.group, &resource.plural);
            assert_eq!(of(&collection).collection, collection);
        }
    }

    #[test]
    fn every_kind_has_a_cell_for_each_of_its_columns() {
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        for kind in all() {
            let (columns, cells) = (kind.columns().len(), kind.cells(&object, "2026-01-01T00:01:00Z").len());
            // The real server prints the age of an address below no column.
            let extra = usize::from(kind.collection == "networking.k8s.io/ipaddresses");
            assert_eq!(cells, columns + extra, "{}", kind.collection);
        }
    }
}
