//! `exec`, `attach` and `portforward`: who may, and what can be said where no kubelet runs containers.

use http::Response;
use serde_json::{Value, json};

use super::{Request, exec, log};
use crate::{
    admission::{self, policies, webhooks},
    http::Body,
    object::text,
    status::{Answer, Failure},
};

pub(crate) const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

pub(crate) async fn start(request: &Request<'_>) -> Answer<Response<Body>> {
    let write = webhooks::Write { operation: "CONNECT", name: request.name, old: None };
    let options = admission::mutate(request, write, Some(options(request))).await?.unwrap_or_default();
    policies::check(request, write, Some(&options)).await?;
    webhooks::validate(request, write, Some(&options)).await?;
    match request.subresource {
        "exec" => exec::start(request, &options),
        _ => Err(refuse(request)),
    }
}

/// What the query asks for, as the object that admission decides about.
fn options(request: &Request<'_>) -> Value {
    let query = &request.call.query;
    let kind = admission::other_kind(request.subresource).map_or("", |(_, kind)| kind);
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    if request.subresource == "portforward" {
        let ports: Vec<i64> = query.all("ports").filter_map(|port| port.parse().ok()).collect();
        if !ports.is_empty() {
            options["ports"] = ports.into();
        }
        return options;
    }
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options[flag] = true.into();
        }
    }
    if !query.text("container").is_empty() {
        options["container"] = query.text("container").into();
    }
    if request.subresource == "exec" {
        let command: Vec<&str> = query.all("command").collect();
        options["command"] = if command.is_empty() { Value::Null } else { command.into() };
    }
    options
}

/// Why nothing is streamed; the mistakes a client can make come first, in the real server's words.
fn refuse(request: &Request<'_>) -> Box<Failure> {
    let Some(pod) = request.api.store.get("/pods", &request.key(request.name).name) else {
        return request.not_found();
    };
    let pod = pod.value();
    if request.subresource != "portforward"
        && let Err(failure) = log::container(request.name, &pod, request.call.query.text("container"))
    {
        return failure;
    }
    match text(&pod["spec"]["nodeName"]) {
        "" => Failure::bad_request(format!("pod {} does not have a host assigned", request.name)),
        node => nobody(request, node),
    }
}

/// There is nobody behind the pods of a node.
pub(super) fn nobody(request: &Request<'_>, node: &str) -> Box<Failure> {
    let what = request.subresource;
    // Who plays the kubelet may run commands and still have no containers to look into.
    let instead = match &request.api.execs {
        Some(_) => "; `kubectl exec` works in pods that mount the root of their node",
        None => "",
    };
    let message = format!(
        "node {node} runs no containers: its pods only stand for those of a cluster, so there is nothing to {what}{instead}"
    );
    Failure::new(501, "NotImplemented", message)
}
