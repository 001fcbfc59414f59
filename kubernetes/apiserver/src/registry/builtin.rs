//! The built-in resources, from the generated tables.

use std::sync::{Arc, LazyLock};

use schema::Schema;

use super::{Resource, Subresource};

pub(super) fn resources() -> Vec<Arc<Resource>> {
    tables::resources().iter().map(|table| Arc::new(resource(table))).collect()
}

fn resource(table: &'static tables::Resource) -> Resource {
    let collection = builtin::collection(&table.group, &table.plural);
    let rules = builtin::of(&collection);
    let stored_as = match rules.view {
        Some(view) => view.stored_as.to_owned(),
        None => super::group_version(&table.group, &table.version),
    };
    Resource {
        group: table.group.clone(),
        version: table.version.clone(),
        kind: table.kind.clone(),
        list_kind: format!("{}List", table.kind),
        plural: table.plural.clone(),
        singular: table.singular.clone(),
        short_names: table.short_names.clone(),
        categories: table.categories.clone(),
        namespaced: table.namespaced,
        verbs: table.verbs.clone(),
        subresources: table
            .subresources
            .iter()
            .map(|subresource| Subresource {
                name: subresource.name.clone(),
                group: subresource.group.clone(),
                version: subresource.version.clone(),
                kind: subresource.kind.clone(),
                verbs: subresource.verbs.clone(),
            })
            .collect(),
        columns: Vec::new(),
        collection: collection.into(),
        stored_as,
        schema: LazyLock::new(Box::new(|| {
            // Every table names its schema, which a test of the tables checks.
            Schema::builtin(&table.schema).unwrap_or_else(|| Arc::new(Schema::custom(None, true)))
        })),
        storage_hash: table.storage_version_hash.clone(),
        definition: table.schema.clone(),
        rules,
        custom: None,
    }
}
