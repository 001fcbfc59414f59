//! Patches: JSON patch, merge patch and strategic merge patch. Server-side apply is `managed`'s subject.

mod strategic;

pub use strategic::strategic;

use serde_json::Value;

/// Longer JSON patches are refused.
const MAX_OPERATIONS: usize = 10_000;

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

/// Applies a JSON patch (RFC 6902).
///
/// # Errors
/// The text is no JSON patch, is too long, or names places the object does not have.
pub fn json(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let value: Value = serde_json::from_slice(patch)
        .map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))?;
    let Value::Array(operations) = value else {
        let kind = match value {
            Value::Object(_) => "object",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::Null | Value::Array(_) => return Ok(object.clone()),
        };
        let text =
            format!("error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp");
        return Err(PatchError::BadRequest(text));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = object.clone();
    for operation in operations {
        let operation = lenient(&patched, operation);
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(vec![operation]))
            .map_err(|error| PatchError::Unprocessable(error.to_string()))?;
        json_patch::patch(&mut patched, &patch).map_err(|error| PatchError::Unprocessable(error.to_string()))?;
    }
    Ok(patched)
}

/// The real server's patches ask less of the fields of an object that is there: replacing one that is not there adds it.
fn lenient(object: &Value, mut operation: Value) -> Value {
    let path = operation["path"].as_str().unwrap_or_default().to_owned();
    let parent = path.rsplit_once('/').and_then(|(parent, _)| object.pointer(parent));
    if operation["op"] == "replace" && object.pointer(&path).is_none() && parent.is_some_and(Value::is_object) {
        operation["op"] = "add".into();
    }
    operation
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
    fn a_json_patch_changes_what_it_names() {
        let object = json!({"a": {"b": 1}, "l": [1, 2]});
        let patch = br#"[{"op":"test","path":"/a/b","value":1},{"op":"replace","path":"/a/b","value":2},{"op":"add","path":"/l/-","value":3},{"op":"remove","path":"/l/0"}]"#;
        assert_eq!(json(&object, patch), Ok(json!({"a": {"b": 2}, "l": [2, 3]})));
    }

    #[test]
    fn a_json_patch_that_does_not_fit_is_refused_whole() {
        let object = json!({"a": 1});
        assert!(matches!(json(&object, b"nope"), Err(PatchError::BadRequest(_))));
        assert!(matches!(json(&object, b"{}"), Err(PatchError::BadRequest(_))));
        for patch in [
            r#"[{"op":"remove","path":"/b"}]"#,
            r#"[{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"add","path":"/b/c","value":2}]"#,
            r#"[{"op":"explode","path":"/a"}]"#,
        ] {
            assert!(matches!(json(&object, patch.as_bytes()), Err(PatchError::Unprocessable(_))), "{patch}");
        }
    }

    #[test]
    fn a_merge_patch_replaces_lists_and_removes_nulls() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        let patched = merge(&object, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3]}));
        assert_eq!(patched, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3]}));
    }
}
