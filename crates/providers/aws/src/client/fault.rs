//! What can go wrong on the wire, and what kind of trouble AWS's codes mean.

use std::time::Duration;

use jiff::SignedDuration;
use machine::provider::{Error, ErrorKind};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    /// AWS answered with an error.
    #[error("{code}: {message}")]
    Refused { status: u16, code: String, message: String, request_id: Option<String> },
    /// AWS did not answer, or not whole.
    #[error("{0}")]
    Unreachable(String),
    /// AWS, or whoever it was, answered something that is no answer.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Login(String),
    /// The account rests.
    #[error("{words}")]
    Paused { left: Duration, words: String },
}

impl Fault {
    /// AWS's code, if it gave one.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Unreachable(_) | Self::Unreadable(_) | Self::Login(_) | Self::Paused { .. } => "",
        }
    }

    /// What AWS calls missing, by a code such as `InvalidInstanceID.NotFound`.
    pub(crate) fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The error that a condition shows: what we were doing and AWS's words.
    pub(crate) fn error(self, doing: &str) -> Error {
        let error = Error::new(self.kind(), format!("{doing}: {self}"));
        match self {
            Self::Refused { request_id: Some(id), .. } => error.with_request_id(id),
            _ => error,
        }
    }

    pub(super) fn is_throttling(&self) -> bool {
        matches!(self.kind(), ErrorKind::Throttled { .. })
    }

    /// Whether the same request may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        self.kind() == ErrorKind::Unreachable
    }

    pub(super) fn is_expired(&self) -> bool {
        matches!(
            self.code(),
            "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" | "AuthFailure" | "InvalidClientTokenId"
        )
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, code, message, .. } => kind(*status, code, message),
            Self::Unreachable(_) => ErrorKind::Unreachable,
            Self::Unreadable(_) => ErrorKind::Other,
            Self::Login(_) => ErrorKind::Credentials,
            Self::Paused { left, .. } => ErrorKind::Throttled { retry_after: SignedDuration::try_from(*left).ok() },
        }
    }
}

/// The kind of trouble behind a code. Codes come in families, so most are recognised by how they begin or end.
fn kind(status: u16, code: &str, message: &str) -> ErrorKind {
    match code {
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "EC2ThrottledException"
        | "SlowDown"
        | "PriorRequestNotComplete"
        | "BandwidthLimitExceeded" => ErrorKind::Throttled { retry_after: None },
        "AuthFailure"
        | "UnauthorizedOperation"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "AccessDenied"
        | "AccessDeniedException"
        | "OptInRequired"
        | "UnrecognizedClientException"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "Blocked"
        | "PendingVerification"
        | "InvalidToken"
        | "RequestTimeTooSkewed"
        | "NotAuthorized" => ErrorKind::Credentials,
        // A subnet without free addresses, a host that is full, a price that nobody sells for.
        "ReservationCapacityExceeded" | "SpotMaxPriceTooLow" | "CapacityReservationNotAvailable" => {
            ErrorKind::NoCapacity
        }
        _ if code.starts_with("Insufficient") => ErrorKind::NoCapacity,
        "MaxSpotInstanceCountExceeded"
        | "MaxSpotFleetRequestCountExceeded"
        | "TooManyTargets"
        | "TooManyRegistrationsForTargetId" => ErrorKind::Quota,
        _ if code.ends_with("LimitExceeded") => ErrorKind::Quota,
        _ if code.ends_with(".NotFound") || code.ends_with("NotFoundException") || code.ends_with(".Unknown") => {
            ErrorKind::NotFound
        }
        "LoadBalancerNotFound" | "TargetGroupNotFound" | "InvalidAMIID.Unavailable" => ErrorKind::NotFound,
        // A profile that was just made is not yet known everywhere.
        "InvalidParameterValue" if message.contains("IAM Instance Profile") => ErrorKind::NotFound,
        "InternalError" | "InternalFailure" | "Unavailable" | "ServiceUnavailable" | "RequestTimeout" => {
            ErrorKind::Unreachable
        }
        "IdempotentParameterMismatch"
        | "IdempotentInstanceTerminated"
        | "IncorrectInstanceState"
        | "InvalidTarget"
        | "ResourceInUse"
        | "DependencyViolation"
        | "OperationNotPermitted"
        | "ConcurrentTagAccess" => ErrorKind::Other,
        _ => match status {
            429 => ErrorKind::Throttled { retry_after: None },
            401 | 403 => ErrorKind::Credentials,
            400..500 => ErrorKind::InvalidSpec,
            500.. => ErrorKind::Unreachable,
            _ => ErrorKind::Other,
        },
    }
}

