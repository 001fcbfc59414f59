//! Writes answers: text with colours only where a terminal reads it, JSON or YAML for programs.

use std::io::Write as _;

use anyhow::Context as _;
use clap::ValueEnum;
use owo_colors::OwoColorize as _;
use serde_json::Value;

/// How programs want an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

impl Format {
    /// One value as a whole document.
    pub(crate) fn write_one(self, value: &Value) -> anyhow::Result<String> {
        match self {
            Format::Json => Ok(serde_json::to_string_pretty(value)? + "\n"),
            Format::Yaml => serde_saphyr::to_string(value).context("cannot write YAML"),
        }
    }

    /// Several objects: YAML documents, or a `List` in JSON; one object stands alone in both.
    pub(crate) fn write_all(self, values: &[Value]) -> anyhow::Result<String> {
        match (self, values) {
            (_, [value]) => self.write_one(value),
            (Format::Json, values) => {
                self.write_one(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": values}))
            }
            (Format::Yaml, values) => {
                let documents: Result<Vec<_>, _> = values.iter().map(|value| self.write_one(value)).collect();
                Ok(documents?.join("---\n"))
            }
        }
    }
}

/// Prints an answer at once. A reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints warnings to standard error, each once.
pub(crate) fn warn<'a>(warnings: impl Iterator<Item = &'a String>) {
    let mut told = std::collections::BTreeSet::new();
    for warning in warnings {
        if told.insert(warning) {
            anstream::eprintln!("{} {warning}", "warning:".yellow());
        }
    }
}

/// Prints what failed, with its causes, in one line.
pub(crate) fn fail(error: &anyhow::Error) {
    anstream::eprintln!("{} {error:#}", "error:".red());
}
