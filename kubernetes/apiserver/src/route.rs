//! From path and method to a verb, with authorisation in between.

use std::sync::Arc;

use http::{Method, Response};
use serde_json::json;

use crate::{
    auth::{Action, reviews},
    discovery,
    housekeeping::api_services,
    http::{Body, Call, Target, respond},
    registry::{Registry, Resource},
    server::Api,
    status::{Answer, Failure},
    verbs::{self, Request, subresources::streams},
};

/// What the real server offers; clients that list none of these get the list.
const REPRESENTATIONS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Built-in kinds that have a successor, with what every request for them is told.
const DEPRECATED: [(&str, &str); 2] = [
    ("/componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    ("/endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
];

/// The release whose behaviour is served; clients compare it with their own.
pub(crate) const RELEASE: &str = tables::RELEASE;

pub(crate) async fn route(api: &Arc<Api>, call: &Call) -> Answer<Response<Body>> {
    match Target::parse(&call.path) {
        Some(target) => resource(api, call, &target).await,
        None => other(api, call),
    }
}

/// Health, version, discovery: everything that is not a resource.
fn other(api: &Arc<Api>, call: &Call) -> Answer<Response<Body>> {
    let verb = call.method.as_str().to_ascii_lowercase();
    api.access.require(api, &call.user, &Action { verb: &verb, path: &call.path, ..Action::default() })?;
    if !matches!(call.method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed());
    }
    if let Some(answer) = discovery::answer(api, call) {
        return answer;
    }
    let pretty = call.query.flag("pretty");
    match call.path.trim_end_matches('/') {
        "/healthz" | "/livez" | "/readyz" => Ok(health(call)),
        "/version" => Ok(respond::value(200, &version(), call.accept.yaml, true)),
        "/metrics" => Ok(metrics(api)),
        "" => {
            let registry = api.registry.load();
            let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
            for (name, group) in registry.groups().iter().filter(|(name, _)| !name.is_empty()) {
                paths.push(format!("/apis/{name}"));
                paths.extend(group.versions.iter().map(|version| format!("/apis/{name}/{}", version.name)));
            }
            for path in ["/healthz", "/livez", "/metrics", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"] {
                paths.push(path.to_owned());
            }
            paths.sort();
            Ok(respond::value(200, &json!({"paths": paths}), call.accept.yaml, pretty))
        }
        path if ["/healthz/", "/livez/", "/readyz/"]
            .iter()
            .any(|prefix| path.strip_prefix(prefix).is_some_and(|check| CHECKS.contains(&check))) =>
        {
            Ok(respond::text(200, "ok"))
        }
        path => {
            let group = path.strip_prefix("/apis/").map(|rest| rest.split('/').next().unwrap_or_default());
            let group = group.or_else(|| path.starts_with("/api/").then_some(""));
            group.map_or_else(|| Ok(respond::nothing_here()), |group| nothing(&api.registry.load(), group))
        }
    }
}

/// Built-in groups know what they do not have; of others nothing is known at all.
fn nothing(registry: &Registry, group: &str) -> Answer<Response<Body>> {
    if registry.is_own(group) { Err(Failure::no_such_resource()) } else { Ok(respond::nothing_here()) }
}

const CHECKS: [&str; 4] = ["ping", "log", "etcd", "informer-sync"];

fn health(call: &Call) -> Response<Body> {
    if !call.query.flag("verbose") {
        return respond::text(200, "ok");
    }
    let name = call.path.trim_matches('/');
    let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
    respond::text(200, format!("{lines}{name} check passed\n"))
}

fn version() -> serde_json::Value {
    let numbers = RELEASE.trim_start_matches('v');
    let mut parts = numbers.split('.');
    json!({
        "major": parts.next().unwrap_or_default(), "minor": parts.next().unwrap_or_default(),
        "gitVersion": RELEASE, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("linux/{}", std::env::consts::ARCH),
    })
}

fn metrics(api: &Api) -> Response<Body> {
    let index = api.store.read();
    let mut text = String::from("# TYPE apiserver_storage_objects gauge\n");
    for (name, collection) in index.collections() {
        let (group, plural) = name.split_once('/').unwrap_or(("", name));
        let qualified = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        text.push_str(&format!("apiserver_storage_objects{{resource=\"{qualified}\"}} {}\n", collection.len()));
    }
    text.push_str(&format!("# TYPE machinist_store_version counter\nmachinist_store_version {}\n", index.version()));
    respond::text(200, text)
}

