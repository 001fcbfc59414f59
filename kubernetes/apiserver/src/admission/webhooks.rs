//! Admission webhooks: those in the store, asked about every write they are for, over HTTPS.
//!
//! Mutating ones are asked one after another before an object is completed, validating ones all at once after everything
//! else has let the write pass. The server's own writes ask nobody: a webhook that hangs must not stop its housekeeping.

mod review;

use std::time::Duration;

use futures::future::join_all;
use schema::policy;
use serde_json::Value;

use self::review::{Trouble, Verdict};
pub(super) use self::review::{about, options};
use crate::{
    admission::{other_kind, turns::Turns},
    object::{Name, text},
    status::{Answer, Failure},
    verbs::{FieldValidation, Request, convert},
    webhook,
};

const MUTATING: &str = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
const VALIDATING: &str = "admissionregistration.k8s.io/validatingwebhookconfigurations";

/// One write, as webhooks are told of it.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub operation: &'static str,
    pub name: &'a str,
    pub old: Option<&'a Value>,
}

/// One webhook that is asked about a write, in the version of the resource that its rules name.
struct Hook {
    config: Value,
    resource: std::sync::Arc<crate::registry::Resource>,
}

/// The mutating webhooks in the store, in the order they are asked in.
pub(super) fn mutating(request: &Request<'_>) -> Vec<Value> {
    configs(request, MUTATING)
}

/// The object as the mutating webhooks leave it after one turn.
pub(super) async fn mutate(
    request: &Request<'_>,
    write: Write<'_>,
    new: Option<Value>,
    configs: &[Value],
    turns: &mut Turns<usize>,
) -> Answer<Option<Value>> {
    if configs.is_empty() {
        return Ok(new);
    }
    let mut new = new;
    turns.begin(new.as_ref());
    for (id, config) in configs.iter().enumerate() {
        if turns.passes_over(&id) {
            continue;
        }
        let Some(hook) = chosen(request, write, config, new.as_ref())? else { continue };
        let Some(verdict) = ask(request, write, &hook, new.as_ref(), true).await? else { continue };
        if let (Some(patch), Some(before)) = (&verdict.patch, &new) {
            let after = patched(request, &hook, before, patch).await?;
            if after != *before {
                turns.changed();
            }
            new = Some(after);
        }
        if hook.config["reinvocationPolicy"] == "IfNeeded" {
            turns.may_ask_again(id);
        }
    }
    turns.end(new.as_ref());
    Ok(new)
}

/// Refuses a write that a validating webhook denies.
pub(crate) async fn validate(request: &Request<'_>, write: Write<'_>, new: Option<&Value>) -> Answer<()> {
    let mut hooks = Vec::new();
    for config in configs(request, VALIDATING) {
        hooks.extend(chosen(request, write, &config, new)?);
    }
    let answers = join_all(hooks.iter().map(|hook| ask(request, write, hook, new, false))).await;
    answers.into_iter().try_for_each(|answer| answer.map(drop))
}

/// The webhooks in the store, in the order they are asked in.
fn configs(request: &Request<'_>, collection: &str) -> Vec<Value> {
    // Nobody is asked about the webhooks themselves: whoever locks themselves out must find the way back.
    if request.call.user.is_system() || request.resource.group == "admissionregistration.k8s.io" {
        return Vec::new();
    }
    let index = request.api.store.read();
    let Some(found) = index.collection(collection) else { return Vec::new() };
    found
        .iter(None, None)
        .flat_map(|object| match object.value()["webhooks"].take() {
            Value::Array(webhooks) => webhooks,
            _ => Vec::new(),
        })
        .collect()
}

