//! CustomResourceDefinitions: their names are accepted, their resources served, and removed with the definition.

use std::{collections::HashMap, sync::Arc};

use builtin::conditions::set_condition;
use serde_json::{Value, json};

use super::{system_call, system_options, system_request};
use crate::{
    discovery,
    object::{Object, text},
    ownership,
    registry::{Registry, Resource, custom_mark, serve_custom},
    server::Api,
    verbs::{Request, delete, now, update},
};

pub(crate) use builtin::{DEFINITION_FINALIZER as FINALIZER, DEFINITIONS as COLLECTION};

/// Brings the definitions in the store and the resources served into line.
pub(crate) async fn settle(api: &Arc<Api>) {
    for object in objects(api) {
        if object.deleting {
            remove_instances(api, &object).await;
        } else {
            accept(api, &object).await;
        }
    }
    serve(api);
}

fn objects(api: &Api) -> Vec<Arc<Object>> {
    let index = api.store.read();
    index.collection(COLLECTION).map(|found| found.iter(None, None).cloned().collect()).unwrap_or_default()
}

/// Serves the resources of all established definitions.
pub(crate) fn serve(api: &Api) {
    let current = api.registry.load();
    let mut known: HashMap<(String, String), Vec<Arc<Resource>>> = HashMap::new();
    for resource in current.groups().values().flat_map(|group| &group.versions).flat_map(|v| v.resources.values()) {
        if let Some(custom) = &resource.custom {
            let key = (custom.definition.clone(), custom.mark.clone());
            known.entry(key).or_default().push(Arc::clone(resource));
        }
    }
    let mut registry = Registry::builtin();
    let mut changed = false;
    let mut reused = 0;
    let total: usize = known.len();
    for object in objects(api) {
        // Compiling a schema is the costly part, so an unchanged definition keeps its resources.
        let value = object.value();
        let key = (object.name().to_owned(), custom_mark(&value));
        let resources = match known.remove(&key) {
            Some(resources) => {
                reused += 1;
                resources
            }
            None => {
                let made = serve_custom(&value);
                changed |= !made.is_empty();
                made
            }
        };
        resources.into_iter().for_each(|resource| registry.add(resource));
    }
    if changed || reused != total {
        api.registry.store(Arc::new(registry));
        discovery::forget(&api.documents);
        // Only after new requests find the new state: whose watch ends here must not come back to the old one.
        for custom in known.values().flatten().filter_map(|resource| resource.custom.as_ref()) {
            custom.retired.send_replace(true);
        }
    }
}

/// Accepts the names of a definition unless another one has them, and reports it in the status.
async fn accept(api: &Arc<Api>, object: &Object) {
    let value = object.value();
    let conflict = conflict(api, &value);
    let names = &value["spec"]["names"];
    let accepted = match &conflict {
        None => names.clone(),
        Some(_) => match &value["status"]["acceptedNames"] {
            Value::Object(kept) => kept.clone().into(),
            _ => json!({"kind": "", "plural": ""}),
        },
    };
    let established = conflict.is_none() || condition(&value, "Established") == Some("True");
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    let mut wanted = vec![("NamesAccepted", status, reason, message)];
    if established {
        let text = "the initial names have been accepted".to_owned();
        wanted.push(("Established", "True", "InitialNamesAccepted", text));
    } else {
        wanted.push(("Established", "False", "NotAccepted", "not all names are accepted".to_owned()));
    }
    let settled = value["status"]["acceptedNames"] == accepted
        && wanted.iter().all(|(kind, status, ..)| condition(&value, kind) == Some(status));
    if settled {
        return;
    }
    write_status(api, object, |definition| {
        let status = &mut definition["status"];
        status["acceptedNames"] = accepted.clone();
        for (kind, state, reason, message) in &wanted {
            set_condition(status, kind, state, reason, message, &now);
        }
    })
    .await;
}

