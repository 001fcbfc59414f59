//! Failures as clients know them: a `Status` with code, reason, message and details.

use std::borrow::Cow;

use schema::FieldError;
use serde_json::{Value, json};

use crate::registry::Resource;

pub(crate) type Answer<T> = Result<T, Box<Failure>>;

#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: u16,
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Option<Value>,
    pub retry_after: Option<u32>,
}

impl Failure {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { code, reason: reason.into(), message: message.into(), details: None, retry_after: None })
    }

    pub(crate) fn with(code: u16, reason: &'static str, message: impl Into<String>, details: Value) -> Box<Self> {
        Box::new(Self { details: Some(details), ..*Self::new(code, reason, message) })
    }

    pub fn value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        status
    }

    pub fn not_found(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::with(404, "NotFound", message, resource.details(name))
    }

    pub fn namespace_not_found(name: &str) -> Box<Self> {
        let details = json!({"name": name, "kind": "namespaces"});
        Self::with(404, "NotFound", format!("namespaces \"{name}\" not found"), details)
    }

    /// A path below a served group version that names nothing.
    pub fn no_such_resource() -> Box<Self> {
        Self::with(404, "NotFound", "the server could not find the requested resource", json!({}))
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::with(409, "AlreadyExists", message, resource.details(name))
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::with(409, "Conflict", message, resource.details(name))
    }

    pub fn modified(resource: &Resource, name: &str) -> Box<Self> {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Box<Self> {
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({"reason": error.reason(), "message": error.body(), "field": error.field}))
            .collect();
        let list = schema::aggregate(errors);
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut details = json!({"causes": causes});
        if !kind.is_empty() {
            details["kind"] = kind.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self::with(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {list}"), details)
    }

    pub fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    pub fn method_not_allowed() -> Box<Self> {
        let message = "the server does not allow this method on the requested resource";
        Self::with(405, "MethodNotAllowed", message, json!({}))
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let qualified = resource.qualified();
        let message = match name {
            "" => format!("{qualified} is forbidden: {why}"),
            name => format!("{qualified} \"{name}\" is forbidden: {why}"),
        };
        Self::with(403, "Forbidden", message, resource.details(name))
    }

    pub fn unauthorized() -> Box<Self> {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn expired(message: impl Into<String>) -> Box<Self> {
        Self::new(410, "Expired", message)
    }

    pub fn too_old(asked: u64, oldest: u64) -> Box<Self> {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// A version this store has not reached yet.
    pub fn too_new(asked: u64, current: u64) -> Box<Self> {
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut failure = Self::with(504, "Timeout", message, json!({"causes": causes}));
        failure.retry_after = Some(1);
        failure
    }

    pub fn unsupported_media(accepted: &[&str]) -> Box<Self> {
        let list = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {list}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn too_large(limit: usize) -> Box<Self> {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Box<Self> {
        let text = message.to_string();
        let details = json!({"causes": [{"message": text}]});
        Self::with(500, "InternalError", format!("Internal error occurred: {text}"), details)
    }

    /// An error that has no reason of its own, as the API prints untyped errors.
    pub fn untyped(message: impl Into<String>) -> Box<Self> {
        Self::new(500, "", message)
    }
}

impl From<crate::store::Error> for Box<Failure> {
    fn from(error: crate::store::Error) -> Self {
        match error {
            crate::store::Error::Stale => Failure::new(409, "Conflict", "the object has been modified"),
            crate::store::Error::Disk(source) => Failure::internal(source),
            crate::store::Error::Closed => {
                let mut failure = Failure::new(503, "ServiceUnavailable", error.to_string());
                failure.retry_after = Some(1);
                failure
            }
        }
    }
}
