//! Create: a new object, by POST, by apply, or by an update that may create.

use http::Response;
use rand::RngExt;
use schema::{
    FieldError,
    metadata::{NameRule, name_rule},
};
use serde_json::{Map, Value};

use super::{Options, Request, convert, now};
use crate::{
    admission::{self, webhooks},
    auth::node,
    http::Body,
    metadata,
    object::{Draft, text},
    ownership,
    status::{Answer, Failure},
    store::{Error, Expect, Write},
};

/// A name made from `generateName` collides once in millions; the real server also tries this often.
const NAME_ATTEMPTS: usize = 8;

pub(crate) async fn create(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("CreateOptions")?;
    let mut value = request.decode(options.validation)?;
    let name = text(&value["metadata"]["name"]).to_owned();
    request.default(&mut value);
    ownership::update(request, &request.manager(&options), None, &mut value);
    let stored = insert(request, value, &name, &options).await?;
    request.object(201, stored)
}

/// Completes, checks and commits a new object; the answer is in the version of the request.
pub(crate) async fn insert(request: &Request<'_>, value: Value, name: &str, options: &Options) -> Answer<Value> {
    let Request { api, call, resource, namespace, .. } = *request;
    let mut value = value;
    place(request, &mut value, name)?;
    admission::kind_open(api, resource, name)?;
    admission::namespace_open(api, resource, namespace, name)?;
    admission::prepare(api, resource, namespace, &mut value)?;
    let own = text(&value["metadata"]["name"]).to_owned();
    let write = webhooks::Write { operation: "CREATE", name: &own, old: None };
    let mut value = admission::mutate(request, write, Some(value)).await?.unwrap_or_default();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata::place(metadata, if resource.namespaced { namespace } else { "" })?;
    }
    complete(request, &mut value);
    let generate = text(&value["metadata"]["generateName"]).to_owned();
    for _ in 0..NAME_ATTEMPTS {
        if name.is_empty() && !generate.is_empty() {
            value["metadata"]["name"] = format!("{}{}", NameRule::generated_prefix(&generate), suffix()).into();
        }
        let name = text(&value["metadata"]["name"]).to_owned();
        admission::create(api, call, resource, &mut value)?;
        let written = node::Written { resource, subresource: "", name: &name, old: None, new: Some(&value) };
        node::admit(&call.user, &written)?;
        resource.rules.prepare_create(&mut value, &now);
        validate(request, &value, &name)?;
        admission::limits::check(api, resource, "", None, &value)?;
        let _held = admission::allocation::allocate(api, resource, None, &mut value)?;
        // Whoever renames an object is not believed here: it is asked about under the name that it came with.
        let asked = if own.is_empty() { &name } else { &own };
        let write = webhooks::Write { operation: "CREATE", name: asked, old: None };
        admission::policies::check(request, write, Some(&value)).await?;
        webhooks::validate(request, write, Some(&value)).await?;
        let charged = admission::quota::charge(request, None, &value, options.dry_run).await?;
        if options.dry_run {
            if api.store.get(&resource.collection, &request.key(&name).name).is_some() {
                return Err(taken(request, &name));
            }
            return Ok(value);
        }
        if !text(&value["metadata"]["resourceVersion"]).is_empty() {
            return Err(Failure::untyped("resourceVersion should not be set on objects to be created"));
        }
        admission::limits::complete(resource, &mut value);
        let draft = Draft::new(request.key(&name), &convert::to_stored(api, resource, value.clone()).await?);
        match api.store.commit(Write::Put(Box::new(draft), Expect::Absent)).await {
            Ok(object) => {
                admission::quota::Held::keep(charged);
                value["metadata"]["resourceVersion"] = object.version.to_string().into();
                return Ok(value);
            }
            Err(Error::Stale) if !generate.is_empty() && request.name.is_empty() => {
                value["metadata"]["name"] = Value::Null
            }
            Err(Error::Stale) => return Err(taken(request, &name)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::already_exists(resource, &generate))
}

/// The refusal of a name that is in use, or still is.
fn taken(request: &Request<'_>, name: &str) -> Box<Failure> {
    let mut failure = Failure::already_exists(request.resource, name);
    let holder = request.api.store.get(&request.resource.collection, &request.key(name).name);
    if holder.is_some_and(|holder| holder.deleting) {
        failure.message = format!("object is being deleted: {}", failure.message);
    }
    failure
}

/// Puts a new object where the request says.
fn place(request: &Request<'_>, value: &mut Value, name: &str) -> Answer<()> {
    if !value["metadata"].is_object() {
        value["metadata"] = Map::new().into();
    }
    let Some(metadata) = value["metadata"].as_object_mut() else { return Ok(()) };
    metadata::place(metadata, if request.resource.namespaced { request.namespace } else { "" })?;
    if !request.name.is_empty() && name != request.name {
        if name.is_empty() {
            metadata.insert("name".into(), request.name.into());
        } else {
            return Err(metadata::wrong_name(name, request.name));
        }
    }
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "uid", "creationTimestamp"]
    {
        metadata.remove(field);
    }
    Ok(())
}

/// Fills in what the server decides about a new object.
fn complete(request: &Request<'_>, value: &mut Value) {
    let resource = request.resource;
    let Some(metadata) = value["metadata"].as_object_mut() else { return };
    metadata.insert("creationTimestamp".into(), now().into());
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    if resource.rules.strategy.generation.starts() {
        metadata.insert("generation".into(), 1.into());
    }
    if resource.has_status()
        && !resource.rules.strategy.keeps_status
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
}

fn validate(request: &Request<'_>, value: &Value, name: &str) -> Answer<()> {
    let resource = request.resource;
    super::check_custom_kind(resource, value, None, Vec::new(), name)?;
    let mut errors: Vec<FieldError> =
        schema::metadata::validate_create(value, resource.namespaced, name_rule(&resource.group, &resource.plural));
    errors.extend(super::patiently(|| resource.schema.validate(value, None)));
    let write = builtin::Write { group: &resource.group, subresource: "", value, old: None };
    resource.rules.combine(&mut errors, resource.rules.validate(&write));
    errors.extend(admission::devices::check(request, None, value));
    if errors.is_empty() {
        errors.extend(admission::authors::check(request, None, value));
    }
    if !errors.is_empty() {
        return Err(Failure::invalid(resource.judged_group(), &resource.kind, name, &errors));
    }
    metadata::warn(request, None, value);
    resource.rules.warnings("", None, value).into_iter().for_each(|warning| request.call.warn(warning));
    Ok(())
}

/// Letters and digits that form no words and are not mistaken for one another.
pub(crate) fn suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = rand::rng();
    (0..5).map(|_| ALPHABET[random.random_range(0..ALPHABET.len())] as char).collect()
}