/// Why the names cannot be accepted: another resource of the group has one of them.
fn conflict(api: &Api, definition: &Value) -> Option<(&'static str, String)> {
    let own = text(&definition["metadata"]["name"]);
    let names = &definition["spec"]["names"];
    let registry = api.registry.load();
    let group = registry.groups().get(text(&definition["spec"]["group"]))?;
    let others: Vec<&Arc<Resource>> = group
        .versions
        .iter()
        .flat_map(|version| version.resources.values())
        .filter(|resource| resource.custom.as_ref().is_none_or(|custom| custom.definition != own))
        .collect();
    let taken = |name: &str| {
        others.iter().any(|other| {
            other.plural == name || other.singular == name || other.short_names.iter().any(|short| short == name)
        })
    };
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let name = text(&names[field]);
        if !name.is_empty() && taken(name) {
            return Some((reason, format!("{name:?} is already in use")));
        }
    }
    for short in names["shortNames"].as_array().into_iter().flatten().map(text) {
        if taken(short) {
            return Some(("ShortNamesConflict", format!("{short:?} is already in use")));
        }
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let kind = text(&names[field]);
        if others.iter().any(|other| other.kind == kind || other.list_kind == kind) {
            return Some((reason, format!("{kind:?} is already in use")));
        }
    }
    None
}

/// Deletes every object of the definition and, when none is left, lets the definition go.
async fn remove_instances(api: &Arc<Api>, object: &Object) {
    let value = object.value();
    let waits =
        value["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|item| item == FINALIZER));
    if !waits {
        return;
    }
    let collection = format!("{}/{}", text(&value["spec"]["group"]), text(&value["spec"]["names"]["plural"]));
    let registry = api.registry.load_full();
    let call = system_call();
    let mut left = false;
    if let Some(resource) = registry.of_collection(&collection) {
        for instance in super::all(api, &collection) {
            let request = system_request(api, &call, resource, &instance.key);
            match delete::remove(&request, instance.name(), &delete::DeleteOptions::default()).await {
                Ok(delete::Deleted::Gone(_)) => {}
                Ok(delete::Deleted::Pending(_)) => left = true,
                Err(failure) => left |= failure.code != 404,
            }
        }
    }
    if left {
        let reason = "InstanceDeletionInProgress";
        let told = value["status"]["conditions"].as_array().is_some_and(|list| {
            list.iter().any(|condition| condition["type"] == "Terminating" && condition["reason"] == reason)
        });
        if !told {
            write_status(api, object, |definition| {
                let message = "CustomResource deletion is in progress";
                set_condition(&mut definition["status"], "Terminating", "True", reason, message, &now);
            })
            .await;
        }
        return;
    }
    let Some(resource) = registry.of_collection(COLLECTION) else { return };
    let request = system_request(api, &call, resource, &object.key);
    let outcome = update::replace(&request, &system_options(), |_, old| {
        let mut new = old.clone();
        if let Some(list) = new["metadata"]["finalizers"].as_array_mut() {
            list.retain(|item| item != FINALIZER);
        }
        Ok(new)
    })
    .await;
    if let Err(failure) = outcome
        && failure.code != 404
    {
        tracing::warn!(definition = object.name(), message = failure.message, "cannot remove the definition");
    }
}

fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = value["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

async fn write_status(api: &Arc<Api>, object: &Object, edit: impl Fn(&mut Value)) {
    let registry = api.registry.load_full();
    let Some(resource) = registry.of_collection(COLLECTION) else { return };
    let call = system_call();
    let request = Request { subresource: "status", ..system_request(api, &call, resource, &object.key) };
    let outcome = update::replace(&request, &system_options(), |_, old| {
        let mut new = old.clone();
        edit(&mut new);
        ownership::report(resource, "kube-apiserver", old, &mut new);
        Ok(new)
    })
    .await;
    if let Err(failure) = outcome
        && failure.code != 404
    {
        tracing::warn!(definition = object.name(), message = failure.message, "cannot report on the definition");
    }
}
