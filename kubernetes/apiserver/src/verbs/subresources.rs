//! Subresources: `status`, `scale`, `eviction`, `binding`, `finalize`, `approval`, `token`, `log`, and streams.

mod eviction;
pub(crate) mod exec;
pub(crate) mod log;
pub(crate) mod scale;
pub(crate) mod streams;

use http::Response;
use serde_json::{Value, json};

use super::{Request, patch, read, update};
use crate::{
    admission::{self, policies, webhooks},
    auth::node,
    http::{Body, respond},
    object::text,
    status::{Answer, Failure},
};

pub(crate) async fn handle(request: &Request<'_>, verb: &str) -> Answer<Response<Body>> {
    let allowed = request.resource.subresource(request.subresource);
    if !allowed.is_some_and(|subresource| subresource.verbs.iter().any(|own| own == verb)) {
        return Err(Failure::method_not_allowed());
    }
    match (request.subresource, verb) {
        ("scale", verb) => scale::handle(request, verb).await,
        ("eviction", "create") => eviction::create(request).await,
        ("binding", "create") => bind(request).await,
        ("token", "create") => crate::auth::reviews::token(request).await,
        ("log", "get") => log::get(request).await,
        (_, "get") => read::get(request).await,
        (_, "update") => update::update(request).await,
        (_, "patch") => patch::patch(request).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// As `bind`, for those who name the pod in the binding alone.
pub(crate) async fn bind_by_name(request: &Request<'_>) -> Answer<Response<Body>> {
    let binding = request.decode(request.options("CreateOptions")?.validation)?;
    let registry = request.api.registry.load_full();
    let pods = registry.find("", "v1", "pods").ok_or_else(Failure::no_such_resource)?;
    let name = text(&binding["metadata"]["name"]);
    bind(&Request { resource: pods, subresource: "binding", name, ..*request }).await
}

/// Puts a pod on a node, once.
async fn bind(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("CreateOptions")?;
    let mut binding = request.decode(options.validation)?;
    binding["metadata"]["namespace"] = request.namespace.into();
    let write = webhooks::Write { operation: "CREATE", name: request.name, old: None };
    let binding = admission::mutate(request, write, Some(binding)).await?.unwrap_or_default();
    if text(&binding["metadata"]["name"]) != request.name {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
    }
    let node_name = text(&binding["target"]["name"]).to_owned();
    let kind = text(&binding["target"]["kind"]);
    if !kind.is_empty() && kind != "Node" {
        let error = schema::FieldError::not_supported("target.kind", kind, &["Node".to_owned(), "<empty>".to_owned()]);
        return Err(Failure::invalid("", "Binding", request.name, &[error]));
    }
    if node_name.is_empty() {
        let error = schema::FieldError::required("target.name", "");
        return Err(Failure::invalid("", "Binding", request.name, &[error]));
    }
    policies::check(request, write, Some(&binding)).await?;
    webhooks::validate(request, write, Some(&binding)).await?;
    update::replace(request, &options, |_, old| {
        let taken = text(&old["spec"]["nodeName"]);
        if !taken.is_empty() {
            let why = format!("pod {} is already assigned to node {taken:?}", request.name);
            return Err(Failure::conflict(request.resource, request.name, &why));
        }
        if old["metadata"]["deletionTimestamp"].is_string() {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", request.name);
            return Err(Failure::conflict(request.resource, request.name, &why));
        }
        let mut new = old.clone();
        new["spec"]["nodeName"] = node_name.clone().into();
        for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            new["metadata"]["annotations"][key] = value.clone();
        }
        let conditions = new["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions: Vec<Value> =
            conditions.into_iter().filter(|condition| condition["type"] != "PodScheduled").collect();
        conditions.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": super::now(),
        }));
        new["status"]["conditions"] = conditions.into();
        Ok(new)
    })
    .await?;
    Ok(created(request))
}

fn created(request: &Request<'_>) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    respond::value(201, &status, request.call.accept.yaml, request.call.query.flag("pretty"))
}

/// The limits of a node's credential, for subresources that do not go through an update.
fn admit(request: &Request<'_>, old: &Value) -> Answer<()> {
    let written = node::Written {
        resource: request.resource,
        subresource: request.subresource,
        name: request.name,
        old: Some(old),
        new: Some(old),
    };
    node::admit(&request.call.user, &written)
}
