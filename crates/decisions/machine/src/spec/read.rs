//! Reads the free-form `providerSpec.value` into a typed spec, and notes every field that the type does not have.
//!
//! Manifests that work with upstream must work here, so reading is as tolerant as Go's decoder: letters of keys may be of
//! either case, `null` is the same as leaving a field out, and a number or boolean is fine where text is expected. A value of
//! another kind is an error that names the field. Nothing is dropped: the value is kept as the user wrote it.

mod decoder;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::field::Path;
use crate::provider::Problem;

pub use decoder::Unknown;

/// A spec as it was written and as it was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<T> {
    pub spec: T,
    /// What the user wrote, with the keys of known fields in their usual letters.
    pub value: Value,
    /// Fields that the type does not have, outer ones first.
    pub unknown: Vec<Unknown>,
}

/// Reads a value; nothing at all is a problem, because no platform can make a machine from it.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<Read<T>, Problem> {
    let path = Path::spec().child("value");
    if value.is_null() {
        return Err(Problem::required(&path, "write the provider's settings here"));
    }
    if !value.is_object() {
        return Err(Problem::invalid(&path, value, format!("must be an object, found {}", decoder::kind(value))));
    }
    let decoder::Decoded { result, unknown, renamed } = decoder::decode(value, Path::spec());
    let spec = result
        .map_err(|decoder::Mismatch { at, found, detail }| Problem::invalid(&path, found, format!("{at}: {detail}")))?;
    let mut value = value.clone();
    for rename in renamed {
        rename.apply(&mut value);
    }
    Ok(Read { spec, value, unknown })
}

/// The user's value with the fields that defaulting changed, and with everything else as it was.
///
/// `before` and `after` are the spec as it was read and as it was defaulted.
pub fn overlay<T: Serialize>(value: &Value, before: &T, after: &T) -> serde_json::Result<Value> {
    let mut value = value.clone();
    lay(&mut value, &serde_json::to_value(before)?, &serde_json::to_value(after)?);
    Ok(value)
}

fn lay(target: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (target, before, after) {
        (Value::Object(target), Value::Object(before), Value::Object(after)) => {
            for (key, after) in after {
                let before = before.get(key).unwrap_or(&Value::Null);
                if before != after {
                    lay(target.entry(key.clone()).or_insert(Value::Null), before, after);
                }
            }
        }
        (Value::Array(target), Value::Array(before), Value::Array(after))
            if target.len() == after.len() && before.len() == after.len() =>
        {
            for (target, (before, after)) in target.iter_mut().zip(before.iter().zip(after)) {
                lay(target, before, after);
            }
        }
        (target, _, after) => *target = without_zero(after),
    }
}

