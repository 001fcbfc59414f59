//! What is served: discovery, plain and aggregated, and the OpenAPI documents.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderValue, Response, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    housekeeping::api_services,
    http::{Body, Call, respond},
    registry::{Registry, Resource, Version, group_version},
    server::Api,
    status::Answer,
};

/// OpenAPI documents of one registry, made when first asked for.
#[derive(Default)]
pub(crate) struct Documents(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    /// Identifies the registry the documents belong to.
    registry: usize,
    by_path: BTreeMap<String, (String, Arc<Vec<u8>>)>,
}

/// Answers discovery and OpenAPI paths; `None` for any other path.
pub(crate) fn answer(api: &Api, call: &Call) -> Option<Answer<Response<Body>>> {
    let registry = api.registry.load();
    let parts: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
    let value = match parts.as_slice() {
        ["api"] => match aggregated(&registry, call, true) {
            Some(response) => return Some(Ok(response)),
            None => json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": call.header("host")}],
            }),
        },
        ["apis"] => match aggregated(&registry, call, false) {
            Some(response) => return Some(Ok(response)),
            None => {
                let groups: Vec<Value> =
                    listed(api, &registry).iter().map(|(name, versions)| api_group(name, versions)).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
        },
        ["api", version] => resource_list(registry.version("", version)?, ""),
        ["apis", group] => {
            let served = registry.groups().get(*group).filter(|_| !group.is_empty())?;
            let mut value = api_group(group, &served.versions.iter().collect::<Vec<_>>());
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
            value
        }
        ["apis", group, version] => resource_list(registry.version(group, version)?, group),
        // Clients only ask the older document about kinds that are not served; an empty one says that they are not.
        ["openapi", "v2"] => {
            if call.header("accept").contains("protobuf") {
                let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                return Some(Ok(respond::bytes(200, media, "")));
            }
            json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": {}})
        }
        ["openapi", "v3", rest @ ..] => return open_api(api, &registry, call, &rest.join("/")),
        _ => return None,
    };
    Some(Ok(respond::value(200, &value, call.accept.yaml, call.query.flag("pretty"))))
}

/// The groups in their order, with those of their versions that an APIService lists. The aggregated list does not ask.
fn listed<'a>(api: &Api, registry: &'a Registry) -> Vec<(&'a str, Vec<&'a Version>)> {
    let groups = registry.named_groups().into_iter().map(|(name, group)| {
        let versions = group.versions.iter().filter(|version| api_services::is_listed(api, name, version));
        (name, versions.collect::<Vec<_>>())
    });
    groups.filter(|(_, versions)| !versions.is_empty()).collect()
}

fn api_group(name: &str, versions: &[&Version]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(name, &version.name), "version": version.name}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn resource_list(version: &Version, group: &str) -> Value {
    let mut resources = Vec::new();
    for resource in version.resources.values() {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs,
        });
        for (field, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
            if !list.is_empty() {
                entry[field] = list.clone().into();
            }
        }
        if resource.allows("list") && (resource.custom.is_some() || !resource.storage_hash.is_empty()) {
            entry["storageVersionHash"] = storage_hash(resource).into();
        }
        resources.push(entry);
        for subresource in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": subresource.kind, "verbs": subresource.verbs,
            });
            if (subresource.group.as_str(), subresource.version.as_str())
                != (resource.group.as_str(), resource.version.as_str())
            {
                entry["group"] = subresource.group.as_str().into();
                entry["version"] = subresource.version.as_str().into();
            }
            resources.push(entry);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group_version(group, &version.name), "resources": resources,
    });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn storage_hash(resource: &Resource) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    if !resource.storage_hash.is_empty() {
        return resource.storage_hash.clone();
    }
    let text = format!("{}/{}", resource.stored_as, resource.kind);
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}

