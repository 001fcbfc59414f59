//! Glance, and cinder, whose volumes are available after they were looked at once.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Call, Project, Result, answer, fields, is_full, new_id, page, parts, refusal};

pub(super) fn images(project: &Project, call: &Call, path: &str) -> Result {
    match (&call.method, path) {
        (&Method::GET, "/images") => page(project, call, "images", &project.images, &["name", "id", "status"]),
        _ => Err(answer(404, &json!("404 Not Found"))),
    }
}

pub(super) fn volumes(project: &mut Project, call: &Call, path: &str) -> Result {
    match (&call.method, parts(path).as_slice()) {
        (&Method::GET, ["volumes", "detail"]) => {
            let answer = page(project, call, "volumes", &project.volumes, &["name"]);
            project.volumes.retain(|volume| volume["status"] != "deleting");
            for volume in project.volumes.iter_mut().filter(|volume| volume["status"] == "creating") {
                volume["status"] = json!("available");
            }
            answer
        }
        (&Method::POST, ["volumes"]) => create(project, call),
        (&Method::DELETE, ["volumes", id]) => {
            let Some(volume) = project.volumes.iter_mut().find(|volume| volume["id"] == *id) else {
                return Err(refusal(404, "itemNotFound", &format!("Volume {id} could not be found.")));
            };
            if !["available", "error"].contains(&volume["status"].as_str().unwrap_or_default()) {
                let words = "Invalid volume: Volume status must be available or error or error_restoring";
                return Err(refusal(400, "badRequest", words));
            }
            volume["status"] = json!("deleting");
            Ok(answer(202, &Value::Null))
        }
        _ => Err(refusal(404, "itemNotFound", "The resource could not be found.")),
    }
}

fn create(project: &mut Project, call: &Call) -> Result {
    let allowed = ["name", "description", "imageRef", "volume_type", "availability_zone", "metadata"];
    let volume = fields(&call.body, "volume", &["size"], &allowed)?.clone();
    if volume["size"].as_u64().is_none_or(|size| size == 0) {
        return Err(refusal(400, "badRequest", "Invalid input for field/attribute size"));
    }
    if is_full(project, "volumes", project.volumes.len()) {
        let words = "VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes'.";
        return Err(refusal(413, "overLimit", words));
    }
    if volume.get("volume_type") == Some(&json!("none")) {
        return Err(refusal(404, "itemNotFound", "Volume type with name none could not be found."));
    }
    let mut made = json!({"id": new_id(), "status": "creating", "created_at": "2026-01-01T00:00:00.000000"});
    for (key, value) in volume {
        made[key] = value;
    }
    project.volumes.push(made.clone());
    Ok(answer(202, &json!({"volume": made})))
}