/// The webhook, if the write is one that it is for.
fn chosen(request: &Request<'_>, write: Write<'_>, config: &Value, new: Option<&Value>) -> Answer<Option<Hook>> {
    if config["rules"].as_array().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let none = Value::Null;
    let namespace = namespace(request, write, new);
    let constraints = serde_json::json!({
        "resourceRules": config["rules"], "namespaceSelector": config["namespaceSelector"],
        "objectSelector": config["objectSelector"],
    });
    let registry = request.api.registry.load();
    // Rules that name another version of the resource mean it as well, unless they are meant exactly.
    let exact = config["matchPolicy"] == "Exact";
    let others = registry.versions_of(&request.resource.collection).filter(|_| !exact);
    for resource in std::iter::once(request.resource).chain(others) {
        let about = about(request, resource, write);
        let asked = policy::Review {
            object: new.unwrap_or(&none),
            old: write.old.unwrap_or(&none),
            request: &about,
            namespace: namespace.as_ref().unwrap_or(&none),
            params: &none,
            decide: &|access| super::policies::decide(request, access),
        };
        if !policy::selects(&constraints, &asked) {
            continue;
        }
        let passes = crate::verbs::patiently(|| policy::conditions(&config["matchConditions"], &asked));
        return match passes {
            Ok(true) => Ok(Some(Hook { config: config.clone(), resource: std::sync::Arc::clone(resource) })),
            Ok(false) => Ok(None),
            Err(_) if config["failurePolicy"] == "Ignore" => Ok(None),
            Err(why) => Err(Failure::forbidden(request.resource, write.name, &why)),
        };
    }
    Ok(None)
}

/// The namespace whose labels select: that of the object, or the object itself if it is one.
pub(super) fn namespace(request: &Request<'_>, write: Write<'_>, new: Option<&Value>) -> Option<Value> {
    if request.resource.is("/namespaces") {
        return new.or(write.old).cloned();
    }
    match request.namespace {
        "" => None,
        namespace => request.api.store.get("/namespaces", &Name::new("", namespace)).map(|found| found.value()),
    }
}

/// What the webhook says; nothing if it could not be asked and that does not matter.
async fn ask(
    request: &Request<'_>,
    write: Write<'_>,
    hook: &Hook,
    new: Option<&Value>,
    mutates: bool,
) -> Answer<Option<Verdict>> {
    let Hook { config, resource } = hook;
    let name = text(&config["name"]);
    let (review, uid) = review::review(request, resource, write, new).await?;
    let seconds = config["timeoutSeconds"].as_u64().unwrap_or(10);
    let (query, limit) = (format!("?timeout={seconds}s"), Duration::from_secs(seconds));
    let answer = webhook::post(request.api, &config["clientConfig"], &query, limit, &review).await;
    let verdict = answer
        .map_err(|why| Trouble::Call(format!("failed to call webhook: {why}")))
        .and_then(|answer| review::read(&answer, &uid, mutates));
    match verdict {
        Ok(verdict) => {
            verdict.warnings.iter().for_each(|warning| request.call.warn(warning.clone()));
            match verdict.denial(name) {
                Some(denial) => Err(denial),
                None => Ok(Some(verdict)),
            }
        }
        Err(Trouble::Call(why)) if config["failurePolicy"] == "Ignore" => {
            tracing::warn!(webhook = name, why, "a webhook was not asked; its policy lets the write pass");
            Ok(None)
        }
        Err(Trouble::Call(why)) => Err(Failure::internal(format!("failed calling webhook {name:?}: {why}"))),
    }
}

/// The object after a patch, decoded and completed like one that a client sent.
async fn patched(request: &Request<'_>, hook: &Hook, before: &Value, patch: &[Value]) -> Answer<Value> {
    let Request { api, resource, .. } = *request;
    let own_kind = other_kind(request.subresource).is_some();
    let mut after = match own_kind {
        true => before.clone(),
        false => convert::between(api, resource, &hook.resource, before.clone()).await?,
    };
    for operation in patch {
        let one = serde_json::to_vec(std::slice::from_ref(operation)).unwrap_or_default();
        after = schema::patch::json(&after, &one).map_err(|error| Failure::internal(error.to_string()))?;
    }
    if own_kind {
        return Ok(after);
    }
    let mut after = convert::between(api, &hook.resource, resource, after).await?;
    request.fit(&mut after, &[], FieldValidation::Ignore).map_err(Failure::internal)?;
    resource.schema.default(&mut after);
    resource.rules.default(&mut after, &crate::verbs::now);
    Ok(after)
}
