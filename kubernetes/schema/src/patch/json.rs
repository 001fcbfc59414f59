//! JSON patch (RFC 6902) as the real server's library does it, which asks less than the standard.
//!
//! A field that is not there counts as null: it can be replaced, copied and tested, but neither moved nor removed.
//! Positions in lists may be counted from the end.

use serde_json::{Map, Value};

use super::PatchError;

/// Longer patches are refused.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch.
///
/// # Errors
/// The text is no JSON patch, is too long, or names places the object does not have.
pub fn json(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let undecoded = |text: String| PatchError::BadRequest(format!("error decoding patch: {text}"));
    let value: Value = serde_json::from_slice(patch).map_err(|error| undecoded(error.to_string()))?;
    let operations = match value {
        Value::Array(operations) => operations,
        Value::Null => return Ok(object.clone()),
        other => {
            let found = kind(&other);
            let text = format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp");
            return Err(undecoded(text));
        }
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(PatchError::TooLarge(text));
    }
    let mut patched = object.clone();
    for operation in operations {
        let operation = match operation {
            Value::Object(operation) => operation,
            Value::Null => Map::new(),
            other => {
                let found = kind(&other);
                let text = format!("json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp");
                return Err(undecoded(text));
            }
        };
        operate(&mut patched, &operation)
            .map_err(|(Operated::TestFailed(why) | Operated::Unfit(why))| PatchError::Unprocessable(why))?;
    }
    Ok(patched)
}

/// Why an operation could not be carried out.
pub(crate) enum Operated {
    TestFailed(String),
    Unfit(String),
}

impl From<String> for Operated {
    fn from(why: String) -> Operated {
        Operated::Unfit(why)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

/// Carries out one operation.
pub(crate) fn operate(object: &mut Value, operation: &Map<String, Value>) -> Result<(), Operated> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str);
    let name = text("op").unwrap_or("unknown");
    let missing = |what: &str| format!("{name} operation failed to decode {what}: missing value");
    let value = || operation.get("value").cloned().unwrap_or_default();
    match name {
        "add" | "remove" => {
            let path = text("path").ok_or_else(|| missing("path"))?;
            let (container, key) = find(object, path).ok_or_else(|| {
                format!("{name} operation does not apply: doc is missing path: \"{path}\": missing value")
            })?;
            let done = if name == "add" { add(container, &key, value()) } else { remove(container, &key) };
            Ok(done.map_err(|error| format!("error in {name} for path: '{path}': {error}"))?)
        }
        "replace" => {
            let path = text("path").ok_or_else(|| missing("path"))?;
            if path.is_empty() {
                return match value() {
                    whole @ (Value::Object(_) | Value::Array(_)) => {
                        *object = whole;
                        Ok(())
                    }
                    _ => Err("replace operation value must be object or array: %!w(<nil>)".to_owned().into()),
                };
            }
            let (container, key) = find(object, path).ok_or_else(|| {
                format!("replace operation does not apply: doc is missing path: {path}: missing value")
            })?;
            get(container, &key)
                .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: missing value"))?;
            replace(container, &key, value());
            Ok(())
        }
        "test" => {
            let path = text("path").ok_or_else(|| missing("path"))?;
            let failed = || Operated::TestFailed(format!("testing value {path} failed: test failed"));
            if path.is_empty() {
                return if *object == value() { Ok(()) } else { Err(failed()) };
            }
            let (container, key) = find(object, path)
                .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: missing value"))?;
            let found = get(container, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
            if found == value() { Ok(()) } else { Err(failed()) }
        }
        "move" | "copy" => {
            let from = text("from").ok_or_else(|| missing("from: operation, missing from field"))?;
            let (container, key) = find(object, from).ok_or_else(|| {
                format!("{name} operation does not apply: doc is missing from path: {from}: missing value")
            })?;
            let value = match name {
                "move" => {
                    let failed = |error: String| format!("error in move for path: '{key}': {error}");
                    let value = get(container, &key).map_err(failed)?;
                    remove(container, &key).map_err(failed)?;
                    value
                }
                _ => get(container, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?,
            };
            let path = text("path").ok_or_else(|| missing("path"))?;
            let (container, key) = find(object, path).ok_or_else(|| {
                format!("{name} operation does not apply: doc is missing destination path: {path}: missing value")
            })?;
            Ok(add(container, &key, value).map_err(|error| match name {
                "move" => format!("error in move for path: '{path}': {error}"),
                _ => format!("error while adding value during copy: {error}"),
            })?)
        }
        other => Err(format!("Unexpected kind: {other}").into()),
    }
}

/// The list or object around the place, and the key of the place in it.
fn find<'v>(object: &'v mut Value, path: &str) -> Option<(&'v mut Value, String)> {
    let (_, rest) = path.split_once('/')?;
    let mut steps: Vec<String> = rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let last = steps.pop()?;
    let mut container = object;
    for step in steps {
        container = match container {
            Value::Object(map) => map.get_mut(&step)?,
            Value::Array(list) => {
                let at = position(&step, list.len()).ok()?;
                list.get_mut(at)?
            }
            _ => return None,
        };
    }
    matches!(container, Value::Object(_) | Value::Array(_)).then_some((container, last))
}

/// The value at a key; null for a field that is not there.
fn get(container: &Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(list) => {
            let at = position(key, list.len())?;
            list.get(at).cloned().ok_or_else(|| no_index(key))
        }
        other => Ok(other.get(key).cloned().unwrap_or_default()),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let wrong = |error: String| match key.parse::<i64>() {
                Ok(_) => error,
                Err(_) => format!("value was not a proper array index: '{key}': {error}"),
            };
            let at = position(key, list.len() + 1).map_err(wrong)?;
            if at > list.len() {
                return Err(no_index(key));
            }
            list.insert(at, value);
        }
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        _ => {}
    }
    Ok(())
}