/// A default as a person would write it: without fields that say nothing.
fn without_zero(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), without_zero(value)));
            Value::Object(members.filter(|(_, value)| !is_zero(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_zero).collect()),
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        instance_type: String,
        device_index: i64,
        public_ip: Option<bool>,
        disks: Vec<Disk>,
        labels: BTreeMap<String, String>,
        small: i32,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Disk {
        name: String,
        size: Option<i64>,
    }

    fn good(value: Value) -> Read<Spec> {
        read(&value).expect("the value is good")
    }

    #[track_caller]
    fn refused(value: Value, text: &str) {
        let error = read::<Spec>(&value).expect_err("the value is bad").to_string();
        assert_eq!(error, text);
    }

    #[test]
    fn unknown_fields_are_named_with_their_paths_and_kept() {
        let value = json!({"instanceTyp": "m5", "disks": [{"name": "a"}, {"nam": "b"}], "labels": {"any": "key"}});
        let read = good(value.clone());
        let unknown: Vec<_> = read.unknown.iter().map(|unknown| (unknown.path.as_str(), unknown.similar)).collect();
        let expected =
            [("providerSpec.instanceTyp", Some("instanceType")), ("providerSpec.disks[1].nam", Some("name"))];
        assert_eq!(unknown, expected);
        assert_eq!(read.value, value);
    }

    #[test]
    fn a_field_that_resembles_none_gets_no_suggestion() {
        let read = good(json!({"flavor": "large", "x": 1}));
        assert!(read.unknown.iter().all(|unknown| unknown.similar.is_none()), "{:?}", read.unknown);
    }

    #[test]
    fn letters_of_keys_may_be_of_either_case() {
        let read = good(json!({"InstanceType": "m5", "DISKS": [{"NAME": "a"}]}));
        assert_eq!(read.spec.instance_type, "m5");
        assert_eq!(read.spec.disks[0].name, "a");
        assert_eq!(read.value, json!({"instanceType": "m5", "disks": [{"name": "a"}]}));
        assert!(read.unknown.is_empty());
    }

    #[test]
    fn a_key_given_twice_in_different_letters_is_refused() {
        refused(
            json!({"Small": 1, "small": 2}),
            r#"providerSpec.value: Invalid value: 2: providerSpec.small: given more than once, in different letters"#,
        );
    }

    #[test]
    fn null_is_the_same_as_leaving_a_field_out() {
        let value = json!({"instanceType": null, "deviceIndex": null, "publicIp": null, "disks": null, "labels": null});
        assert_eq!(good(value).spec, Spec::default());
        assert_eq!(good(json!({"labels": {"a": null}, "disks": [null]})).spec.disks, [Disk::default()]);
    }

    #[test]
    fn numbers_and_booleans_are_text_where_text_is_expected() {
        let read = good(json!({"instanceType": 5, "labels": {"a": true, "b": 1.5}}));
        assert_eq!(read.spec.instance_type, "5");
        assert_eq!(read.spec.labels, BTreeMap::from([("a".into(), "true".into()), ("b".into(), "1.5".into())]));
    }

    #[test]
    fn a_value_of_another_kind_is_an_error_that_names_the_field() {
        refused(
            json!({"disks": [{"name": "a"}, {"size": "10"}]}),
            r#"providerSpec.value: Invalid value: "10": providerSpec.disks[1].size: must be a whole number, found text"#,
        );
        refused(
            json!({"instanceType": ["a"]}),
            r#"providerSpec.value: Invalid value: ["a"]: providerSpec.instanceType: must be text, found a list"#,
        );
        refused(
            json!({"small": 3_000_000_000_u64}),
            "providerSpec.value: Invalid value: 3000000000: providerSpec.small: invalid value: integer `3000000000`, expected i32",
        );
        refused(
            json!({"deviceIndex": 1.5}),
            "providerSpec.value: Invalid value: 1.5: providerSpec.deviceIndex: must be a whole number, found a number",
        );
        assert_eq!(good(json!({"deviceIndex": 2.0})).spec.device_index, 2);
    }

    #[test]
    fn a_missing_value_and_one_that_is_no_object_are_refused() {
        refused(Value::Null, "providerSpec.value: Required value: write the provider's settings here");
        refused(json!("text"), r#"providerSpec.value: Invalid value: "text": must be an object, found text"#);
        refused(json!([1]), r#"providerSpec.value: Invalid value: [1]: must be an object, found a list"#);
    }

    #[test]
    fn defaults_are_laid_over_what_the_user_wrote() {
        let value = json!({"extra": {"kept": true}, "disks": [{"name": "", "x": 1}, {"name": "b"}], "small": 0});
        let before = good(value.clone()).spec;
        let mut after = before.clone();
        after.disks[0].name = "a".into();
        after.instance_type = "m5".into();
        let expected = json!({
            "extra": {"kept": true},
            "disks": [{"name": "a", "x": 1}, {"name": "b"}],
            "small": 0,
            "instanceType": "m5",
        });
        assert_eq!(overlay(&value, &before, &after).expect("specs are JSON"), expected);
    }

    #[test]
    fn a_default_that_is_an_object_says_only_what_it_sets() {
        let mut after = Spec::default();
        after.disks.push(Disk { name: "root".into(), size: None });
        let value = overlay(&json!({}), &Spec::default(), &after).expect("specs are JSON");
        assert_eq!(value, json!({"disks": [{"name": "root"}]}));
    }
}
