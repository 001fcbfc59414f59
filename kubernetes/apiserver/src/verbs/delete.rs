//! Delete, one object or a collection: preconditions, grace, finalizers and what happens to dependents.

use http::Response;
use schema::FieldError;
use serde_json::{Value, json};

use super::{Request, convert, decode, timestamp};
use crate::{
    admission::webhooks,
    auth::node,
    http::{Body, Query, respond},
    object::{Draft, text},
    status::{Answer, Failure},
    store::{Error, Expect, Write},
};

const OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub policy: Option<Policy>,
    pub dry_run: bool,
    /// The old way of saying `Orphan` or not.
    pub orphan_dependents: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// What became of a delete.
pub(crate) enum Deleted {
    /// Gone; the last state.
    Gone(Value),
    /// Marked, and waiting for finalizers or for its grace period.
    Pending(Value),
}

pub(crate) async fn delete(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = options(request)?;
    if request.resource.is("batch/jobs") && options.policy.is_none() {
        request.call.warn(PODS_STAY);
    }
    let deleted = remove(request, request.name, &options).await?;
    let resource = request.resource;
    match deleted {
        Deleted::Pending(value) => {
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            request.object(code, value)
        }
        Deleted::Gone(value) if resource.rules.strategy.returns_deleted => request.object(200, value),
        Deleted::Gone(value) => {
            let mut details = resource.details(request.name);
            details["uid"] = value["metadata"]["uid"].clone();
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(respond::value(200, &status, request.call.accept.yaml, request.call.query.flag("pretty")))
        }
    }
}

/// Deletes everything the list options select; the answer is the list as it was.
pub(crate) async fn delete_collection(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = options(request)?;
    let objects = super::list::selected(request)?;
    let mut items = Vec::with_capacity(objects.len());
    for object in objects {
        let scope = Request { namespace: object.namespace(), ..*request };
        match remove(&scope, object.name(), &options).await {
            Ok(Deleted::Gone(_) | Deleted::Pending(_)) => {
                let mut value = convert::from_stored(request.api, request.resource, object.value()).await?;
                if let Some(value) = value.as_object_mut().filter(|_| request.resource.custom.is_none()) {
                    value.remove("kind");
                    value.remove("apiVersion");
                }
                items.push(value);
            }
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    let resource = request.resource;
    let list = json!({
        "kind": resource.list_kind, "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": request.api.store.version().to_string()},
        "items": items,
    });
    Ok(respond::value(200, &list, request.call.accept.yaml, request.call.query.flag("pretty")))
}

/// What is said to those who delete a job and do not say what becomes of its pods.
const PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

fn options(request: &Request<'_>) -> Answer<DeleteOptions> {
    if request.call.body.is_empty() {
        return parse_options(&from_query(&request.call.query));
    }
    // With a body nothing of the query counts, not even a trial.
    if decode::media(request.call) == decode::PROTOBUF {
        let schema = schema::Schema::builtin(OPTIONS).ok_or_else(|| Failure::internal("no schema of DeleteOptions"))?;
        return match decode::protobuf(&request.call.body, "DeleteOptions", &schema) {
            Ok(options) => only_options(&options).and_then(|()| parse_options(&options)),
            Err(decode::Problem::Media) => Err(Failure::bad_request("the body is no DeleteOptions")),
            Err(decode::Problem::Syntax(error) | decode::Problem::Yaml(error) | decode::Problem::Object(error)) => {
                Err(Failure::bad_request(error))
            }
        };
    }
    match decode::parse(request.call) {
        Ok(document) if document.value.is_object() => {
            only_options(&document.value)?;
            parse_options(&document.value)
        }
        Ok(document) if document.value.is_null() => parse_options(&serde_json::json!({})),
        Ok(_) => Err(Failure::bad_request("decoded object cannot be converted to DeleteOptions")),
        Err(decode::Problem::Media) => Err(Failure::unsupported_media(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ])),
        Err(decode::Problem::Yaml(error)) => Err(Failure::bad_request(error)),
        Err(decode::Problem::Syntax(error) | decode::Problem::Object(error)) => {
            Err(Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
        }
    }
}

fn from_query(query: &Query) -> Value {
    json!({
        "gracePeriodSeconds": query.get("gracePeriodSeconds").and_then(|text| text.parse::<i64>().ok()),
        "propagationPolicy": query.get("propagationPolicy"),
        "orphanDependents": query.get("orphanDependents").map(|text| text == "true"),
        "dryRun": query.all("dryRun").collect::<Vec<_>>(),
    })
}

/// Refuses a body that says it is something else.
fn only_options(value: &Value) -> Answer<()> {
    let (kind, version) = (text(&value["kind"]), text(&value["apiVersion"]));
    if kind.is_empty() || kind == "DeleteOptions" {
        return Ok(());
    }
    let message =
        format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"");
    Err(Failure::bad_request(message))
}

