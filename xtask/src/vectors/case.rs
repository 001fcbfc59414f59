//! Reads vector files: one JSON object per line, plain or gzipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

/// An input and upstream's result.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) input: Value,
    #[serde(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Output(Value),
    Error(String),
}

pub(crate) fn load(path: &Path) -> anyhow::Result<Vec<Case>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let zipped = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> = if zipped { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let mut cases = Vec::new();
    for (number, line) in BufReader::new(reader).lines().enumerate() {
        let place = || format!("{}:{}", path.display(), number + 1);
        let line = line.with_context(place)?;
        if !line.trim().is_empty() {
            cases.push(serde_json::from_str(&line).with_context(place)?);
        }
    }
    Ok(cases)
}
