//! What a daemon asks of the drain controller: `drain-<config>` before it disrupts its node, `uncordon-<config>` afterwards.
//!
//! The daemon writes its request to `desiredDrain`; the drain controller copies it to `lastAppliedDrain` once it is carried
//! out. The config's name makes each request distinct, so that an old answer is never taken for a new one.

use std::fmt;

use crate::ConfigName;

const DRAIN: &str = "drain-";
const UNCORDON: &str = "uncordon-";

/// A request to the drain controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainRequest {
    /// Empty the node: it is about to be changed to this config.
    Drain(ConfigName),
    /// Let pods return: the node runs this config.
    Uncordon(ConfigName),
    /// A request that no known daemon writes. It is carried along unchanged and asks for nothing.
    Other(String),
}

impl DrainRequest {
    /// Reads the annotation's value. An empty one asks for nothing.
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
    fn every_request_survives_being_read_and_written() {
        for text in ["drain-rendered-worker-1", "uncordon-rendered-worker-1", "drain-", "uncordon", "nonsense"] {
            assert_eq!(DrainRequest::parse(text).map(|request| request.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn an_empty_annotation_asks_for_nothing() {
        assert_eq!(DrainRequest::parse(""), None);
    }

    #[test]
    fn a_word_that_only_begins_alike_is_neither() {
        assert_eq!(DrainRequest::parse("drained"), Some(DrainRequest::Other("drained".into())));
    }
}
