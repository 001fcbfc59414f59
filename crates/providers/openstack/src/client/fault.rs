//! What can go wrong on the wire, and what kind of trouble the services' words mean.

use std::time::Duration;

use jiff::SignedDuration;
use machine::provider::{Error, ErrorKind};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// A service answered with an error. The title is its word for it, such as `itemNotFound` or `OverQuota`.
    #[error("{message}")]
    Refused { status: u16, title: String, message: String, request_id: Option<String>, retry_after: Option<Duration> },
    /// Nobody answered, or not whole.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody answered something that is no answer.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Login(String),
    /// The cloud has no such service or extension, or one that is too old.
    #[error("{0}")]
    Lacking(String),
    /// The account rests.
    #[error("{words}")]
    Paused { left: Duration, words: String },
}

impl Fault {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Something is in a state in which the request is not allowed: still in use, or just being made.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Refused { status: 409, .. } => true,
            // Cinder's word for a volume that is not available.
            Self::Refused { status: 400, message, .. } => message.contains("status must be"),
            _ => false,
        }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The error that a condition shows: what we were doing and the service's words. A refusal of anything but a creation
    /// says nothing about the spec.
    pub(crate) fn error(self, doing: &str) -> Error {
        let mut error = self.refusal(doing);
        if error.kind == ErrorKind::InvalidSpec {
            error.kind = ErrorKind::Other;
        }
        error
    }

    /// The error of a creation.
    pub(crate) fn refusal(self, doing: &str) -> Error {
        let error = Error::new(self.kind(), format!("{doing}: {self}"));
        match self {
            Self::Refused { request_id: Some(id), .. } => error.with_request_id(id),
            _ => error,
        }
    }

    pub(super) fn is_throttling(&self) -> Option<Option<Duration>> {
        match (self.kind(), self) {
            (ErrorKind::Throttled { .. }, Self::Refused { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    /// Whether the same request may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        self.kind() == ErrorKind::Unreachable
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, title, message, retry_after, .. } => {
                kind(*status, title, message, retry_after.is_some())
            }
            Self::Unreachable(_) => ErrorKind::Unreachable,
            Self::Unreadable(_) | Self::Lacking(_) => ErrorKind::Other,
            Self::Login(_) => ErrorKind::Credentials,
            Self::Paused { left, .. } => ErrorKind::Throttled { retry_after: SignedDuration::try_from(*left).ok() },
        }
    }
}

fn kind(status: u16, title: &str, message: &str, asks_to_wait: bool) -> ErrorKind {
    let lower = message.to_ascii_lowercase();
    let says = |words: &str| lower.contains(words);
    match status {
        401 => ErrorKind::Credentials,
        // Nova refuses with 403, neutron with 409, cinder with 413.
        403 | 409 | 413 if says("quota") || title == "OverQuota" || says("maximum number of") => ErrorKind::Quota,
        403 => ErrorKind::Credentials,
        404 => ErrorKind::NotFound,
        409 if title.starts_with("IpAddressGenerationFailure") || says("no more ip addresses") => ErrorKind::NoCapacity,
        409 => ErrorKind::Other,
        413 if asks_to_wait => ErrorKind::Throttled { retry_after: None },
        413 => ErrorKind::Quota,
        429 => ErrorKind::Throttled { retry_after: None },
        503 if asks_to_wait => ErrorKind::Throttled { retry_after: None },
        400 if says("could not be found") || says("not found") || says("can not find") => ErrorKind::NotFound,
        400 if says("invalid key_name") || says("availability zone is not available") => ErrorKind::NotFound,
        400 if says("no valid host") => ErrorKind::NoCapacity,
        400..500 => ErrorKind::InvalidSpec,
        500.. => ErrorKind::Unreachable,
        _ => ErrorKind::Other,
    }
}

/// The kind of trouble behind the fault of a server that could not be built.
pub(crate) fn kind_of_fault(message: &str) -> ErrorKind {
    let lower = message.to_ascii_lowercase();
    let says = |words: &str| lower.contains(words);
    if says("no valid host") || says("no more ip addresses") || says("insufficient") || says("not enough") {
        ErrorKind::NoCapacity
    } else if says("quota") {
        ErrorKind::Quota
    } else {
        ErrorKind::Other
    }
}

