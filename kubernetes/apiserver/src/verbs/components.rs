//! ComponentStatuses: an old way to ask how a control plane is. They are told, not stored.

use http::Response;
use serde_json::{Value, json};

use super::{Request, shape};
use crate::{
    http::{Body, Shape, respond},
    status::{Answer, Failure},
};

pub(crate) const COLLECTION: &str = "/componentstatuses";

pub(crate) fn answer(request: &Request<'_>, verb: &str) -> Answer<Response<Body>> {
    if request.call.query.flag("watch") {
        let message = "watch is not supported on resources of kind \"componentstatuses\"";
        return Err(Failure::new(405, "MethodNotAllowed", message));
    }
    let all = all();
    if verb == "get" {
        let own = all.into_iter().find(|component| component["metadata"]["name"] == request.name);
        let mut own =
            own.ok_or_else(|| Failure::new(404, "NotFound", format!("componentstatus {:?} not found", request.name)))?;
        own["kind"] = "ComponentStatus".into();
        own["apiVersion"] = "v1".into();
        return request.object(200, own);
    }
    let (accept, metadata) = (&request.call.accept, json!({}));
    let list = match accept.shape {
        Shape::Object => json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": metadata, "items": all}),
        Shape::Table => shape::table(request, &all, &metadata),
        Shape::Metadata => {
            let items: Vec<Value> = all.into_iter().map(|one| shape::metadata(one, &accept.shape_version)).collect();
            let version = format!("meta.k8s.io/{}", accept.shape_version);
            json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items})
        }
    };
    Ok(respond::value(200, &list, accept.yaml, accept.pretty || request.call.query.flag("pretty")))
}

/// This process is storage and control plane in one; whoever schedules pods is somebody else.
fn all() -> Vec<Value> {
    let component = |name: &str, healthy: bool, message: &str| {
        let status = if healthy { "True" } else { "False" };
        json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": status, "message": message}]})
    };
    vec![
        component("scheduler", false, "no scheduler runs behind this API: pods stay on the node that they name"),
        component("controller-manager", true, "ok"),
        component("etcd-0", true, "ok"),
    ]
}