fn replace(container: &mut Value, key: &str, value: Value) {
    match container {
        Value::Array(list) => {
            let place = position(key, list.len()).ok().and_then(|at| list.get_mut(at));
            if let Some(place) = place {
                *place = value;
            }
        }
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        _ => {}
    }
}

fn remove(container: &mut Value, key: &str) -> Result<(), String> {
    match container {
        Value::Array(list) => {
            let at = position(key, list.len())?;
            if at >= list.len() {
                return Err(no_index(key));
            }
            list.remove(at);
            Ok(())
        }
        Value::Object(map) => match map.remove(key) {
            Some(_) => Ok(()),
            None => Err(format!("Unable to remove nonexistent key: {key}: missing value")),
        },
        _ => Ok(()),
    }
}

/// A position in a list of so many places; it may still lie behind its end.
fn position(key: &str, places: usize) -> Result<usize, String> {
    let at: i64 = key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", crate::go_quote(key)))?;
    match usize::try_from(at) {
        Ok(at) => Ok(at),
        Err(_) => {
            let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
            places.checked_sub(back).ok_or_else(|| no_index(key))
        }
    }
}

fn no_index(key: &str) -> String {
    format!("Unable to access invalid index: {}: invalid index referenced", key.trim_start_matches('+'))
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
        let patch = br#"[{"op":"copy","from":"/a/b","path":"/c~1d"},{"op":"move","from":"/l/0","path":"/l/-1"},{"op":"replace","path":"/a/new","value":[]}]"#;
        assert_eq!(json(&object, patch), Ok(json!({"a": {"b": 1, "new": []}, "c/d": 1, "l": [2, 1]})));
    }

    #[test]
    fn a_field_that_is_not_there_can_be_copied_but_not_moved() {
        let object = json!({"a": {}});
        let copied =
            json(&object, br#"[{"op":"copy","from":"/a/x","path":"/a/y"},{"op":"test","path":"/a/z","value":null}]"#);
        assert_eq!(copied, Ok(json!({"a": {"y": null}})));
        let refusal = |patch: &str| match json(&object, patch.as_bytes()) {
            Err(PatchError::Unprocessable(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refusal(r#"[{"op":"move","from":"/a/x","path":"/a/y"}]"#),
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value"
        );
        assert_eq!(
            refusal(r#"[{"op":"copy","from":"/b/x","path":"/a/y"}]"#),
            "copy operation does not apply: doc is missing from path: /b/x: missing value"
        );
        assert_eq!(
            refusal(r#"[{"op":"add","path":"/b/x","value":1}]"#),
            "add operation does not apply: doc is missing path: \"/b/x\": missing value"
        );
    }

    #[test]
    fn a_json_patch_that_does_not_fit_is_refused_whole() {
        let object = json!({"a": 1, "l": []});
        assert!(matches!(json(&object, b"nope"), Err(PatchError::BadRequest(_))));
        assert!(matches!(json(&object, b"{}"), Err(PatchError::BadRequest(_))));
        assert!(matches!(json(&object, b"[1]"), Err(PatchError::BadRequest(_))));
        for patch in [
            r#"[{"op":"remove","path":"/b"}]"#,
            r#"[{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"add","path":"/b/c","value":2}]"#,
            r#"[{"op":"add","path":"/l/1","value":2}]"#,
            r#"[{"op":"remove","path":"/l/-1"}]"#,
            r#"[{"op":"explode","path":"/a"}]"#,
            r#"[{"op":"add"}]"#,
        ] {
            assert!(matches!(json(&object, patch.as_bytes()), Err(PatchError::Unprocessable(_))), "{patch}");
        }
    }
}
