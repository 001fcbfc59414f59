//! What can go wrong between us and a cloud, sorted by what helps.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// A failed call: its kind decides what happens next, its message is for people.
///
/// The message is the provider's own, as far as it is safe to show: it ends up in conditions and events. It never carries
/// credentials, tokens, user data or signed addresses. The request id is kept apart from it, because an id that is new with
/// every call would make a condition change with every call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    /// The cloud's id of the failed request, for its support and for our log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// Something the spec names (image, subnet, template, network) does not exist. It may yet be made, so it is retried.
    NotFound,
    /// The cloud, or the provider itself, refuses the spec and always will. Creation fails for good.
    InvalidSpec,
    /// The cloud has no such machine to give just now.
    NoCapacity,
    /// The account may not have more.
    Quota,
    /// Too many calls. The cloud may say when to come back.
    Throttled { retry_after: Option<SignedDuration> },
    /// The credentials are missing, wrong or expired, or lack a right.
    Credentials,
    /// The cloud did not answer, or answered that it cannot just now.
    Unreachable,
    /// Anything else. Retried with growing pauses.
    Other,
}

/// A cloud that asks for more than this is not believed: a header with a few digits too many would stop a Machine for years.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), request_id: None }
    }

    /// Adds the cloud's id of the failed request.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// Whether repeating the same call can never succeed.
    pub fn is_final(&self) -> bool {
        self.kind == ErrorKind::InvalidSpec
    }

    /// When the cloud asked us to come back, within reason.
    pub fn retry_after(&self) -> Option<SignedDuration> {
        match self.kind {
            ErrorKind::Throttled { retry_after } => retry_after.map(|delay| delay.clamp(SignedDuration::ZERO, LONGEST)),
            ErrorKind::NotFound
            | ErrorKind::InvalidSpec
            | ErrorKind::NoCapacity
            | ErrorKind::Quota
            | ErrorKind::Credentials
            | ErrorKind::Unreachable
            | ErrorKind::Other => None,
        }
    }
}

/// One word, used as the reason of conditions and events and as a metric label.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "NotFound",
            Self::InvalidSpec => "InvalidSpec",
            Self::NoCapacity => "NoCapacity",
            Self::Quota => "Quota",
            Self::Throttled { .. } => "Throttled",
            Self::Credentials => "Credentials",
            Self::Unreachable => "Unreachable",
            Self::Other => "Other",
        })
    }
}
