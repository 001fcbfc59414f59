//! OpenAPI v3 documents of what is served.

use schema::openapi::{Served, Source, Subresource};
use serde_json::Value;

use crate::registry::{Resource, Version};

pub(crate) fn document(group: &str, version: &str, served: &Version) -> Value {
    let resources: Vec<&Resource> = served.resources.values().map(|resource| &**resource).collect();
    let subresources: Vec<Vec<Subresource<'_>>> = resources.iter().map(|resource| subresources(resource)).collect();
    let served: Vec<Served<'_>> = resources
        .iter()
        .zip(&subresources)
        .map(|(resource, subresources)| Served {
            kind: &resource.kind,
            list_kind: &resource.list_kind,
            plural: &resource.plural,
            namespaced: resource.namespaced,
            verbs: &resource.verbs,
            subresources,
            schema: match &resource.custom {
                Some(custom) => Source::Custom(custom.open_api.as_deref()),
                None => Source::BuiltIn(&resource.definition),
            },
        })
        .collect();
    schema::openapi::document(group, version, &served)
}

fn subresources(resource: &Resource) -> Vec<Subresource<'_>> {
    let list = resource.subresources.iter();
    list.map(|own| Subresource {
        name: &own.name,
        group: &own.group,
        version: &own.version,
        kind: &own.kind,
        verbs: &own.verbs,
    })
    .collect()
}
