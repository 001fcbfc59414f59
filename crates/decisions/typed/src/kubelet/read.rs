//! Reads a KubeletConfiguration that a user wrote: every field must exist and have the right type.
//!
//! What comes out has durations and quantities in canonical form and no nulls, so that equal settings are equal bytes.

use serde_json::{Map, Value};

use super::Error;
use super::fields::{self, Field, Kind};
use crate::duration;
use crate::quantity::Quantity;

/// Where the configuration stands in a KubeletConfig.
const ROOT: &str = "spec.kubeletConfig";

/// The fields of a configuration. `null` is an empty one.
pub(super) fn configuration(raw: &Value) -> Result<Map<String, Value>, Error> {
    match value(raw, Kind::Object(fields::CONFIGURATION), ROOT)? {
        Some(Value::Object(members)) => Ok(members),
        Some(_) | None => Ok(Map::new()),
    }
}

/// The fields of the cluster's own configuration, in the same canonical form. A field we do not know stays as it is: it
/// was not written by a user, and the kubelet it is for may be newer than we are.
pub fn base(raw: &Map<String, Value>) -> Map<String, Value> {
    let canonical = |(name, raw): (&String, &Value)| {
        let known = fields::find(fields::CONFIGURATION, name);
        let read = known.and_then(|field| value(raw, field.kind, name).ok()).unwrap_or_else(|| Some(raw.clone()));
        read.map(|value| (name.clone(), value))
    };
    raw.iter().filter_map(canonical).collect()
}

/// The canonical form of a value of this kind; `None` for null.
fn value(raw: &Value, kind: Kind, path: &str) -> Result<Option<Value>, Error> {
    let refuse = |expected, example| Err(Error::Type { path: path.to_owned(), expected, example, found: shown(raw) });
    let value = match (kind, raw) {
        (_, Value::Null) => return Ok(None),
        (Kind::Bool, Value::Bool(_)) | (Kind::Float, Value::Number(_)) | (Kind::Text, Value::String(_)) => raw.clone(),
        (Kind::Bool, _) => return refuse("true or false", "true"),
        (Kind::Float, _) => return refuse("a number", "0.9"),
        (Kind::Text, _) => return refuse("a text", "\"none\""),
        (Kind::Int(least, most), Value::Number(number)) => match number.as_i64() {
            Some(number) if (least..=most).contains(&number) => raw.clone(),
            _ => return refuse("a whole number that fits", "250"),
        },
        (Kind::Int(..), _) => return refuse("a whole number", "250"),
        (Kind::Duration, Value::String(text)) => match duration::parse(text) {
            Some(nanoseconds) => Value::String(duration::write(nanoseconds)),
            None => return refuse("a duration", "\"1m30s\""),
        },
        (Kind::Duration, _) => return refuse("a duration in quotes", "\"1m30s\""),
        (Kind::DurationOrNumber, Value::Number(number)) if number.is_i64() => raw.clone(),
        (Kind::DurationOrNumber, _) => return value(raw, Kind::Duration, path),
        (Kind::Quantity, _) => match Quantity::read(raw) {
            Some(quantity) => Value::String(quantity.as_str().to_owned()),
            None => return refuse("a quantity", "\"512Mi\""),
        },
        (Kind::TextList, Value::Array(items)) => list(items, Kind::Text, path)?,
        (Kind::TextList, _) => return refuse("a list of texts", "[\"pods\"]"),
        (Kind::IntList, Value::Array(items)) => list(items, Kind::Int(i32::MIN.into(), i32::MAX.into()), path)?,
        (Kind::IntList, _) => return refuse("a list of numbers", "[29]"),
        (Kind::TextMap, Value::Object(members)) => map(members, Kind::Text, path)?,
        (Kind::TextMap, _) => return refuse("a map of texts", "{\"memory.available\": \"200Mi\"}"),
        (Kind::BoolMap, Value::Object(members)) => map(members, Kind::Bool, path)?,
        (Kind::BoolMap, _) => return refuse("a map of true and false", "{\"SomeGate\": true}"),
        (Kind::QuantityMap, Value::Object(members)) => map(members, Kind::Quantity, path)?,
        (Kind::QuantityMap, _) => return refuse("a map of quantities", "{\"memory\": \"1Gi\"}"),
        (Kind::TextListMap, Value::Object(members)) => map(members, Kind::TextList, path)?,
        (Kind::TextListMap, _) => return refuse("a map of lists", "{\"Accept\": [\"text/plain\"]}"),
        (Kind::Object(fields), Value::Object(members)) => object(members, fields, path)?,
        (Kind::Object(_), _) => return refuse("an object", "{\"maxPods\": 250}"),
        (Kind::Objects(fields), Value::Array(items)) => list(items, Kind::Object(fields), path)?,
        (Kind::Objects(_), _) => return refuse("a list of objects", "[{}]"),
    };
    Ok(Some(value))
}

