//! Findings in a config: one [`Problem`] each, collected in one [`Error`].

use std::fmt;

/// One finding: its JSON path inside the config, what is wrong, and what would be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path inside the Ignition config, as in `storage.files[0].mode`; empty for the config itself.
    pub path: String,
    pub message: String,
    /// The allowed values, if they can be described in a few words.
    pub allowed: Option<String>,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), allowed: None }
    }

    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.allowed {
            Some(allowed) => write!(f, " (allowed: {allowed})"),
            None => Ok(()),
        }
    }
}

/// Every problem of one config, in the order of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub problems: Vec<Problem>,
}

impl Error {
    pub(crate) fn one(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// A config with a million bad entries must not produce a million messages.
const PROBLEMS: usize = 50;

/// Collects findings while a config is parsed and validated.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// Sources and unit texts were validated before; only check how the parts fit together.
    pub(crate) contents_are_known: bool,
}

impl Report {
    pub(crate) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS {
            self.problems.push(problem);
        }
    }

    pub(crate) fn warning(&mut self, problem: Problem) {
        if self.warnings.len() < PROBLEMS {
            self.warnings.push(problem);
        }
    }

    /// Returns an error if there are problems so far; keeps the warnings.
    pub(crate) fn stop_on_problems(&mut self) -> Result<(), Error> {
        if self.problems.is_empty() { Ok(()) } else { Err(Error { problems: std::mem::take(&mut self.problems) }) }
    }

    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.problems.is_empty() { Ok(()) } else { Err(Error { problems: self.problems }) }
    }
}
