//! Why a pool could not be rendered.

use std::fmt;

use crate::remote::Need;

/// One finding: the object, the field in it, what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub kind: &'static str,
    pub object: String,
    /// Path of the field in the object, as in `spec.config.storage.files[0].mode`.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub(crate) fn config(object: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: "MachineConfig", object: object.to_owned(), field: field.into(), message: message.into() }
    }

    pub(crate) fn pool(object: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: "MachineConfigPool", object: object.to_owned(), field: field.into(), message: message.into() }
    }

    /// A finding inside the Ignition config of a MachineConfig.
    pub(crate) fn ignition(object: &str, found: &ignition::Problem) -> Self {
        let field = match found.path.as_str() {
            "" => "spec.config".to_owned(),
            path => format!("spec.config.{path}"),
        };
        let message = match &found.allowed {
            Some(allowed) => format!("{} (allowed: {allowed})", found.message),
            None => found.message.clone(),
        };
        Self::config(object, field, message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}: {}", self.kind, self.object, self.field, self.message)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something is wrong with the fragments or the pool; every finding is listed.
    #[error("{}", join(.0))]
    Refused(Vec<Problem>),
    /// Nothing is wrong, but these contents have to be fetched first.
    #[error("remote content is needed: {}", .0.iter().map(|need| need.source.as_str()).collect::<Vec<_>>().join(", "))]
    Needs(Vec<Need>),
}

impl Error {
    pub(crate) fn refused(problem: Problem) -> Self {
        Error::Refused(vec![problem])
    }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// `Err` if anything was found.
pub(crate) fn refuse_if_any(problems: Vec<Problem>) -> Result<(), Error> {
    if problems.is_empty() { Ok(()) } else { Err(Error::Refused(problems)) }
}