pub(crate) fn parse_options(value: &Value) -> Answer<DeleteOptions> {
    let mut errors = Vec::new();
    let policy = match value["propagationPolicy"].as_str() {
        None | Some("") => None,
        Some("Background") => Some(Policy::Background),
        Some("Foreground") => Some(Policy::Foreground),
        Some("Orphan") => Some(Policy::Orphan),
        Some(other) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
            None
        }
    };
    let orphan_dependents = value["orphanDependents"].as_bool();
    if let (Some(_), Some(policy)) = (orphan_dependents, value["propagationPolicy"].as_str()) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, detail));
    }
    let runs = value["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
    if runs.iter().any(|run| run != "All") {
        errors.push(FieldError::not_supported("dryRun", value["dryRun"].clone(), &["All".to_owned()]));
    }
    if !errors.is_empty() {
        return Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
    }
    let preconditions = &value["preconditions"];
    Ok(DeleteOptions {
        grace: value["gracePeriodSeconds"].as_i64().map(|seconds| if seconds < 0 { 1 } else { seconds }),
        uid: preconditions["uid"].as_str().map(str::to_owned),
        version: preconditions["resourceVersion"].as_str().map(str::to_owned),
        policy: policy.or(match orphan_dependents {
            Some(true) => Some(Policy::Orphan),
            Some(false) => Some(Policy::Background),
            None => None,
        }),
        dry_run: !runs.is_empty(),
        orphan_dependents,
    })
}

pub(crate) async fn remove(request: &Request<'_>, name: &str, options: &DeleteOptions) -> Answer<Deleted> {
    let Request { api, resource, .. } = *request;
    loop {
        let key = request.key(name);
        let stored =
            api.store.get(&resource.collection, &key.name).ok_or_else(|| Failure::not_found(resource, name))?;
        let old = convert::from_stored(api, resource, stored.value()).await?;
        check_preconditions(request, name, &old, options)?;
        let written = node::Written { resource, subresource: "", name, old: Some(&old), new: None };
        node::admit(&request.call.user, &written)?;
        crate::admission::delete(api, resource, name)?;
        // An eviction was asked about as such.
        if request.subresource != "eviction" {
            let write = webhooks::Write { operation: "DELETE", name, old: Some(&old) };
            crate::admission::mutate(request, write, None).await?;
            crate::admission::policies::check(request, write, None).await?;
            webhooks::validate(request, write, None).await?;
        }
        let (new, pending) = match plan(request, &old, options) {
            Plan::Leave => return Ok(Deleted::Pending(old)),
            Plan::Mark(new) => (new, true),
            Plan::Remove(last) => (last, false),
        };
        if options.dry_run {
            return Ok(if pending { Deleted::Pending(new) } else { Deleted::Gone(new) });
        }
        let write = if pending {
            let value = convert::to_stored(api, resource, new.clone()).await?;
            Write::Put(Box::new(Draft::new(key, &value)), Expect::Version(stored.version))
        } else {
            Write::Delete(key, Expect::Version(stored.version))
        };
        match api.store.commit(write).await {
            Ok(object) => {
                let mut value = new;
                value["metadata"]["resourceVersion"] = object.version.to_string().into();
                return Ok(if pending { Deleted::Pending(value) } else { Deleted::Gone(value) });
            }
            Err(Error::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn check_preconditions(request: &Request<'_>, name: &str, old: &Value, options: &DeleteOptions) -> Answer<()> {
    let metadata = &old["metadata"];
    let (uid, version) = (text(&metadata["uid"]), text(&metadata["resourceVersion"]));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(precondition(request, name, &why));
    }
    if let Some(wanted) = options.version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(precondition(request, name, &why));
    }
    Ok(())
}

/// This conflict names the kind where all others name the resource; clients have seen it so for years.
fn precondition(request: &Request<'_>, name: &str, why: &str) -> Box<Failure> {
    let resource = request.resource;
    let qualified =
        if resource.group.is_empty() { resource.kind.clone() } else { format!("{}.{}", resource.kind, resource.group) };
    let mut failure = Failure::conflict(resource, name, why);
    failure.message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
    if let Some(details) = &mut failure.details {
        details["kind"] = resource.kind.as_str().into();
    }
    failure
}

enum Plan {
    /// It is being deleted already, and this request does not hasten it.
    Leave,
    Mark(Value),
    Remove(Value),
}

fn plan(request: &Request<'_>, old: &Value, options: &DeleteOptions) -> Plan {
    let resource = request.resource;
    let mut new = old.clone();
    let before = &old["metadata"];
    let deleting = before["deletionTimestamp"].is_string();
    let strategy = &resource.rules.strategy;
    let graceful = strategy.graceful;
    let mut marked = false;
    if graceful && deleting {
        let current = before["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if current != 0 {
            match options.grace {
                Some(shorter) if shorter < current => {
                    shorten(&mut new, current, shorter);
                    marked = true;
                }
                _ => return Plan::Leave,
            }
        }
    } else if graceful {
        let grace = builtin::grace(old, options.grace);
        mark(&mut new, grace);
        marked = grace > 0;
    }
    set_finalizers(resource, &mut new, options);
    if let Some(finalizer) = strategy.deletion_finalizer.filter(|_| !deleting) {
        let mut list = new["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !list.iter().any(|item| item == finalizer) {
            list.push(finalizer.into());
        }
        new["metadata"]["finalizers"] = list.into();
    }
    let metadata = &new["metadata"];
    let waits =
        metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty()) || builtin::has_spec_finalizers(&new);
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if !(waits || marked && grace > 0) {
        return Plan::Remove(new);
    }
    if !deleting && !marked && !graceful {
        mark(&mut new, 0);
        strategy.settle_deletion(old, &mut new);
    }
    resource.rules.mark_deleting(&mut new, &super::now);
    if schema::managed::same_but_for_times(old, &new) { Plan::Leave } else { Plan::Mark(new) }
}

fn mark(value: &mut Value, grace: i64) {
    let due = later(jiff::Timestamp::now(), grace);
    let metadata = &mut value["metadata"];
    metadata["deletionTimestamp"] = timestamp(due).into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation > 0) {
        metadata["generation"] = (generation + 1).into();
    }
}