fn list(items: &[Value], kind: Kind, path: &str) -> Result<Value, Error> {
    let mut read = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        read.extend(value(item, kind, &format!("{path}[{index}]"))?);
    }
    Ok(Value::Array(read))
}

fn map(members: &Map<String, Value>, kind: Kind, path: &str) -> Result<Value, Error> {
    let mut read = Map::new();
    for (key, member) in members {
        if let Some(member) = value(member, kind, &format!("{path}[{key}]"))? {
            read.insert(key.clone(), member);
        }
    }
    Ok(Value::Object(read))
}

fn object(members: &Map<String, Value>, fields: &'static [Field], path: &str) -> Result<Value, Error> {
    let mut read = Map::new();
    for (name, member) in members {
        let path = format!("{path}.{name}");
        let Some(field) = fields::find(fields, name) else {
            return Err(Error::UnknownField { path, hint: hint(fields, name) });
        };
        if let Some(member) = value(member, field.kind, &path)? {
            read.insert(name.clone(), member);
        }
    }
    Ok(Value::Object(read))
}

/// The known field that a misspelt one is nearest to, if one is near.
fn hint(fields: &'static [Field], name: &str) -> String {
    let near = fields.iter().map(|field| (distance(field.name, name), field.name)).min();
    match near {
        Some((distance, near)) if distance <= 2 || near.eq_ignore_ascii_case(name) => {
            format!(" (did you mean {near}?)")
        }
        Some(_) | None => String::new(),
    }
}

/// How many letters have to be changed, added or taken away to turn one name into the other, whatever their case.
pub(super) fn distance(one: &str, other: &str) -> usize {
    let other: Vec<u8> = other.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.bytes().map(|byte| byte.to_ascii_lowercase()).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, theirs) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *theirs);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// A value as it is shown in a refusal; long ones are cut.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(raw: Value, expected: Expect) {
        let answer = configuration(&raw).map(Value::Object);
        expected.assert_eq(&answer.map_or_else(|error| error.to_string(), |value| value.to_string()));
    }

    #[test]
    fn durations_and_quantities_become_canonical() {
        check(
            json!({"syncFrequency": "90s", "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1024Mi"}}]}),
            expect![[r#"{"reservedMemory":[{"limits":{"memory":"1Gi"},"numaNode":0}],"syncFrequency":"1m30s"}"#]],
        );
        check(json!({"maxPods": null}), expect!["{}"]);
    }

    #[test]
    fn a_wrong_type_is_refused_with_path_and_example() {
        check(
            json!({"maxPods": "many"}),
            expect![[
                r#"KubeletConfig could not be unmarshalled: spec.kubeletConfig.maxPods must be a whole number, for example 250, but contains: "many""#
            ]],
        );
        check(
            json!({"maxPods": 2_147_483_648_i64}),
            expect![
                "KubeletConfig could not be unmarshalled: spec.kubeletConfig.maxPods must be a whole number that fits, for example 250, but contains: 2147483648"
            ],
        );
        check(
            json!({"registerWithTaints": [{"key": 3}]}),
            expect![[
                r#"KubeletConfig could not be unmarshalled: spec.kubeletConfig.registerWithTaints[0].key must be a text, for example "none", but contains: 3"#
            ]],
        );
        check(
            json!({"evictionHard": {"memory.available": 5}}),
            expect![[
                r#"KubeletConfig could not be unmarshalled: spec.kubeletConfig.evictionHard[memory.available] must be a text, for example "none", but contains: 5"#
            ]],
        );
        check(
            json!({"nodeStatusUpdateFrequency": "soon"}),
            expect![[
                r#"KubeletConfig could not be unmarshalled: spec.kubeletConfig.nodeStatusUpdateFrequency must be a duration, for example "1m30s", but contains: "soon""#
            ]],
        );
        check(
            json!("just text"),
            expect![[
                r#"KubeletConfig could not be unmarshalled: spec.kubeletConfig must be an object, for example {"maxPods": 250}, but contains: "just text""#
            ]],
        );
    }

    #[test]
    fn a_misspelt_field_is_refused_and_the_right_one_named() {
        check(
            json!({"maxpods": 3}),
            expect![
                "KubeletConfig could not be unmarshalled: spec.kubeletConfig.maxpods is not a field of KubeletConfiguration (did you mean maxPods?)"
            ],
        );
        check(
            json!({"authentication": {"anonymos": {}}}),
            expect![
                "KubeletConfig could not be unmarshalled: spec.kubeletConfig.authentication.anonymos is not a field of KubeletConfiguration (did you mean anonymous?)"
            ],
        );
        check(
            json!({"nosuchfield": "typo"}),
            expect![
                "KubeletConfig could not be unmarshalled: spec.kubeletConfig.nosuchfield is not a field of KubeletConfiguration"
            ],
        );
    }
}
