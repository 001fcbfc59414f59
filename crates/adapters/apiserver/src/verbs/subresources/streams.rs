//! `exec`, `attach` and `portforward`: what can be said about them where no kubelet runs containers.

use super::{Request, log};
use crate::{object::text, status::Failure};

pub(crate) const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

/// Why nothing is streamed; the mistakes a client can make come first, in the real server's words.
pub(crate) fn refuse(request: &Request<'_>) -> Box<Failure> {
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
        node => {
            let what = request.subresource;
            let message = format!(
                "node {node} runs no containers: its pods only stand for those of a cluster, so there is nothing to {what}"
            );
            Failure::new(501, "NotImplemented", message)
        }
    }
}
