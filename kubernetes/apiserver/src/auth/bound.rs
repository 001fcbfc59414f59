//! Tokens that are bound to a pod, a Secret or a Node: they say so, and end with it.
//!
//! A node gets tokens that are bound to a pod of its own, and no others.

use serde_json::{Value, json};

use super::User;
use crate::{
    object::{Name, text},
    status::{Answer, Failure},
    store::Store,
    verbs::Request,
};

/// How long the token of a pod that is being deleted still holds, so that its last words can be said.
const LEEWAY: i64 = 60;

/// The claims that bind a token to what the request refers to; none where it refers to nothing.
pub(super) fn claims(request: &Request<'_>, reference: &Value) -> Answer<Vec<(&'static str, Value)>> {
    let (kind, name, uid) = (text(&reference["kind"]), text(&reference["name"]), text(&reference["uid"]));
    if let Some(node) = request.call.user.node() {
        admit(request, node, reference)?;
    }
    if reference.is_null() {
        return Ok(Vec::new());
    }
    let store = &request.api.store;
    let (key, collection) = match (text(&reference["apiVersion"]), kind) {
        ("v1", "Pod") => ("pod", "/pods"),
        ("v1", "Secret") => ("secret", "/secrets"),
        ("v1", "Node") => ("node", "/nodes"),
        _ => {
            return Err(Failure::bad_request(format!("cannot bind token for serviceaccount to object of type {kind}")));
        }
    };
    let namespace = if key == "node" { "" } else { request.namespace };
    let missing = || {
        let details = json!({"name": name, "kind": &collection[1..]});
        Failure::with(404, "NotFound", format!("{} \"{name}\" not found", &collection[1..]), details)
    };
    let object = store.get(collection, &Name::new(namespace, name)).ok_or_else(missing)?;
    if !uid.is_empty() && *uid != *object.uid {
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {}", other_uid(uid));
        return Err(Failure::with(409, "Conflict", message, json!({"name": name, "kind": kind})));
    }
    let mut claims = vec![(key, json!({"name": name, "uid": object.uid}))];
    if key == "pod" {
        let spec = &object.value()["spec"];
        if text(&spec["serviceAccountName"]) != request.name {
            return Err(Failure::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                request.name
            )));
        }
        let node = text(&spec["nodeName"]);
        if let Some(stored) = store.get("/nodes", &Name::new("", node)).filter(|_| !node.is_empty()) {
            claims.push(("node", json!({"name": node, "uid": stored.uid})));
        } else if !node.is_empty() {
            claims.push(("node", json!({"name": node})));
        }
    }
    Ok(claims)
}

fn admit(request: &Request<'_>, node: &str, reference: &Value) -> Answer<()> {
    let refuse = |why: &str| Err(Failure::forbidden(request.resource, request.name, why));
    let (name, uid) = (text(&reference["name"]), text(&reference["uid"]));
    let is_pod = text(&reference["apiVersion"]) == "v1" && text(&reference["kind"]) == "Pod" && !name.is_empty();
    if !is_pod {
        return refuse("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return refuse("node requested token with a pod binding without a uid");
    }
    let Some(pod) = request.api.store.get("/pods", &Name::new(request.namespace, name)) else {
        let details = json!({"name": name, "kind": "pods"});
        return Err(Failure::with(404, "NotFound", format!("pods \"{name}\" not found"), details));
    };
    if *pod.uid != *uid {
        return refuse(&other_uid(uid));
    }
    if text(&pod.value()["spec"]["nodeName"]) != node {
        return refuse("node requested token bound to a pod scheduled on a different node");
    }
    Ok(())
}

fn other_uid(uid: &str) -> String {
    format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
         and then recreated"
    )
}

/// Whether what the token is bound to is still there. Says in `user` what that is.
pub(super) fn holds(store: &Store, claims: &Value, user: &mut User) -> bool {
    let own = &claims["kubernetes.io"];
    let namespace = text(&own["namespace"]);
    let is_there = |collection: &str, namespace: &str, claim: &Value| {
        let Some(object) = store.get(collection, &Name::new(namespace, text(&claim["name"]))) else { return false };
        let deleted = object.value()["metadata"]["deletionTimestamp"].as_str().and_then(|time| time.parse().ok());
        let is_over =
            deleted.is_some_and(|time: jiff::Timestamp| time.as_second() + LEEWAY < jiff::Timestamp::now().as_second());
        *object.uid == *text(&claim["uid"]) && !is_over
    };
    let mut say = |key: &str, value: &Value| {
        if let Some(value) = value.as_str() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    let (pod, secret, node) = (&own["pod"], &own["secret"], &own["node"]);
    if pod.is_object() {
        say("pod-name", &pod["name"]);
        say("pod-uid", &pod["uid"]);
    }
    if node.is_object() {
        say("node-name", &node["name"]);
        say("node-uid", &node["uid"]);
    }
    // The node of a pod is only told of.
    match (pod.is_object(), secret.is_object(), node.is_object()) {
        (true, _, _) => is_there("/pods", namespace, pod),
        (_, true, _) => is_there("/secrets", namespace, secret),
        (_, _, true) => is_there("/nodes", "", node),
        (false, false, false) => true,
    }
}