/// Reads an error. Something else than OpenStack, such as a proxy, may have written it.
pub(super) fn read(status: u16, text: &str, request_id: Option<String>, retry_after: Option<Duration>) -> Fault {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let (title, message) = words(&body).unwrap_or_else(|| (String::new(), format!("HTTP status {status}")));
    if message.starts_with("HTTP status") && status >= 500 && retry_after.is_none() {
        return Fault::Unreachable(message);
    }
    Fault::Refused { status, title, message: message.trim().to_owned(), request_id, retry_after }
}

/// Nova and cinder have `{"badRequest": {"message": …}}`, neutron `{"NeutronError": {"type": …, "message": …}}`, keystone
/// `{"error": {"title": …, "message": …}}`.
fn words(body: &Value) -> Option<(String, String)> {
    let (key, inner) = body.as_object()?.iter().find(|(_, inner)| inner["message"].is_string() || inner.is_string())?;
    let message = inner.as_str().or_else(|| inner["message"].as_str())?.to_owned();
    let title = inner["type"].as_str().or_else(|| inner["title"].as_str()).unwrap_or(key).to_owned();
    Some((title, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, text: &str, kind: ErrorKind, message: &str) {
        let error = read(status, text, Some("req-1".to_owned()), None).refusal("cannot do it");
        assert_eq!((error.kind, error.message.as_str()), (kind, format!("cannot do it: {message}").as_str()), "{text}");
        if error.kind != ErrorKind::Unreachable {
            assert_eq!(error.request_id.as_deref(), Some("req-1"));
        }
    }

    #[test]
    fn the_words_of_each_service_become_kinds() {
        let quota = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1"}}"#;
        check(403, quota, ErrorKind::Quota, "Quota exceeded for instances: Requested 1");
        let policy = r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}"#;
        check(403, policy, ErrorKind::Credentials, "Policy doesn't allow it");
        let ports = r#"{"NeutronError": {"type": "OverQuota", "message": "Too many: ports.", "detail": ""}}"#;
        check(409, ports, ErrorKind::Quota, "Too many: ports.");
        let full = r#"{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "None left.", "detail": ""}}"#;
        check(409, full, ErrorKind::NoCapacity, "None left.");
        let volumes = r#"{"overLimit": {"code": 413, "message": "Maximum number of volumes allowed (1) exceeded"}}"#;
        check(413, volumes, ErrorKind::Quota, "Maximum number of volumes allowed (1) exceeded");
        let key = r#"{"badRequest": {"code": 400, "message": "Invalid key_name provided."}}"#;
        check(400, key, ErrorKind::NotFound, "Invalid key_name provided.");
        let disk = r#"{"badRequest": {"code": 400, "message": "Flavor's disk is too small for requested image."}}"#;
        check(400, disk, ErrorKind::InvalidSpec, "Flavor's disk is too small for requested image.");
        let login = r#"{"error": {"code": 401, "message": "The request requires auth.", "title": "Unauthorized"}}"#;
        check(401, login, ErrorKind::Credentials, "The request requires auth.");
        check(502, "<html>Bad Gateway</html>", ErrorKind::Unreachable, "HTTP status 502");
        check(404, "<html>404</html>", ErrorKind::NotFound, "HTTP status 404");
        check(429, "", ErrorKind::Throttled { retry_after: None }, "HTTP status 429");
    }

    #[test]
    fn only_creations_can_be_refused_for_good() {
        let text = r#"{"badRequest": {"code": 400, "message": "Bad marker"}}"#;
        assert_eq!(read(400, text, None, None).error("cannot list").kind, ErrorKind::Other);
        assert_eq!(read(400, text, None, None).refusal("cannot create").kind, ErrorKind::InvalidSpec);
    }

    #[test]
    fn faults_of_servers_become_kinds() {
        assert_eq!(kind_of_fault("No valid host was found. There are not enough hosts"), ErrorKind::NoCapacity);
        assert_eq!(kind_of_fault("Quota exceeded for resources: ['port']"), ErrorKind::Quota);
        assert_eq!(kind_of_fault("Build of instance x aborted: boom"), ErrorKind::Other);
    }
}
