//! Checks that look beyond the object: its namespace, the rights of the writer, what else exists.

pub(crate) mod allocation;
pub(crate) mod authors;
pub(crate) mod devices;
pub(crate) mod limits;
mod mutations;
pub(crate) mod policies;
pub(crate) mod quota;
mod service_accounts;
mod turns;
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

/// The object as mutating policies and webhooks leave it.
pub(crate) async fn mutate(
    request: &Request<'_>,
    write: webhooks::Write<'_>,
    new: Option<Value>,
) -> Answer<Option<Value>> {
    let hooks = webhooks::mutating(request);
    let (mut of_policies, mut of_hooks) = (turns::Turns::default(), turns::Turns::default());
    let mut new = mutations::mutate(request, write, new, &mut of_policies).await?;
    new = webhooks::mutate(request, write, new, &hooks, &mut of_hooks).await?;
    if of_policies.repeats() || of_hooks.repeats() {
        of_policies.begin_second();
        of_hooks.begin_second();
        new = mutations::mutate(request, write, new, &mut of_policies).await?;
        new = webhooks::mutate(request, write, new, &hooks, &mut of_hooks).await?;
    }
    Ok(new)
}

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

/// What is added to a new object before policies and webhooks see it.
pub(crate) fn prepare(api: &Api, resource: &Resource, namespace: &str, value: &mut Value) -> Answer<()> {
    limits::default(api, resource, namespace, value);
    if resource.is("/pods") { pod(api, resource, value) } else { Ok(()) }
}

pub(crate) fn create(api: &Api, call: &Call, resource: &Resource, value: &mut Value) -> Answer<()> {
    match &*resource.collection {
        "/pods" => {
            let namespace = text(&value["metadata"]["namespace"]).to_owned();
            limits::default(api, resource, &namespace, value);
            service_accounts::admit(api, resource, value)?;
            pod(api, resource, value)?;
        }
        "/nodes" => not_ready(value),
        "certificates.k8s.io/certificatesigningrequests" => {
            let user = &call.user;
            value["spec"]["username"] = user.name.as_str().into();
            value["spec"]["groups"] = user.groups.clone().into();
            // What the sender says of itself is not believed.
            if let Some(spec) = value["spec"].as_object_mut() {
                for (field, known) in [("uid", json!(user.uid)), ("extra", json!(user.extra))] {
                    match known == "" || known == json!({}) {
                        true => spec.remove(field),
                        false => spec.insert(field.to_owned(), known),
                    };
                }
            }
        }
        _ => {}
    }
    if let Some(finalizer) = resource.rules.strategy.protection {
        let mut finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|own| own == finalizer) {
            finalizers.push(finalizer.into());
        }
        value["metadata"]["finalizers"] = finalizers.into();
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

/// What the priority plugin adds to a pod. It looks again after others changed the pod, and takes nothing back.
fn pod(api: &Api, resource: &Resource, value: &mut Value) -> Answer<()> {
    const CLASSES: &str = "scheduling.k8s.io/priorityclasses";
    let name = text(&value["metadata"]["name"]).to_owned();
    let Some(spec) = value["spec"].as_object_mut() else { return Ok(()) };
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = if class.is_empty() {
        let index = api.store.read();
        let all = index.collection(CLASSES).into_iter().flat_map(|found| found.iter(None, None));
        let general = all.map(|class| class.value()).filter(|class| class["globalDefault"] == true);
        general.min_by_key(|class| class["value"].as_i64())
    } else {
        let Some(found) = api.store.get(CLASSES, &Name::new("", &class)) else {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(Failure::forbidden(resource, &name, &why));
        };
        Some(found.value())
    };
    let found = found.unwrap_or_default();
    let priority = found["value"].as_i64().unwrap_or(0);
    let policy = found["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
    let provided = |what: &str, own: &str, computed: &str| {
        let why = format!(
            "the {what} ({own}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        );
        Failure::forbidden(resource, &name, &why)
    };
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|own| *own != priority) {
        return Err(provided("integer value of priority", &own.to_string(), &priority.to_string()));
    }
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|own| *own != policy) {
        return Err(provided("string value of PreemptionPolicy", own, policy));
    }
    if class.is_empty()
        && let Some(general) = found["metadata"]["name"].as_str()
    {
        spec.insert("priorityClassName".into(), general.into());
    }
    spec.insert("priority".into(), priority.into());
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