/// The kind of trouble behind the reason that AWS gives for an instance that it let go: `Server.InsufficientInstanceCapacity`.
pub(crate) fn kind_of_reason(reason: &str) -> ErrorKind {
    let code = reason.split_once('.').map_or(reason, |(_, code)| code);
    match code {
        "SpotInstanceTermination" | "SpotInstanceShutdown" | "SpotInstanceTermination.NoCapacity" => {
            ErrorKind::NoCapacity
        }
        _ => match kind(200, code, "") {
            ErrorKind::InvalidSpec => ErrorKind::Other,
            kind => kind,
        },
    }
}

/// EC2 has `Response/Errors/Error`, the load balancers `ErrorResponse/Error`.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Errors")]
    errors: Option<Errors>,
    #[serde(rename = "Error")]
    error: Option<Refusal>,
    #[serde(alias = "RequestID", rename = "RequestId")]
    request_id: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    #[serde(rename = "Error", default)]
    error: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "Code", default)]
    code: String,
    #[serde(rename = "Message", default)]
    message: String,
}

/// Reads an error. Something else than AWS, such as a proxy, may have written it.
pub(super) fn read(status: u16, text: &str) -> Fault {
    let answer = quick_xml::de::from_str::<Answer>(text).ok();
    let request_id = answer.as_ref().and_then(|answer| answer.request_id.clone());
    let refusal = answer
        .and_then(|answer| answer.error.or_else(|| answer.errors.and_then(|errors| errors.error.into_iter().next())));
    let refusal = refusal.filter(|refusal| !refusal.code.is_empty());
    let Some(Refusal { code, message }) = refusal else {
        let words = format!("HTTP status {status} without an error of AWS");
        return if status >= 500 { Fault::Unreachable(words) } else { Fault::Unreadable(words) };
    };
    Fault::Refused { status, code, message: readable(&message), request_id }
}

/// AWS appends a long encrypted explanation, different with every call, to some refusals. Only the sentence is for people.
fn readable(message: &str) -> String {
    let end = message.find("Encoded authorization failure message").unwrap_or(message.len());
    message[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, kind: ErrorKind) {
        let text = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>words</Message></Error></Errors>\
             <RequestID>r-1</RequestID></Response>"
        );
        let error = read(400, &text).error("cannot do it");
        assert_eq!((error.kind, error.request_id.as_deref()), (kind, Some("r-1")), "{code}");
        assert_eq!(error.message, format!("cannot do it: {code}: words"));
    }

    #[test]
    fn codes_become_kinds() {
        check("RequestLimitExceeded", ErrorKind::Throttled { retry_after: None });
        check("UnauthorizedOperation", ErrorKind::Credentials);
        check("InsufficientInstanceCapacity", ErrorKind::NoCapacity);
        check("InsufficientFreeAddressesInSubnet", ErrorKind::NoCapacity);
        check("SpotMaxPriceTooLow", ErrorKind::NoCapacity);
        check("VcpuLimitExceeded", ErrorKind::Quota);
        check("InstanceLimitExceeded", ErrorKind::Quota);
        check("InvalidAMIID.NotFound", ErrorKind::NotFound);
        check("InvalidPlacementGroup.Unknown", ErrorKind::NotFound);
        check("InvalidParameterCombination", ErrorKind::InvalidSpec);
        check("InternalError", ErrorKind::Unreachable);
        check("IdempotentParameterMismatch", ErrorKind::Other);
    }

    #[test]
    fn the_load_balancers_form_of_errors_is_read_too() {
        let text = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>LoadBalancerNotFound</Code>\
                    <Message>m</Message></Error><RequestId>r-2</RequestId></ErrorResponse>";
        let fault = read(400, text);
        assert_eq!(fault.code(), "LoadBalancerNotFound");
        assert!(fault.is_not_found());
        assert_eq!(fault.error("x").request_id.as_deref(), Some("r-2"));
    }

    #[test]
    fn garbage_is_told_from_refusals() {
        assert!(matches!(read(502, "<html>Bad Gateway</html>"), Fault::Unreachable(_)));
        assert!(matches!(read(404, "not xml"), Fault::Unreadable(_)));
        assert_eq!(read(503, "").kind(), ErrorKind::Unreachable);
    }

    #[test]
    fn the_encrypted_part_of_a_refusal_is_left_out() {
        let text = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized. Encoded \
                    authorization failure message: AbCdEf</Message></Error></Errors></Response>";
        assert_eq!(read(403, text).to_string(), "UnauthorizedOperation: You are not authorized.");
    }

    #[test]
    fn reasons_of_lost_instances_become_kinds() {
        assert_eq!(kind_of_reason("Server.InsufficientInstanceCapacity"), ErrorKind::NoCapacity);
        assert_eq!(kind_of_reason("Client.VolumeLimitExceeded"), ErrorKind::Quota);
        assert_eq!(kind_of_reason("Server.SpotInstanceTermination"), ErrorKind::NoCapacity);
        assert_eq!(kind_of_reason("Client.InvalidSnapshot.NotFound"), ErrorKind::NotFound);
        assert_eq!(kind_of_reason("Server.InternalError"), ErrorKind::Unreachable);
    }
}
