//! The right of whoever writes a policy or a binding to read the parameters that it names.
//!
//! A policy shows its parameters to everybody who writes what it is about, so its author must be allowed to see them.

use builtin::{BINDINGS, MUTATING_BINDINGS, MUTATING_POLICIES, POLICIES};
use schema::FieldError;
use serde_json::Value;

use crate::{
    auth::{Action, User},
    object::{Name, text},
    registry::Resource,
    verbs::Request,
};

/// What is refused for want of a right; the rest of the object is known to be valid.
pub(crate) fn check(request: &Request<'_>, old: Option<&Value>, new: &Value) -> Option<FieldError> {
    if request.call.user.is_in("system:masters") {
        return None;
    }
    match &*request.resource.collection {
        POLICIES | MUTATING_POLICIES => of_policy(request, old, &new["spec"]["paramKind"]),
        BINDINGS => of_binding(request, POLICIES, &new["spec"]),
        MUTATING_BINDINGS => of_binding(request, MUTATING_POLICIES, &new["spec"]),
        _ => None,
    }
}

/// Who names a kind of parameters may read all of them.
fn of_policy(request: &Request<'_>, old: Option<&Value>, kind: &Value) -> Option<FieldError> {
    if !kind.is_object() || old.is_some_and(|old| old["spec"]["paramKind"] == *kind) {
        return None;
    }
    let kind = ParamKind::of(request, kind);
    let action = Action { namespace: "*", name: "*", ..kind.action("get") };
    if request.api.access.allows(request.api, &request.call.user, &action) {
        return None;
    }
    let (user, name, version) = (shown(&request.call.user), kind.name, kind.api_version);
    let why = format!(
        "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={name}, apiVersion={version})"
    );
    Some(FieldError::forbidden("spec.paramKind", why))
}

/// Who names an object may read it, and who selects may list. This is asked on every write.
fn of_binding(request: &Request<'_>, policies: &str, spec: &Value) -> Option<FieldError> {
    let reference = &spec["paramRef"];
    if !reference.is_object() {
        return None;
    }
    let (name, policy) = (text(&reference["name"]), text(&spec["policyName"]));
    let verb = if name.is_empty() { "list" } else { "get" };
    let found = request.api.store.get(policies, &Name::new("", policy)).map(|found| found.value());
    let wanted = found.as_ref().map(|found| &found["spec"]["paramKind"]).filter(|kind| kind.is_object());
    let kind = wanted.map(|kind| ParamKind::of(request, kind));
    let any = Action { verb, group: "*", resource: "*", ..Action::default() };
    let action = kind.as_ref().map_or(any, |kind| kind.action(verb));
    let action = Action { name, namespace: text(&reference["namespace"]), ..action };
    if request.api.access.allows(request.api, &request.call.user, &action) {
        return None;
    }
    let user = shown(&request.call.user);
    let unknown = |what: String| {
        format!(
            "unable to {what} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
        )
    };
    let why = match &kind {
        _ if found.is_none() => unknown(format!("get policy {policy}")),
        Some(kind) if kind.resource == "*" => {
            unknown(format!("resolve paramKind &{{{} {}}}", kind.api_version, kind.name))
        }
        // The real server has the two the wrong way round.
        _ if policies == MUTATING_POLICIES => {
            format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
        }
        _ => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
    };
    Some(FieldError::forbidden("spec.paramRef", why))
}

/// A kind of parameters, and the resource that it is; any resource if there is none.
struct ParamKind<'a> {
    api_version: &'a str,
    group: &'a str,
    name: &'a str,
    resource: String,
}

impl<'a> ParamKind<'a> {
    fn of(request: &Request<'_>, kind: &'a Value) -> ParamKind<'a> {
        let (api_version, name) = (text(&kind["apiVersion"]), text(&kind["kind"]));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let registry = request.api.registry.load();
        let found = registry.by_kind(group, version, name).filter(|found| found.version == version);
        let resource = found.map_or_else(|| "*".to_owned(), |found: &std::sync::Arc<Resource>| found.plural.clone());
        ParamKind { api_version, group, name, resource }
    }

    fn action<'b>(&'b self, verb: &'b str) -> Action<'b> {
        Action { verb, group: self.group, resource: &self.resource, ..Action::default() }
    }
}

/// A user as the real server prints one.
fn shown(user: &User) -> String {
    let extra = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let extra: Vec<String> = extra.collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
