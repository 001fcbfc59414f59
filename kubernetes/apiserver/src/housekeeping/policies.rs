//! Admission policies: the types of their expressions are checked once per generation, and their status says what was found.

use std::{collections::BTreeSet, sync::Arc};

use schema::policy::Kind;
use serde_json::{Value, json};

use crate::{object::text, openapi, registry::Registry, server::Api};

pub(crate) const COLLECTION: &str = builtin::POLICIES;

/// Whose name the status is written under.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// No rule of a policy brings more kinds than this.
const MOST_KINDS: usize = 10;

pub(super) async fn settle(api: &Arc<Api>) {
    for policy in super::all(api, COLLECTION) {
        let value = policy.value();
        let generation = value["metadata"]["generation"].as_i64().unwrap_or(0);
        if generation <= value["status"]["observedGeneration"].as_i64().unwrap_or(0) {
            continue;
        }
        let found = warnings(api, &value);
        let mut checked = json!({});
        if !found.is_empty() {
            checked["expressionWarnings"] = found.into();
        }
        let status = json!({"observedGeneration": generation, "typeChecking": checked});
        super::apply_status(api, &policy, MANAGER, &status).await;
    }
}

fn warnings(api: &Api, policy: &Value) -> Vec<Value> {
    let registry = api.registry.load();
    let documents: Vec<(Named, Value)> = kinds(&registry, policy)
        .into_iter()
        .filter_map(|kind| {
            let document = document(&registry, &kind)?;
            Some((kind, document))
        })
        .collect();
    let kinds: Vec<Kind<'_>> = documents.iter().map(|(kind, document)| of(kind, document)).collect();
    let wanted = &policy["spec"]["paramKind"];
    let version = text(&wanted["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let params = (group.to_owned(), version.to_owned(), text(&wanted["kind"]).to_owned());
    let found = document(&registry, &params);
    let params = found.as_ref().map(|document| of(&params, document));
    // The real server tells types apart by the moment in which it made them.
    let number = jiff::Timestamp::now().subsec_nanosecond().unsigned_abs();
    crate::verbs::patiently(|| schema::policy::warnings(policy, &kinds, params.as_ref(), number))
}

/// A group, a version and a kind.
type Named = (String, String, String);

fn of<'a>((group, version, kind): &'a Named, document: &'a Value) -> Kind<'a> {
    Kind { group, version, kind, document }
}

fn document(registry: &Registry, (group, version, kind): &Named) -> Option<Value> {
    registry.by_kind(group, version, kind)?;
    Some(openapi::document(group, version, registry.version(group, version)?))
}

/// The kinds that a policy names without wildcards, in order.
fn kinds(registry: &Registry, policy: &Value) -> BTreeSet<Named> {
    let mut found = BTreeSet::new();
    for rule in policy["spec"]["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let names = |field: &str| -> Vec<&str> {
            let mut names: Vec<&str> = rule[field].as_array().into_iter().flatten().map(text).collect();
            names.sort_unstable();
            names
        };
        let (groups, versions) = (names("apiGroups"), names("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for plural in names("resources").into_iter().filter(|name| !name.contains(['*', '/'])) {
                    for kind in resolved(registry, group, version, &plural.to_lowercase()) {
                        found.insert(kind);
                        count += 1;
                        if count == MOST_KINDS {
                            return found;
                        }
                    }
                }
            }
        }
    }
    found
}

/// The kinds of a resource by its plural or singular name. No group means any.
fn resolved(registry: &Registry, group: &str, version: &str, name: &str) -> Vec<Named> {
    let mut found = Vec::new();
    for (own, served) in registry.groups().iter().filter(|(own, _)| group.is_empty() || *own == group) {
        for served in served.versions.iter().filter(|served| served.name == version) {
            let named =
                served.resources.values().filter(|resource| resource.plural == name || resource.singular == name);
            found.extend(named.map(|resource| (own.clone(), version.to_owned(), resource.kind.clone())));
        }
    }
    found
}
