//! `exec`, `attach` and `portforward`: who may, and what can be said where no kubelet runs containers.

use http::Response;

use super::{Request, exec, log};
use crate::{
    http::Body,
    object::text,
    status::{Answer, Failure},
};

pub(crate) const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

pub(crate) fn start(request: &Request<'_>) -> Answer<Response<Body>> {
    match request.subresource {
        "exec" => exec::start(request),
        _ => Err(refuse(request)),
    }
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
