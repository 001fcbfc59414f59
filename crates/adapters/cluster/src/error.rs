//! What kind of trouble an answer of the API is, so that callers decide by kind and not by number.

use kube::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The object, or for a whole collection its kind, does not exist.
    NotFound,
    /// Somebody wrote in between, or the object exists already: look again.
    Conflict,
    /// Refused by the server's load shedding or by a disruption budget: wait, then try again.
    TooManyRequests,
    /// Not allowed to this identity: only an administrator can help.
    Forbidden,
    /// The content is refused and will be refused again.
    Invalid,
    /// The server cannot be reached, is starting, or failed inside: try again.
    Unreachable,
}

impl Problem {
    /// Whether the same request can succeed later without anybody changing it.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Conflict | Self::TooManyRequests | Self::Unreachable)
    }
}

/// The kind of trouble behind an error of the client.
pub fn problem(error: &Error) -> Problem {
    let Error::Api(status) = error else {
        return Problem::Unreachable;
    };
    match status.code {
        404 | 410 => Problem::NotFound,
        409 => Problem::Conflict,
        429 => Problem::TooManyRequests,
        401 | 403 => Problem::Forbidden,
        400 | 405 | 406 | 413 | 415 | 422 => Problem::Invalid,
        _ => Problem::Unreachable,
    }
}

/// `Ok(None)` for an object that does not exist.
pub fn if_found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if problem(&error) == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error and its causes in one line, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
