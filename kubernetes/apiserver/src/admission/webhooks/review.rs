//! Admission reviews: what webhooks are told of a write, and what their answers mean.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::Write;
use crate::{
    admission::{kind, other_kind},
    object::text,
    registry::Resource,
    status::{Answer, Failure},
    verbs::{Request, convert},
};

/// What a webhook says of a write.
pub(super) struct Verdict {
    allowed: bool,
    status: Value,
    pub(super) warnings: Vec<String>,
    /// The operations of a JSON patch.
    pub(super) patch: Option<Vec<Value>>,
}

/// Why there is no verdict.
pub(super) enum Trouble {
    /// The webhook could not be asked, or did not answer as it must; its failure policy decides.
    Call(String),
}

/// The facts of a request that rules and expressions are about, in one version of the resource.
pub(crate) fn about(request: &Request<'_>, resource: &Resource, write: Write<'_>) -> Value {
    let kind = |resource: &Resource| kind(request, resource);
    let place = |resource: &Resource| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let mut about = json!({
        "kind": kind(resource), "resource": place(resource),
        "requestKind": kind(request.resource), "requestResource": place(request.resource),
        "operation": write.operation, "userInfo": request.call.user.value(), "dryRun": is_dry(request),
    });
    let namespace = if request.resource.is("/namespaces") { write.name } else { request.namespace };
    let optional = [
        ("name", write.name),
        ("namespace", namespace),
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
    ];
    for (field, value) in optional {
        if !value.is_empty() {
            about[field] = value.into();
        }
    }
    about
}

fn is_dry(request: &Request<'_>) -> bool {
    let body = request.call.method == http::Method::DELETE
        && serde_json::from_slice::<Value>(&request.call.body).is_ok_and(|body| body["dryRun"][0] == "All");
    body || request.call.query.all("dryRun").any(|run| run == "All")
}

/// The review that goes out, and its uid.
pub(super) async fn review(
    request: &Request<'_>,
    resource: &std::sync::Arc<Resource>,
    write: Write<'_>,
    new: Option<&Value>,
) -> Answer<(Value, String)> {
    let uid = uuid::Uuid::new_v4().to_string();
    let mut about = about(request, resource, write);
    about["uid"] = uid.as_str().into();
    about["options"] = options(request, write.operation);
    for (field, value) in [("object", new), ("oldObject", write.old)] {
        about[field] = match value {
            Some(value) if other_kind(request.subresource).is_some() => value.clone(),
            Some(value) => convert::between(request.api, request.resource, resource, value.clone()).await?,
            None => Value::Null,
        };
    }
    Ok((json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": about}), uid))
}

/// The options of a request, as those who are asked about it see them.
pub(crate) fn options(request: &Request<'_>, operation: &str) -> Value {
    let query = &request.call.query;
    if operation == "CONNECT" {
        return Value::Null;
    }
    let kind = match operation {
        "CREATE" => "CreateOptions",
        "UPDATE" => "UpdateOptions",
        _ => "DeleteOptions",
    };
    let mut options = match (kind, serde_json::from_slice::<Value>(&request.call.body)) {
        ("DeleteOptions", Ok(body)) if body.is_object() => body,
        _ => json!({}),
    };
    for field in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if let Some(value) = query.get(field).filter(|value| !value.is_empty()) {
            options[field] = value.into();
        }
    }
    if is_dry(request) {
        options["dryRun"] = json!(["All"]);
    }
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    options
}

/// The verdict in an answer to the review of this uid.
pub(super) fn read(answer: &Value, uid: &str, mutates: bool) -> Result<Verdict, Trouble> {
    let invalid = |why: &str| Trouble::Call(format!("received invalid webhook response: {why}"));
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if version == "admission.k8s.io/v1beta1" && kind == "AdmissionReview" {
        let why = "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion";
        return Err(Trouble::Call(format!("failed to call webhook: {why}")));
    }
    if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        let why = format!("no kind {kind:?} is registered for version {version:?}");
        return Err(Trouble::Call(format!("failed to call webhook: {why}")));
    }
    let response = &answer["response"];
    if !response.is_object() {
        return Err(invalid("webhook response was absent"));
    }
    let own = text(&response["uid"]);
    if own != uid {
        return Err(invalid(&format!("expected response.uid={uid:?}, got {own:?}")));
    }
    let (encoded, patch_type) = (text(&response["patch"]), text(&response["patchType"]));
    let patch = match (mutates, encoded, patch_type) {
        (_, "", "") => None,
        (false, "", _) => return Err(invalid("validating webhook may not return response.patchType")),
        (false, ..) => return Err(invalid("validating webhook may not return response.patch")),
        (true, _, "") => return Err(invalid("webhook returned response.patch but not response.patchType")),
        (true, "", _) => return Err(invalid("webhook returned response.patchType but not response.patch")),
        (true, ..) => Some(operations(encoded)?),
    };
    let patch = patch.filter(|operations| !operations.is_empty());
    if patch.is_some() && patch_type != "JSONPatch" {
        return Err(Trouble::Call(format!("unsupported patch type {patch_type:?}")));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(Verdict {
        allowed: response["allowed"] == true,
        status: response["status"].clone(),
        warnings: warnings.filter(|text| !text.contains(char::is_control)).map(str::to_owned).collect(),
        patch,
    })
}

fn operations(encoded: &str) -> Result<Vec<Value>, Trouble> {
    let undecodable = |why: String| Trouble::Call(format!("received undecodable patch in webhook response: {why}"));
    let patch = STANDARD.decode(encoded).map_err(|error| undecodable(error.to_string()))?;
    serde_json::from_slice(&patch)
        .map_err(|error| undecodable(cel::go::json::complaint(&patch).unwrap_or_else(|| error.to_string())))
}

impl Verdict {
    /// The refusal that a denial becomes.
    pub(super) fn denial(&self, webhook: &str) -> Option<Box<Failure>> {
        if self.allowed {
            return None;
        }
        let status = &self.status;
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (text(&status["message"]), text(&status["reason"])) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
        let mut failure = Failure::new(if code < 400 { 400 } else { code }, "", message);
        failure.reason = text(&status["reason"]).to_owned().into();
        failure.details = Some(status["details"].clone()).filter(Value::is_object);
        Some(failure)
    }
}
