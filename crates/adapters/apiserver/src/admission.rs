//! Checks that look beyond the object: its namespace, the rights of the writer, what else exists.

pub(crate) mod policies;
pub(crate) mod webhooks;

use serde_json::{Value, json};

use crate::{
    auth::Action,
    housekeeping::definitions,
    http::Call,
    object::{Name, text},
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
    verbs::Request,
};

/// These cannot be deleted; a cluster without them is not one.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The group, version and kind of what a request is about, for those who decide about it.
fn kind(request: &Request<'_>, resource: &Resource) -> Value {
    match other_kind(request.subresource) {
        Some((group, kind)) => json!({"group": group, "version": "v1", "kind": kind}),
        None => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
    }
}

/// The group and kind of the objects of a subresource, if they are others than those of its resource.
pub(crate) fn other_kind(subresource: &str) -> Option<(&'static str, &'static str)> {
    Some(match subresource {
        "eviction" => ("policy", "Eviction"),
        "scale" => ("autoscaling", "Scale"),
        "binding" => ("", "Binding"),
        "exec" => ("", "PodExecOptions"),
        "attach" => ("", "PodAttachOptions"),
        "portforward" => ("", "PodPortForwardOptions"),
        _ => return None,
    })
}

/// New objects need a kind that is not going away.
pub(crate) fn kind_open(api: &Api, resource: &Resource, name: &str) -> Answer<()> {
    let Some(custom) = &resource.custom else { return Ok(()) };
    let definition = api.store.get(definitions::COLLECTION, &Name::new("", &custom.definition));
    if definition.is_some_and(|definition| definition.deleting) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Failure::forbidden(resource, name, why));
    }
    Ok(())
}

/// New objects need a namespace that exists and is not going away.
pub(crate) fn namespace_open(api: &Api, resource: &Resource, namespace: &str, name: &str) -> Answer<()> {
    if !resource.namespaced || namespace.is_empty() {
        return Ok(());
    }
    let Some(found) = api.store.get("/namespaces", &Name::new("", namespace)) else {
        return Err(Failure::namespace_not_found(namespace));
    };
    if !found.deleting {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = Failure::forbidden(resource, name, &why);
    if let Some(details) = &mut failure.details {
        details["causes"] = serde_json::json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(failure)
}

pub(crate) fn create(api: &Api, call: &Call, resource: &Resource, value: &mut Value) -> Answer<()> {
    match &*resource.collection {
        "/pods" => pod(api, resource, value)?,
        "/nodes" => not_ready(value),
        "certificates.k8s.io/certificatesigningrequests" => {
            value["spec"]["username"] = call.user.name.as_str().into();
            value["spec"]["groups"] = call.user.groups.clone().into();
            if !call.user.uid.is_empty() {
                value["spec"]["uid"] = call.user.uid.as_str().into();
            }
        }
        _ => {}
    }
    escalation(api, call, resource, None, value)
}

pub(crate) fn update(
    api: &Api,
    call: &Call,
    resource: &Resource,
    subresource: &str,
    old: &Value,
    new: &Value,
) -> Answer<()> {
    if !subresource.is_empty() {
        return Ok(());
    }
    escalation(api, call, resource, Some(old), new)
}

pub(crate) fn delete(_api: &Api, resource: &Resource, name: &str) -> Answer<()> {
    if resource.is("/namespaces") && IMMORTAL.contains(&name) {
        return Err(Failure::forbidden(resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Nothing is scheduled to a new node before somebody has seen it ready; who says so takes the taint away.
fn not_ready(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    if !node["spec"].is_object() {
        node["spec"] = serde_json::json!({});
    }
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    if taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule") {
        return;
    }
    taints.push(serde_json::json!({"key": KEY, "effect": "NoSchedule"}));
    node["spec"]["taints"] = taints.into();
}

/// What the priority and service-account plugins add to a pod.
fn pod(api: &Api, resource: &Resource, value: &mut Value) -> Answer<()> {
    let name = text(&value["metadata"]["name"]).to_owned();
    let Some(spec) = value["spec"].as_object_mut() else { return Ok(()) };
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if class.is_empty() {
        spec.entry("priority").or_insert_with(|| 0.into());
        spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
        return Ok(());
    }
    let Some(found) = api.store.get("scheduling.k8s.io/priorityclasses", &Name::new("", &class)) else {
        let why = format!("no PriorityClass with name {class} was found");
        return Err(Failure::forbidden(resource, &name, &why));
    };
    let found = found.value();
    spec.insert("priority".into(), found["value"].clone());
    let policy = found["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

/// Nobody grants what they do not have, unless they may escalate (or bind).
fn escalation(api: &Api, call: &Call, resource: &Resource, old: Option<&Value>, new: &Value) -> Answer<()> {
    if resource.group != "rbac.authorization.k8s.io" || call.user.is_in("system:masters") {
        return Ok(());
    }
    let metadata = &new["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let known = api.access.rules(api);
    let (granted, verb, target) = match resource.kind.as_str() {
        "Role" | "ClusterRole" => {
            if old.is_some_and(|old| old["rules"] == new["rules"]) {
                return Ok(());
            }
            (crate::auth::rbac::rules(&new["rules"]), "escalate", name.to_owned())
        }
        _ => {
            if old.is_some_and(|old| old["subjects"] == new["subjects"]) {
                return Ok(());
            }
            let (kind, role) = (text(&new["roleRef"]["kind"]), text(&new["roleRef"]["name"]));
            let rules = known.role(kind, namespace, role).map(|rules| rules.to_vec()).unwrap_or_default();
            (rules, "bind", role.to_owned())
        }
    };
    let bound = if verb == "bind" {
        if text(&new["roleRef"]["kind"]) == "Role" { "roles" } else { "clusterroles" }
    } else {
        resource.plural.as_str()
    };
    let exempt =
        Action { verb, group: &resource.group, resource: bound, namespace, name: &target, ..Action::default() };
    if api.access.allows(api, &call.user, &exempt) {
        return Ok(());
    }
    let own: Vec<_> = known.of(&call.user, namespace).collect();
    let missing = granted.iter().any(|rule| {
        let names: Vec<Option<&str>> = if rule.names.is_empty() {
            vec![None]
        } else {
            rule.names.iter().map(|name| Some(name.as_str())).collect()
        };
        rule.verbs.iter().any(|verb| {
            let resources = rule.groups.iter().any(|group| {
                rule.resources.iter().any(|resource| {
                    names.iter().any(|name| !own.iter().any(|own| own.covers(verb, group, resource, *name)))
                })
            });
            resources || rule.paths.iter().any(|path| !own.iter().any(|own| own.covers_path(verb, path)))
        })
    });
    if !missing {
        return Ok(());
    }
    let why = format!(
        "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held",
        call.user.name, call.user.groups
    );
    Err(Failure::forbidden(resource, name, &why))
}
