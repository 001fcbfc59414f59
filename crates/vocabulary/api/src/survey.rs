//! The request for a survey, as it stands in the annotation [`crate::annotations::SURVEY`] of a Node.

use serde::{Deserialize, Serialize};

/// Most paths of one request.
pub const MOST_PATHS: usize = 64;

/// Most bytes of the text of one file.
pub const LONGEST_FILE: usize = 64 * 1024;

/// Most bytes of all texts of one answer, so that the object stays far below what an API server takes.
pub const LONGEST_ANSWER: usize = 512 * 1024;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Repeated in the answer.
    pub id: String,
    pub paths: Vec<String>,
    /// Whether texts are asked for, and not only hashes.
    #[serde(default)]
    pub contents: bool,
}

impl Request {
    /// Reads the annotation. `None` when it is none that a daemon answers.
    pub fn parse(text: &str) -> Option<Self> {
        let request: Self = serde_json::from_str(text).ok()?;
        let is_id = |id: &str| !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_id(&request.id) && request.paths.len() <= MOST_PATHS).then_some(request)
    }
}
