//! Patches: JSON patch, merge patch and strategic merge patch. Server-side apply is `managed`'s subject.

mod json;
mod shown;
mod strategic;

pub use json::json;
pub(crate) use json::{Operated, operate};
pub use shown::{left, shown, touched};
pub use strategic::strategic;

use serde_json::Value;

/// Why a patch did not apply, by the answer it gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch itself is not one.
    #[error("{0}")]
    BadRequest(String),
    /// 413: too many operations.
    #[error("{0}")]
    TooLarge(String),
    /// 422: it does not fit the object. The server's message is always the same; the text says what did not fit.
    #[error("{0}")]
    Unprocessable(String),
    /// 500 without a reason, as the real server answers what it did not expect.
    #[error("{0}")]
    Internal(String),
}

/// Applies a merge patch (RFC 7386).
#[must_use]
pub fn merge(object: &Value, patch: &Value) -> Value {
    let mut merged = object.clone();
    json_patch::merge(&mut merged, patch);
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_replaces_lists_and_removes_nulls() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        let patched = merge(&object, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3]}));
        assert_eq!(patched, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3]}));
    }
}
