//! What can go wrong with a call, and what kind of trouble Google's reasons mean.

use std::time::Duration;

use jiff::SignedDuration;
use machine::provider::{Error, ErrorKind};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Google said no: its reason and its words.
    #[error("{reason}: {message}")]
    Refused { status: u16, reason: String, message: String },
    /// The account asked too much and rests.
    #[error("{words}")]
    Paused { left: Duration, words: String },
    /// Google did not answer, or something between us and it did.
    #[error("{0}")]
    Unreachable(String),
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// There is nothing to log in with, or it cannot be used.
    #[error("{0}")]
    Login(String),
}

impl Fault {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }

    pub(super) fn is_throttling(&self) -> bool {
        matches!(self.kind(), ErrorKind::Throttled { .. })
    }

    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { status: 401, .. })
    }

    /// Whether the same request may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_)) || matches!(self, Self::Refused { status: 500.., .. })
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, reason, .. } => kind(*status, reason),
            Self::Paused { left, .. } => ErrorKind::Throttled { retry_after: SignedDuration::try_from(*left).ok() },
            Self::Unreachable(_) => ErrorKind::Unreachable,
            Self::Unreadable(_) => ErrorKind::Other,
            Self::Login(_) => ErrorKind::Credentials,
        }
    }

    /// The error that a condition shows: what we were doing and Google's words.
    pub(crate) fn error(&self, doing: &str) -> Error {
        Error::new(self.kind(), format!("{doing}: {self}"))
    }
}

fn kind(status: u16, reason: &str) -> ErrorKind {
    match reason {
        "rateLimitExceeded" | "userRateLimitExceeded" | "RATE_LIMIT_EXCEEDED" => {
            ErrorKind::Throttled { retry_after: None }
        }
        "quotaExceeded" | "limitExceeded" => ErrorKind::Quota,
        "notFound" => ErrorKind::NotFound,
        "authError" | "forbidden" | "insufficientPermissions" | "accessNotConfigured" | "required" if status != 400 => {
            ErrorKind::Credentials
        }
        "conditionNotMet"
        | "alreadyExists"
        | "resourceInUseByAnotherResource"
        | "resourceNotReady"
        | "operationInProgress" => ErrorKind::Other,
        _ => match status {
            401 | 403 => ErrorKind::Credentials,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::Throttled { retry_after: None },
            400 | 413 | 422 => ErrorKind::InvalidSpec,
            500.. => ErrorKind::Unreachable,
            _ => ErrorKind::Other,
        },
    }
}

/// The kind of trouble behind a code in an operation.
pub(crate) fn kind_of_code(code: &str) -> ErrorKind {
    match code {
        "QUOTA_EXCEEDED" | "QUOTA_LIMIT" => ErrorKind::Quota,
        "IP_SPACE_EXHAUSTED" | "IP_SPACE_EXHAUSTED_WITH_DETAILS" | "STOCKOUT" => ErrorKind::NoCapacity,
        _ if code.contains("RESOURCE_POOL_EXHAUSTED") || code.contains("UNSUPPORTED_OPERATION_STOCKOUT") => {
            ErrorKind::NoCapacity
        }
        "RESOURCE_NOT_FOUND" => ErrorKind::NotFound,
        "PERMISSIONS_ERROR" | "FORBIDDEN" => ErrorKind::Credentials,
        "INTERNAL_ERROR" | "BACKEND_ERROR" => ErrorKind::Unreachable,
        _ => ErrorKind::Other,
    }
}

/// Reads the answer to a call, or why there is none. Something else than Google, such as a proxy, may have written it.
pub(super) fn read(status: u16, text: &str) -> Result<Value, Fault> {
    let answer: Option<Value> = serde_json::from_str(text).ok();
    if (200..300).contains(&status) {
        return answer
            .filter(Value::is_object)
            .ok_or_else(|| Fault::Unreadable(format!("HTTP status {status} without an object")));
    }
    let error = answer.as_ref().map(|answer| &answer["error"]).filter(|error| error.is_object());
    let Some(error) = error else {
        let words = format!("HTTP status {status} without an error of Google");
        return Err(if status >= 500 { Fault::Unreachable(words) } else { Fault::Unreadable(words) });
    };
    let reason = error["errors"][0]["reason"].as_str().or_else(|| error["status"].as_str()).unwrap_or("error");
    let message = error["message"].as_str().unwrap_or_default();
    Err(Fault::Refused { status, reason: reason.to_owned(), message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_become_kinds() {
        for (status, reason, expected) in [
            (403, "rateLimitExceeded", ErrorKind::Throttled { retry_after: None }),
            (403, "quotaExceeded", ErrorKind::Quota),
            (403, "forbidden", ErrorKind::Credentials),
            (401, "authError", ErrorKind::Credentials),
            (404, "notFound", ErrorKind::NotFound),
            (400, "invalid", ErrorKind::InvalidSpec),
            (400, "required", ErrorKind::InvalidSpec),
            (409, "alreadyExists", ErrorKind::Other),
            (503, "backendError", ErrorKind::Unreachable),
        ] {
            let text =
                json!({"error": {"code": status, "message": "words", "errors": [{"reason": reason}]}}).to_string();
            let error = read(status, &text).unwrap_err().error("cannot do it");
            assert_eq!((error.kind, error.message), (expected, format!("cannot do it: {reason}: words")));
        }
    }

    #[test]
    fn codes_of_operations_become_kinds() {
        assert_eq!(kind_of_code("ZONE_RESOURCE_POOL_EXHAUSTED"), ErrorKind::NoCapacity);
        assert_eq!(kind_of_code("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"), ErrorKind::NoCapacity);
        assert_eq!(kind_of_code("QUOTA_EXCEEDED"), ErrorKind::Quota);
        assert_eq!(kind_of_code("SOMETHING_NEW"), ErrorKind::Other);
    }

    #[test]
    fn garbage_is_told_from_refusals() {
        assert!(matches!(read(502, "<html>Bad Gateway</html>"), Err(Fault::Unreachable(_))));
        assert!(matches!(read(404, "not json"), Err(Fault::Unreadable(_))));
        assert!(matches!(read(200, "[]"), Err(Fault::Unreadable(_))));
    }
}
