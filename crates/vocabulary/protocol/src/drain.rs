//! Requests of a daemon to the drain controller: `drain-<config>` before it disrupts its node, `uncordon-<config>`
//! afterwards.
//!
//! The daemon writes its request to `desiredDrain`; the drain controller copies it to `lastAppliedDrain` once it is
//! done. The name of the config makes each request distinct, so that an old response is never mistaken for a new one.

use std::fmt;

use crate::ConfigName;

const DRAIN: &str = "drain-";
const UNCORDON: &str = "uncordon-";

/// A request to the drain controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainRequest {
    /// Drain the node, because it is about to change to this config.
    Drain(ConfigName),
    /// Uncordon the node, because it runs this config.
    Uncordon(ConfigName),
    /// A request that no known daemon writes. It is kept unchanged and has no effect.
    Other(String),
}

impl DrainRequest {
    /// Parses the annotation's value. An empty value is no request.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let request = match (text.strip_prefix(DRAIN), text.strip_prefix(UNCORDON)) {
            (Some(config), _) => Self::Drain(config.into()),
            (_, Some(config)) => Self::Uncordon(config.into()),
            (None, None) => Self::Other(text.to_owned()),
        };
        Some(request)
    }

    pub fn is_drain(&self) -> bool {
        matches!(self, Self::Drain(_))
    }

    pub fn is_uncordon(&self) -> bool {
        matches!(self, Self::Uncordon(_))
    }
}

impl fmt::Display for DrainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain(config) => write!(f, "{DRAIN}{config}"),
            Self::Uncordon(config) => write!(f, "{UNCORDON}{config}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_survives_parsing_and_writing() {
        for text in ["drain-rendered-worker-1", "uncordon-rendered-worker-1", "drain-", "uncordon", "nonsense"] {
            assert_eq!(DrainRequest::parse(text).map(|request| request.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn an_empty_annotation_is_no_request() {
        assert_eq!(DrainRequest::parse(""), None);
    }

    #[test]
    fn a_value_with_a_similar_prefix_is_neither() {
        assert_eq!(DrainRequest::parse("drained"), Some(DrainRequest::Other("drained".into())));
    }
}
