//! Round trips: no field of a schema is missing in its type, and none is written differently.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::every_kind::kinds;

#[test]
fn an_object_with_every_field_of_its_schema_survives() {
    for kind in kinds() {
        let object = kind.object(&full(&kind.schema(), Strings::Valid));
        let again = (kind.round_trip)(object.clone()).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        assert_eq!(again, object, "{}", kind.name());
    }
}

#[test]
fn an_object_with_only_what_its_schema_requires_can_be_read() {
    for kind in kinds() {
        let object = kind.object(&required(&kind.schema()));
        let again = (kind.round_trip)(object.clone()).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        // A missing spec is written as an empty one, which is equivalent.
        let mut expected = object;
        if again.get("spec").is_some_and(|spec| expected.get("spec").is_none() && is_empty_spec(spec)) {
            expected["spec"] = again["spec"].clone();
        }
        assert_eq!(again, expected, "{}", kind.name());
    }
}

/// Whether a spec contains only empty values of fields that it must have.
fn is_empty_spec(spec: &Value) -> bool {
    match spec {
        Value::Object(fields) => fields.values().all(is_empty_spec),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[test]
fn nullable_fields_may_be_null() {
    let mut seen = BTreeSet::new();
    for kind in kinds() {
        for path in nullable(&kind.schema(), "") {
            let mut object = kind.object(&full(&kind.schema(), Strings::Valid));
            let Some(field) = object.pointer_mut(&path) else {
                continue;
            };
            *field = Value::Null;
            (kind.round_trip)(object).unwrap_or_else(|error| panic!("{}{path}: {error}", kind.name()));
            seen.insert(path);
        }
    }
    assert!(seen.contains("/spec/kernelArguments") && seen.contains("/spec/infra"), "{seen:?}");
}

#[test]
fn an_unknown_enum_value_does_not_make_an_object_unreadable() {
    // Our own group is read only by programs of the same version, so its enums are closed.
    for kind in kinds().into_iter().filter(|kind| !kind.name().ends_with(".machinist.dev")) {
        let object = kind.object(&full(&kind.schema(), Strings::Unheard));
        let again = (kind.round_trip)(object.clone()).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        assert_eq!(again, object, "{}", kind.name());
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Strings {
    /// The first value that the schema allows.
    Valid,
    /// A value that no schema allows.
    Unheard,
}

/// Returns a value with all fields of a schema.
fn full(schema: &Value, strings: Strings) -> Value {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return json!("10%");
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => full_object(schema, strings),
        "array" => json!([full(&schema["items"], strings)]),
        "string" => text(schema, strings),
        "integer" => json!(7),
        "boolean" => json!(true),
        other => panic!("a schema of type {other:?}"),
    }
}

fn full_object(schema: &Value, strings: Strings) -> Value {
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return json!({ "anything": { "below": [1, "two", null] } });
    }
    if let Some(values) = schema.get("additionalProperties") {
        return json!({ "key": full(values, strings) });
    }
    let embedded = schema.get("x-kubernetes-embedded-resource").is_some();
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = match name.as_str() {
            "metadata" if embedded => json!({ "name": "cluster", "labels": { "a": "b" } }),
            _ => full(property, strings),
        };
        fields.insert(name.clone(), value);
    }
    Value::Object(fields)
}

fn text(schema: &Value, strings: Strings) -> Value {
    match schema["format"].as_str() {
        Some("date-time") => json!("2019-03-01T12:00:00Z"),
        Some("byte") => json!("bWFjaGluZXM="),
        _ if strings == Strings::Unheard => json!("SomethingNew"),
        _ => match schema["enum"].as_array() {
            Some(words) => words.iter().find(|word| *word != "").unwrap().clone(),
            None => json!("text"),
        },
    }
}

/// Returns a value with only the required fields of a schema.
fn required(schema: &Value) -> Value {
    let Some(names) = schema["required"].as_array() else {
        return json!({});
    };
    let mut fields = Map::new();
    for name in names.iter().filter_map(Value::as_str) {
        let property = &schema["properties"][name];
        let value = match property["type"].as_str() {
            _ if property["nullable"] == true => Value::Null,
            Some("object") => required(property),
            Some("array") => json!([]),
            _ => full(property, Strings::Valid),
        };
        fields.insert(name.to_owned(), value);
    }
    Value::Object(fields)
}

/// Returns pointers to the nullable fields of a schema; of lists, only to those in the first item.
fn nullable(schema: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    if schema["nullable"] == true {
        found.push(path.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(nullable(property, &format!("{path}/{name}")));
    }
    if let Some(items) = schema.get("items") {
        found.extend(nullable(items, &format!("{path}/0")));
    }
    found
}
