//! Namespaces: what each new one gets, and how a deleted one is emptied.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{system_call, system_options, system_request};
use crate::{
    auth::bootstrap,
    object::{Key, Name, Object},
    server::Api,
    verbs::{Request, delete, update},
};

pub(super) async fn settle(api: &Arc<Api>, name: &str) {
    let Some(namespace) = api.store.get("/namespaces", &Name::new("", name)) else { return };
    if namespace.deleting {
        empty(api, &namespace).await;
        return;
    }
    let authority = api.authority.pem.clone();
    let first = [
        ("/serviceaccounts", json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}})),
        (
            "/configmaps",
            json!({
                "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kube-root-ca.crt"},
                "data": {"ca.crt": authority},
            }),
        ),
    ];
    for (collection, value) in first {
        // A namespace may go away while its first objects are made; the next look deletes them.
        let _ = bootstrap::create(api, collection, name, value).await;
    }
}

/// Deletes everything in the namespace and, when nothing is left, the namespace.
async fn empty(api: &Arc<Api>, namespace: &Object) {
    let registry = api.registry.load_full();
    let call = system_call();
    let mut left = false;
    for resource in registry.stored().filter(|resource| resource.namespaced) {
        let objects: Vec<Arc<Object>> = match api.store.read().collection(&resource.collection) {
            Some(collection) => collection.iter(Some(namespace.name()), None).cloned().collect(),
            None => continue,
        };
        for object in objects {
            let request = system_request(api, &call, resource, &object.key);
            let options = delete::DeleteOptions { policy: Some(delete::Policy::Background), ..Default::default() };
            match delete::remove(&request, object.name(), &options).await {
                Ok(delete::Deleted::Gone(_)) => {}
                Ok(delete::Deleted::Pending(_)) => left = true,
                Err(failure) => left |= failure.code != 404,
            }
        }
    }
    if !left {
        finalize(api, namespace).await;
    }
}

async fn finalize(api: &Arc<Api>, namespace: &Object) {
    let registry = api.registry.load_full();
    let Some(resource) = registry.of_collection("/namespaces") else { return };
    let call = system_call();
    let key = Key { collection: Arc::clone(&resource.collection), name: namespace.key.name.clone() };
    let request = Request { subresource: "finalize", ..system_request(api, &call, resource, &key) };
    let outcome = update::replace(&request, &system_options(), |_, old| {
        let mut new = old.clone();
        let finalizers = old["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = finalizers.into_iter().filter(|item| item != "kubernetes").collect();
        new["spec"]["finalizers"] = kept.into();
        Ok(new)
    })
    .await;
    if let Err(failure) = outcome
        && failure.code != 404
    {
        tracing::warn!(namespace = namespace.name(), message = failure.message, "cannot finish the namespace");
    }
}
