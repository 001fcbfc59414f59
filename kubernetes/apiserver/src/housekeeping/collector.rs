//! Garbage collection by owner references.

use std::sync::Arc;

use serde_json::Value;

use super::{system_call, system_options, system_request};
use crate::{
    object::{Key, Object, text},
    server::Api,
    store::Index,
    verbs::{
        delete::{DeleteOptions, Policy, remove},
        update,
    },
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How the owners of an object stand.
#[derive(Default)]
struct Owners {
    solid: Vec<Box<str>>,
    gone: Vec<Box<str>>,
    /// Being deleted in the foreground: they wait for this object.
    waiting: Vec<Box<str>>,
}

/// Deletes an object whose owners are all gone, or lets go of those that are.
pub(super) async fn dependent(api: &Arc<Api>, key: &Key) {
    let (object, owners, has_dependents) = {
        let index = api.store.read();
        let Some(object) = index.collection(&key.collection).and_then(|found| found.get(&key.name)) else { return };
        let object = Arc::clone(object);
        let owners = owners(&index, &object);
        let has_dependents = !index.dependents(&object.uid).is_empty();
        (object, owners, has_dependents)
    };
    if owners.gone.is_empty() && owners.waiting.is_empty() {
        return;
    }
    if !owners.solid.is_empty() {
        let leaving: Vec<&str> = owners.gone.iter().chain(&owners.waiting).map(|uid| &**uid).collect();
        let_go(api, &object, &leaving).await;
        return;
    }
    if object.deleting && !has_dependents {
        return;
    }
    let foreground = !owners.waiting.is_empty() && has_dependents;
    let policy = if foreground { Some(Policy::Foreground) } else { None };
    let options = DeleteOptions { uid: Some(object.uid.to_string()), policy, ..DeleteOptions::default() };
    delete(api, &object, &options).await;
}

fn owners(index: &Index, object: &Object) -> Owners {
    let mut owners = Owners::default();
    for owner in &object.owners {
        let found = index
            .by_uid(&owner.uid)
            .filter(|found| found.namespace().is_empty() || found.namespace() == object.namespace());
        match found {
            None => owners.gone.push(owner.uid.clone()),
            Some(found) if found.deleting && has_finalizer(&found.value(), FOREGROUND) => {
                owners.waiting.push(owner.uid.clone());
            }
            Some(_) => owners.solid.push(owner.uid.clone()),
        }
    }
    owners
}

/// Moves on an object that is being deleted together with, or without, its dependents.
pub(super) async fn owner(api: &Arc<Api>, key: &Key) {
    let Some(object) = api.store.get(&key.collection, &key.name).filter(|object| object.deleting) else { return };
    let value = object.value();
    if has_finalizer(&value, ORPHAN) {
        let dependents = api.store.read().dependents(&object.uid);
        for dependent in dependents {
            let_go(api, &dependent, &[&object.uid]).await;
        }
        drop_finalizer(api, &object, ORPHAN).await;
    } else if has_finalizer(&value, FOREGROUND) {
        let dependents = api.store.read().dependents(&object.uid);
        let blocked = dependents
            .iter()
            .any(|dependent| dependent.owners.iter().any(|owner| owner.uid == object.uid && owner.blocks));
        if !blocked {
            drop_finalizer(api, &object, FOREGROUND).await;
        }
        for dependent in &dependents {
            Box::pin(self::dependent(api, &dependent.key)).await;
        }
        if blocked && api.store.read().dependents(&object.uid).is_empty() {
            drop_finalizer(api, &object, FOREGROUND).await;
        }
    }
}

fn has_finalizer(value: &Value, finalizer: &str) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|item| item == finalizer))
}

async fn delete(api: &Arc<Api>, object: &Object, options: &DeleteOptions) {
    let registry = api.registry.load_full();
    let Some(resource) = registry.of_collection(&object.key.collection) else { return };
    let call = system_call();
    let request = system_request(api, &call, resource, &object.key);
    if let Err(failure) = remove(&request, object.name(), options).await
        && failure.code != 404
        && failure.code != 409
    {
        tracing::warn!(object = %object.key.collection, name = object.name(), message = failure.message, "cannot collect");
    }
}

/// Removes owner references of the object.
async fn let_go(api: &Arc<Api>, object: &Object, uids: &[&str]) {
    change(api, object, |metadata| {
        let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> =
            references.into_iter().filter(|reference| !uids.contains(&text(&reference["uid"]))).collect();
        replace_list(metadata, "ownerReferences", kept);
    })
    .await;
}

pub(super) async fn drop_finalizer(api: &Arc<Api>, object: &Object, finalizer: &str) {
    change(api, object, |metadata| {
        let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = finalizers.into_iter().filter(|item| item != finalizer).collect();
        replace_list(metadata, "finalizers", kept);
    })
    .await;
}

fn replace_list(metadata: &mut Value, field: &str, list: Vec<Value>) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    if list.is_empty() {
        metadata.remove(field);
    } else {
        metadata.insert(field.into(), list.into());
    }
}

async fn change(api: &Arc<Api>, object: &Object, edit: impl Fn(&mut Value)) {
    let registry = api.registry.load_full();
    let Some(resource) = registry.of_collection(&object.key.collection) else { return };
    let call = system_call();
    let request = system_request(api, &call, resource, &object.key);
    let outcome = update::replace(&request, &system_options(), |_, old| {
        let mut new = old.clone();
        if text(&old["metadata"]["uid"]) == &*object.uid {
            edit(&mut new["metadata"]);
        }
        Ok(new)
    })
    .await;
    if let Err(failure) = outcome
        && failure.code != 404
    {
        tracing::warn!(object = %object.key.collection, name = object.name(), message = failure.message, "cannot collect");
    }
}