fn aggregated(registry: &Registry, call: &Call, core: bool) -> Option<Response<Body>> {
    let version = call.accept.discovery.as_deref()?;
    let groups = if core {
        registry.groups().get_key_value("").map(|(name, group)| (name.as_str(), group)).into_iter().collect()
    } else {
        registry.named_groups()
    };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(name, group)| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = version.resources.values().map(|r| aggregated_resource(r)).collect();
                    json!({"version": version.name, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let api_version = format!("apidiscovery.k8s.io/{version}");
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items});
    let text = serde_json::to_vec(&list).unwrap_or_default();
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let etag = hash(&text);
    if call.header("if-none-match").trim_matches('"') == etag {
        return Some(not_modified(&etag));
    }
    let mut response = respond::bytes(200, respond::JSON, text);
    set(&mut response, header::CONTENT_TYPE, &content_type);
    set(&mut response, header::ETAG, &format!("\"{etag}\""));
    set(&mut response, header::VARY, "Accept");
    Some(response)
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Built-in kinds say only where they are of another group or version than the list that names them.
    let is_own = |group: &str, version: &str| {
        resource.custom.is_none() && (group, version) == (resource.group.as_str(), resource.version.as_str())
    };
    let kind = |group: &str, version: &str, kind: &str| match is_own(group, version) {
        true => json!({"group": "", "version": "", "kind": kind}),
        false => json!({"group": group, "version": version, "kind": kind}),
    };
    let mut entry = json!({
        "resource": resource.plural, "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    for (field, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            entry[field] = list.clone().into();
        }
    }
    if !resource.subresources.is_empty() {
        let list: Vec<Value> = resource
            .subresources
            .iter()
            .map(|subresource| {
                json!({
                    "subresource": subresource.name, "verbs": subresource.verbs,
                    "responseKind": kind(&subresource.group, &subresource.version, &subresource.kind),
                })
            })
            .collect();
        entry["subresources"] = list.into();
    }
    entry
}

fn open_api(api: &Api, registry: &Arc<Registry>, call: &Call, path: &str) -> Option<Answer<Response<Body>>> {
    if path.is_empty() {
        let mut paths = serde_json::Map::new();
        for (group, versions) in registry.groups() {
            for version in &versions.versions {
                let name = document_path(group, &version.name);
                let (hash, _) = document(api, registry, &name)?;
                let url = format!("/openapi/v3/{name}?hash={hash}");
                paths.insert(name, json!({"serverRelativeURL": url}));
            }
        }
        return Some(Ok(respond::value(200, &json!({"paths": paths}), false, false)));
    }
    let (hash, text) = document(api, registry, path)?;
    if call.header("if-none-match").trim_matches('"') == hash {
        return Some(Ok(not_modified(&hash)));
    }
    let mut response = respond::bytes(200, respond::JSON, text.to_vec());
    set(&mut response, header::ETAG, &format!("\"{hash}\""));
    set(&mut response, header::VARY, "Accept");
    if call.query.get("hash").is_some_and(|asked| asked == hash) {
        set(&mut response, header::CACHE_CONTROL, "public, immutable");
    }
    Some(Ok(response))
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn document(api: &Api, registry: &Arc<Registry>, path: &str) -> Option<(String, Arc<Vec<u8>>)> {
    let identity = Arc::as_ptr(registry) as usize;
    let mut cached = api.documents.0.lock();
    if cached.registry != identity {
        *cached = Cached { registry: identity, by_path: BTreeMap::new() };
    }
    if let Some((hash, text)) = cached.by_path.get(path) {
        return Some((hash.clone(), Arc::clone(text)));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    let served = registry.version(group, version)?;
    let text = serde_json::to_vec(&crate::openapi::document(group, version, served)).unwrap_or_default();
    let made = (hash(&text), Arc::new(text));
    cached.by_path.insert(path.to_owned(), made.clone());
    Some(made)
}

/// The registry's address can be reused after a swap, so a swap forgets the documents.
pub(crate) fn forget(documents: &Documents) {
    *documents.0.lock() = Cached::default();
}

fn hash(text: &[u8]) -> String {
    hex::encode_upper(Sha256::digest(text))
}

fn not_modified(etag: &str) -> Response<Body> {
    let mut response = respond::bytes(304, respond::JSON, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    set(&mut response, header::ETAG, &format!("\"{etag}\""));
    response
}

fn set(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
