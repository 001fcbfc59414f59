//! APIServices: one for each group version that is served, kept current as definitions come and go.
//!
//! Nothing is forwarded to other API servers: an APIService that names a Service is kept and reported as unavailable.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    auth::bootstrap,
    object::{Draft, Name, Object, text},
    ownership,
    registry::{
        Version,
        priority::{self, LISTING},
    },
    server::Api,
    store::{Expect, Write},
    verbs::now,
};

pub(crate) use builtin::API_SERVICES as COLLECTION;

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Which of the server's own APIServices are brought into line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// All of them. What an administrator does to those of built-in groups afterwards stays until the next start.
    Start,
    /// Those of definitions, which come back when they are changed or deleted.
    Change,
}

pub(crate) async fn settle(api: &Arc<Api>, moment: Moment) {
    let mut wanted = wanted(api);
    for object in super::all(api, COLLECTION) {
        let value = object.value();
        let desired = wanted.remove(object.name());
        let ours = match value["metadata"]["labels"][MANAGED].as_str() {
            Some("true") => true,
            Some("onstart") => moment == Moment::Start,
            _ => false,
        };
        match desired {
            None if ours => {
                let write = Write::Delete(object.key.clone(), Expect::Version(object.version));
                // Stale means that it just changed, which brings another look; so below.
                let _ = api.store.commit(write).await;
            }
            Some(desired) if ours && desired["spec"] != value["spec"] => {
                let mut new = value;
                new["spec"] = desired["spec"].clone();
                put(api, &object, &new).await;
            }
            _ if value["spec"]["service"].is_object() => report(api, &object, value).await,
            _ => {}
        }
    }
    let missing = wanted
        .into_values()
        .filter(|service| moment == Moment::Start || service["metadata"]["labels"][MANAGED] == "true");
    let writes = missing.map(|service| bootstrap::create(api, COLLECTION, "", service));
    for outcome in futures::future::join_all(writes).await {
        if let Err(message) = outcome {
            tracing::warn!(message, "cannot list a group version");
        }
    }
}

/// Whether an APIService says that another server has this group version.
pub(crate) fn is_elsewhere(api: &Api, group: &str, version: &str) -> bool {
    let object = api.store.get(COLLECTION, &Name::new("", &format!("{version}.{group}")));
    object.is_some_and(|object| object.value()["spec"]["service"].is_object())
}

/// Whether a group version that is served is also told of. Whoever deletes the APIService of a built-in one hides it; those of
/// definitions come back by themselves.
pub(crate) fn is_listed(api: &Api, group: &str, version: &Version) -> bool {
    group == LISTING
        || version.resources.values().all(|resource| resource.custom.is_some())
        || api.store.get(COLLECTION, &Name::new("", &format!("{}.{group}", version.name))).is_some()
}

fn wanted(api: &Api) -> BTreeMap<String, Value> {
    let registry = api.registry.load();
    let mut wanted = BTreeMap::new();
    for (group, served) in registry.groups().iter().filter(|(name, _)| *name != LISTING) {
        for version in &served.versions {
            let custom = version.resources.values().all(|resource| resource.custom.is_some());
            let name = format!("{}.{group}", version.name);
            let order = priority::of(group, &version.name);
            let mut spec = json!({
                "version": version.name, "groupPriorityMinimum": order.group, "versionPriority": order.version,
            });
            if !group.is_empty() {
                spec["group"] = group.as_str().into();
            }
            let labels = json!({MANAGED: if custom { "true" } else { "onstart" }});
            let service = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": name, "labels": labels}, "spec": spec,
            });
            wanted.insert(name, service);
        }
    }
    wanted
}

/// Says of an APIService behind a Service that it is not available, and why.
async fn report(api: &Api, object: &Object, mut value: Value) {
    let service = &value["spec"]["service"];
    let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
    let (reason, message) = match api.store.get("/services", &Name::new(namespace, name)) {
        None => ("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")),
        Some(_) => ("FailedDiscoveryCheck", "this server forwards no requests to other API servers".to_owned()),
    };
    let mut condition = builtin::conditions::available("False", reason, &message, &now);
    let told = value["status"]["conditions"].as_array().and_then(|list| list.first()).cloned().unwrap_or_default();
    if told["reason"] == condition["reason"] && told["message"] == condition["message"] {
        return;
    }
    if told["status"] == condition["status"] {
        condition["lastTransitionTime"] = told["lastTransitionTime"].clone();
    }
    let before = value.clone();
    value["status"] = json!({"conditions": [condition]});
    if let Some(resource) = api.registry.load().of_collection(COLLECTION) {
        ownership::report(resource, "kube-apiserver", &before, &mut value);
    }
    put(api, object, &value).await;
}

async fn put(api: &Api, object: &Object, value: &Value) {
    let draft = Draft::new(object.key.clone(), value);
    let _ = api.store.commit(Write::Put(Box::new(draft), Expect::Version(object.version))).await;
}
