//! Equality of vector outputs, for judges to build on.

use serde_json::{Map, Value};

/// Returns why two values differ. Missing, `null` and `{}` are equal, lists are ordered, floats may differ by 1e-9.
pub(crate) fn difference(expected: &Value, ours: &Value) -> Option<String> {
    first_difference(&without_empty(expected), &without_empty(ours), "$")
}

/// Like [`difference`] for Kubernetes objects, where `""`, `0`, `false` and `[]` count as missing too.
#[allow(dead_code, reason = "for the judges of Kubernetes objects")]
pub(crate) fn object_difference(expected: &Value, ours: &Value) -> Option<String> {
    first_difference(&without_zero(expected), &without_zero(ours), "$")
}

/// Returns the value without `null` and `{}` fields, at any depth.
pub(crate) fn without_empty(value: &Value) -> Value {
    without(value, &|value| matches!(value, Value::Null) || value.as_object().is_some_and(Map::is_empty))
}

/// Returns the value without fields that hold Go's zero values, at any depth.
pub(crate) fn without_zero(value: &Value) -> Value {
    without(value, &|value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    })
}

fn without(value: &Value, empty: &dyn Fn(&Value) -> bool) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), without(value, empty)));
            Value::Object(members.filter(|(_, value)| !empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| without(item, empty)).collect()),
        other => other.clone(),
    }
}

/// Sorts a list that is a set.
#[allow(dead_code, reason = "for the judges of sets")]
pub(crate) fn as_set(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let mut items = items.clone();
    items.sort_by_key(ToString::to_string);
    Value::Array(items)
}

/// Returns where two values first differ, and how.
pub(crate) fn first_difference(expected: &Value, ours: &Value, at: &str) -> Option<String> {
    match (expected, ours) {
        (Value::Object(expected), Value::Object(ours)) => {
            let keys: std::collections::BTreeSet<&String> = expected.keys().chain(ours.keys()).collect();
            keys.into_iter().find_map(|key| {
                let [expected, ours] = [expected, ours].map(|members| members.get(key).unwrap_or(&Value::Null));
                first_difference(expected, ours, &format!("{at}.{key}"))
            })
        }
        (Value::Array(expected), Value::Array(ours)) if expected.len() == ours.len() => {
            let mut pairs = expected.iter().zip(ours).enumerate();
            pairs.find_map(|(index, (expected, ours))| first_difference(expected, ours, &format!("{at}[{index}]")))
        }
        (Value::Number(expected), Value::Number(ours)) if close(expected.as_f64(), ours.as_f64()) => None,
        _ if expected == ours => None,
        _ => Some(format!("{at}: expected {}, ours {}", short(expected), short(ours))),
    }
}

fn close(expected: Option<f64>, ours: Option<f64>) -> bool {
    expected.zip(ours).is_some_and(|(expected, ours)| (expected - ours).abs() <= 1e-9)
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the parts of upstream's error of which ours must contain one: the message without its prefixes, or anything
/// it quotes.
pub(crate) fn phrases(error: &str) -> Vec<String> {
    let error = error.trim();
    let mut phrases = vec![error.to_owned()];
    phrases.extend(error.rsplit(": ").next().map(str::to_owned));
    phrases.extend(error.split('"').skip(1).step_by(2).filter(|quoted| !quoted.is_empty()).map(str::to_owned));
    phrases.dedup();
    phrases
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_null_and_empty_are_equal() {
        assert_eq!(difference(&json!({"a": {"b": {}}, "c": null}), &json!({})), None);
        assert!(difference(&json!({"a": []}), &json!({})).is_some());
        assert_eq!(object_difference(&json!({"a": [], "b": "", "c": 0, "d": false}), &json!({})), None);
    }

    #[test]
    fn a_difference_names_its_place() {
        let found = difference(&json!({"a": [1, {"b": "x"}]}), &json!({"a": [1, {"b": "y"}]}));
        assert_eq!(found.as_deref(), Some("$.a[1].b: expected \"x\", ours \"y\""));
        assert_eq!(difference(&json!(1.0), &json!(1)), None);
    }

    #[test]
    fn sets_have_no_order() {
        assert_eq!(as_set(&json!(["b", "a"])), as_set(&json!(["a", "b"])));
    }
}