async fn resource(api: &Arc<Api>, call: &Call, target: &Target) -> Answer<Response<Body>> {
    let action = action(call, target);
    let verb = action.verb;
    api.access.require(api, &call.user, &action)?;
    let registry = api.registry.load_full();
    let Some(resource) = registry.find(&target.group, &target.version, &target.plural) else {
        let is_served = registry.version(&target.group, &target.version).is_some();
        return match !is_served && api_services::is_elsewhere(api, &target.group, &target.version) {
            true => Ok(respond::text(503, "service unavailable\n")),
            false => nothing(&registry, &target.group),
        };
    };
    if let Some(warning) = resource.custom.as_ref().and_then(|custom| custom.deprecation.as_ref()) {
        call.warn(warning.clone());
    }
    if let Some((_, warning)) = DEPRECATED.iter().find(|(collection, _)| resource.is(collection)) {
        call.warn((*warning).to_owned());
    }
    if !resource.namespaced && !target.namespace.is_empty() {
        return nothing(&registry, &target.group);
    }
    // What has a namespace is only listed and watched without one.
    if resource.namespaced && target.namespace.is_empty() && !matches!(verb, "list" | "watch") {
        return match (&resource.custom, target.name.as_str()) {
            (Some(_), _) => Ok(respond::nothing_here()),
            (None, "") => Err(Failure::method_not_allowed()),
            (None, _) => Err(Failure::no_such_resource()),
        };
    }
    if call.accept.impossible && verb != "watch" {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {REPRESENTATIONS}");
        return Err(Failure::new(406, "NotAcceptable", message));
    }
    let request = Request {
        api,
        call,
        resource,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
    };
    if !target.subresource.is_empty() {
        if resource.is("/pods") && streams::STREAMS.contains(&target.subresource.as_str()) {
            return streams::start(&request).await;
        }
        if resource.subresource(&target.subresource).is_none() {
            return Err(match resource.custom {
                Some(_) => Failure::not_found(resource, &target.name),
                None => Failure::no_such_resource(),
            });
        }
        // Nothing is behind what leads on to a pod, a service or a node.
        if target.subresource == "proxy" {
            return Ok(respond::nothing_here());
        }
        return verbs::subresources::handle(&request, verb).await;
    }
    dispatch(&request, resource, verb).await
}

async fn dispatch(request: &Request<'_>, resource: &Resource, verb: &str) -> Answer<Response<Body>> {
    if !resource.allows(verb) {
        return Err(Failure::method_not_allowed());
    }
    if reviews::is_review(resource) {
        return reviews::review(request).await;
    }
    if resource.is("/bindings") {
        return verbs::subresources::bind_by_name(request).await;
    }
    if resource.is(verbs::components::COLLECTION) {
        return verbs::components::answer(request, verb);
    }
    match verb {
        "get" => verbs::read::get(request).await,
        "list" => verbs::list::list(request).await,
        "watch" => verbs::watch::watch(request).await,
        "create" => verbs::create::create(request).await,
        "update" => verbs::update::update(request).await,
        "patch" => verbs::patch::patch(request).await,
        "delete" => verbs::delete::delete(request).await,
        "deletecollection" => verbs::delete::delete_collection(request).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// What a request for a resource wants to do.
pub(crate) fn action<'a>(call: &'a Call, target: &'a Target) -> Action<'a> {
    let is_namespace = target.group.is_empty() && target.plural == "namespaces";
    let (verb, field_selector) = (verb(call, target), call.query.text("fieldSelector"));
    let chosen = chosen(field_selector);
    Action {
        verb,
        group: &target.group,
        resource: &target.plural,
        subresource: &target.subresource,
        namespace: if is_namespace { &target.name } else { &target.namespace },
        name: if matches!(verb, "list" | "watch") && target.name.is_empty() { chosen } else { &target.name },
        path: "",
        field_selector,
    }
}

/// The one object that a list or watch is about, if its field selector names one: rights to that name are enough then.
fn chosen(field_selector: &str) -> &str {
    let mut parts = field_selector.split(',').map(str::trim);
    parts.find_map(|part| part.strip_prefix("metadata.name=")).unwrap_or_default().trim_start_matches('=')
}

pub(crate) fn verb(call: &Call, target: &Target) -> &'static str {
    // The real server wants this right of every way to open a stream.
    let opens_stream = target.group.is_empty()
        && target.plural == "pods"
        && streams::STREAMS.contains(&target.subresource.as_str())
        && matches!(call.method, Method::GET | Method::POST);
    if opens_stream {
        return "create";
    }
    let watching = target.watch || call.query.flag("watch");
    match (&call.method, target.name.is_empty()) {
        (&Method::GET | &Method::HEAD, true) if watching => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::GET | &Method::HEAD, false) if target.watch => "watch",
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::POST, true) => "create",
        // A POST to a name is only known to subresources.
        (&Method::POST, false) => {
            if target.subresource.is_empty() {
                "post"
            } else {
                "create"
            }
        }
        (&Method::PUT, false) => "update",
        (&Method::PATCH, false) => "patch",
        (&Method::DELETE, false) => "delete",
        (&Method::DELETE, true) => "deletecollection",
        _ => "unknown",
    }
}