/// A time some seconds on. Clients may ask for more seconds than there is time; that is as good as never.
fn later(time: jiff::Timestamp, seconds: i64) -> jiff::Timestamp {
    const NEVER: i64 = 100 * 366 * 86_400;
    let seconds = seconds.clamp(-NEVER, NEVER);
    time.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(time)
}

fn shorten(value: &mut Value, current: i64, wanted: i64) {
    let metadata = &mut value["metadata"];
    let now = jiff::Timestamp::now();
    let due: jiff::Timestamp = text(&metadata["deletionTimestamp"]).parse().unwrap_or(now);
    let moved = later(due, wanted.saturating_sub(current));
    let (due, grace) = if moved < now { (now, i64::from(wanted != 0)) } else { (moved, wanted) };
    metadata["deletionTimestamp"] = timestamp(due).into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
}

/// The two finalizers that tell the collector what to do with dependents.
fn set_finalizers(resource: &crate::registry::Resource, value: &mut Value, options: &DeleteOptions) {
    if resource.is("/events") {
        return;
    }
    let metadata = &mut value["metadata"];
    let existing: Vec<String> = metadata["finalizers"]
        .as_array()
        .map(|list| list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let policy = options.policy.or_else(|| {
        existing.iter().find_map(|finalizer| match finalizer.as_str() {
            ORPHAN => Some(Policy::Orphan),
            FOREGROUND => Some(Policy::Foreground),
            _ => None,
        })
    });
    // The oldest of the kinds that own others leave them behind unless told otherwise.
    let leaves = ["/replicationcontrollers", "batch/jobs"].iter().any(|kind| resource.is(kind));
    let policy = policy.or(leaves.then_some(Policy::Orphan));
    let mut wanted: Vec<String> =
        existing.iter().filter(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND)).cloned().collect();
    match policy {
        Some(Policy::Orphan) => wanted.push(ORPHAN.to_owned()),
        Some(Policy::Foreground) => wanted.push(FOREGROUND.to_owned()),
        Some(Policy::Background) | None => {}
    }
    if wanted.is_empty() {
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("finalizers");
        }
    } else if wanted != existing {
        metadata["finalizers"] = wanted.into();
    }
}
