//! Classifies errors of the API, so that callers match on a kind and not on a status code.

use kube::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The object does not exist or, for a collection, its kind.
    NotFound,
    /// The object was changed in between, or it already exists: read it again.
    Conflict,
    /// Refused by the server's load shedding or by a disruption budget: retry later.
    TooManyRequests,
    /// This identity has no permission; only an administrator can fix that.
    Forbidden,
    /// The content is invalid, and a retry would be refused again.
    Invalid,
    /// The server cannot be reached, is starting, or had an internal error: retry.
    Unreachable,
}

/// Returns the kind of a client error.
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

/// Turns the error for an object that does not exist into `Ok(None)`.
pub fn if_found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if problem(&error) == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Formats the error and its causes in one line without repetitions.
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
