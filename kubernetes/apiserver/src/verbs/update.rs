//! Update: a stored object replaced, by PUT or by any patch, on the main endpoint or on `status`.
//!
//! `replace` is the one path of all of them: read, let the caller make the new object, complete and check it, commit if it
//! differs, and start again if another write came between.

use std::{borrow::Cow, sync::Arc};

use http::Response;
use schema::{FieldError, managed::same_but_for_times};
use serde_json::Value;

use super::{Options, Request, convert, create, subresources::scale};
use crate::{
    admission::{self, webhooks},
    auth::node,
    http::Body,
    metadata,
    object::{Draft, Object, text},
    ownership,
    status::{Answer, Failure},
    store::{Error, Expect, Write},
};

pub(crate) async fn update(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("UpdateOptions")?;
    let mut value = request.decode(options.validation)?;
    request.default(&mut value);
    let name = text(&value["metadata"]["name"]);
    if name.is_empty() {
        return Err(Failure::bad_request("name must be provided"));
    }
    if name != request.name {
        return Err(metadata::wrong_name(name, request.name));
    }
    let manager = request.manager(&options);
    let exists = request.api.store.get(&request.resource.collection, &request.key(request.name).name).is_some();
    if !exists && request.resource.rules.strategy.create_on_update && request.subresource.is_empty() {
        let version = text(&value["metadata"]["resourceVersion"]);
        if !version.is_empty() && version.parse::<u64>().is_err() {
            return Err(Failure::untyped(no_integer(version)));
        }
        // Whoever replaces what is not there gets it made, whichever version they had seen.
        let seen = value["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
        ownership::update(request, &manager, None, &mut value);
        let mut stored = create::insert(request, value, request.name, &options).await?;
        if let Some(seen) = seen.filter(|_| options.dry_run) {
            stored["metadata"]["resourceVersion"] = seen;
        }
        return request.object(201, stored);
    }
    let replaced = replace(request, &options, |_, old| {
        let mut new = value.clone();
        check_version(request, old, &new)?;
        ownership::update(request, &manager, Some(old), &mut new);
        Ok(new)
    })
    .await?;
    request.object(200, replaced)
}

/// A PUT must say which version it replaces, unless its kind may be replaced blindly.
fn check_version(request: &Request<'_>, old: &Value, new: &Value) -> Answer<()> {
    let version = text(&new["metadata"]["resourceVersion"]);
    let unconditional = request.resource.rules.strategy.unconditional;
    if version.is_empty() && !unconditional {
        let resource = request.resource;
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        // Kinds are named by their resource here.
        return Err(Failure::invalid(&resource.group, &resource.plural, text(&old["metadata"]["name"]), &[error]));
    }
    Ok(())
}

/// Replaces the object of the request by what `change` makes of it. Both see the version of the request.
pub(crate) async fn replace(
    request: &Request<'_>,
    options: &Options,
    change: impl Fn(&Arc<Object>, &Value) -> Answer<Value>,
) -> Answer<Value> {
    let Request { api, resource, name, .. } = *request;
    loop {
        let key = request.key(name);
        let stored = api.store.get(&resource.collection, &key.name).ok_or_else(|| request.not_found())?;
        let old = convert::from_stored(api, resource, stored.value()).await?;
        let new = change(&stored, &old)?;
        let pinned = check_identity(request, &old, &new)?;
        let shown = shown(request, &old);
        let write = webhooks::Write { operation: "UPDATE", name, old: Some(&shown) };
        let mut new = match request.subresource {
            // Who binds has been asked about already, as the creation of a binding.
            "binding" => new,
            "scale" => {
                let wanted = admission::mutate(request, write, Some(scale::view(request, &new))).await?;
                scale::changed(request, new, &wanted.unwrap_or_default())?
            }
            subresource => {
                let mut new = new;
                if subresource == "resize" {
                    admission::limits::default(api, resource, request.namespace, &mut new);
                }
                admission::mutate(request, write, Some(new)).await?.unwrap_or_default()
            }
        };
        complete(request, &old, &mut new)?;
        let same = same_but_for_times(&old, &new) && convert::is_stored(resource, &stored, &new);
        let mut _held = None;
        if !same {
            check(request, &old, &new)?;
            if request.subresource.is_empty() {
                _held = admission::allocation::allocate(api, resource, Some(&old), &mut new)?;
            }
        }
        admission::limits::check(api, resource, request.subresource, Some(&old), &new)?;
        let warnings = resource.rules.warnings(request.subresource, Some(&old), &new);
        warnings.into_iter().for_each(|warning| request.call.warn(warning));
        if request.subresource != "binding" {
            let now = self::shown(request, &new);
            admission::policies::check(request, write, Some(&now)).await?;
            webhooks::validate(request, write, Some(&now)).await?;
        }
        let charged = admission::quota::charge(request, Some(&old), &new, options.dry_run).await?;
        if same {
            return Ok(old);
        }
        if options.dry_run {
            return Ok(new);
        }
        let finished = is_finished(&new);
        let write = if finished {
            Write::Delete(key, Expect::Version(stored.version))
        } else {
            let value = convert::to_stored(api, resource, new.clone()).await?;
            Write::Put(Box::new(Draft::new(key, &value)), Expect::Version(stored.version))
        };
        match api.store.commit(write).await {
            Ok(object) => {
                admission::quota::Held::keep(charged);
                new["metadata"]["resourceVersion"] = object.version.to_string().into();
                return Ok(new);
            }
            Err(Error::Stale) if pinned => return Err(Failure::modified(resource, name)),
            Err(Error::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What admission is shown of an object.
fn shown<'a>(request: &Request<'_>, object: &'a Value) -> Cow<'a, Value> {
    match request.subresource {
        "scale" => Cow::Owned(scale::view(request, object)),
        _ => Cow::Borrowed(object),
    }
}

/// Refuses a new object that is about another one or about an older state. Says whether it names its version.
fn check_identity(request: &Request<'_>, old: &Value, new: &Value) -> Answer<bool> {
    let (before, after) = (&old["metadata"], &new["metadata"]);
    let resource = request.resource;
    let (uid, known) = (text(&after["uid"]), text(&before["uid"]));
    if !uid.is_empty() && uid != known {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {known}");
        return Err(Failure::conflict(resource, request.name, &why));
    }
    let version = text(&after["resourceVersion"]);
    if version.is_empty() || version == "0" {
        return Ok(false);
    }
    if version.parse::<u64>().is_err() {
        return Err(Failure::untyped(no_integer(version)));
    }
    if version != text(&before["resourceVersion"]) {
        return Err(Failure::modified(resource, request.name));
    }
    // A patch carries the version it was made from without having asked for it.
    Ok(request.call.method == http::Method::PUT)
}

fn no_integer(version: &str) -> String {
    format!("strconv.ParseUint: parsing {version:?}: invalid syntax")
}

/// Fills in what an update cannot change, and keeps spec and status apart.
fn complete(request: &Request<'_>, old: &Value, new: &mut Value) -> Answer<()> {
    let resource = request.resource;
    let before = &old["metadata"];
    match request.subresource {
        "status" => resource.rules.strategy.keep_all_but_status(old, new),
        "" if resource.has_status() => builtin::move_field(old, new, "status"),
        _ => {}
    }
    if !new["metadata"].is_object() {
        new["metadata"] = serde_json::Map::new().into();
    }
    if let Some(after) = new["metadata"].as_object_mut() {
        metadata::place(after, if resource.namespaced { request.namespace } else { "" })?;
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"] {
            keep(before, after, field);
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            keep(before, after, field);
        }
    }
    resource.rules.prepare_update(builtin::Update { subresource: request.subresource, old, new, now: &super::now });
    let strategy = &resource.rules.strategy;
    if strategy.generation.moves()
        && request.subresource != "status"
        && strategy.spec_changed(resource.has_status(), old, new)
    {
        new["metadata"]["generation"] = (before["generation"].as_i64().unwrap_or(0) + 1).into();
    }
    Ok(())
}

fn keep(before: &Value, after: &mut serde_json::Map<String, Value>, field: &str) {
    match before.get(field) {
        Some(value) => after.insert(field.into(), value.clone()),
        None => after.remove(field),
    };
}

fn check(request: &Request<'_>, old: &Value, new: &Value) -> Answer<()> {
    let Request { api, call, resource, subresource, name, .. } = *request;
    admission::update(api, call, resource, subresource, old, new)?;
    let written = node::Written { resource, subresource, name, old: Some(old), new: Some(new) };
    node::admit(&call.user, &written)?;
    let mut errors = schema::metadata::validate_update(new, old);
    super::check_custom_kind(resource, new, Some(old), errors.clone(), name)?;
    if subresource == "status" && resource.custom.is_some() {
        errors.extend(resource.schema.validate_status(new, Some(old)));
    } else {
        errors.extend(super::patiently(|| resource.schema.validate(new, Some(old))));
    }
    match subresource {
        // A binding sets what no update may.
        "binding" => {}
        _ => {
            let write = builtin::Write { group: &resource.group, subresource, value: new, old: Some(old) };
            resource.rules.combine(&mut errors, resource.rules.validate(&write));
        }
    }
    errors.extend(admission::devices::check(request, Some(old), new));
    if errors.is_empty() && subresource.is_empty() {
        errors.extend(admission::authors::check(request, Some(old), new));
    }
    if !errors.is_empty() {
        return Err(Failure::invalid(resource.judged_group(), &resource.kind, name, &errors));
    }
    metadata::warn(request, Some(old), new);
    Ok(())
}

/// An object being deleted ends with its last finalizer, once its time has passed too.
pub(crate) fn is_finished(value: &Value) -> bool {
    let metadata = &value["metadata"];
    let waits = |field: &str| metadata[field].as_array().is_some_and(|list| !list.is_empty());
    metadata["deletionTimestamp"].is_string()
        && !waits("finalizers")
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !builtin::has_spec_finalizers(value)
}
