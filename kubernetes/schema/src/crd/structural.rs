//! Whether a schema is structural: every field's type is said once, outside of value checks.

use serde_json::{Map, Value};

use crate::error::FieldError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, sorted by message as the server sorts it.
pub(super) fn check(schema: &Value, place: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema, Level::Root, place, &mut errors);
    check_complete(schema, Some(schema), place, place, &mut errors);
    errors.sort_by_key(FieldError::message);
    errors
}

fn kind(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or("")
}

fn entries<'v>(schema: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    schema[key].as_object().into_iter().flat_map(Map::iter)
}

fn list<'v>(schema: &'v Value, key: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    schema[key].as_array().into_iter().flatten().enumerate()
}

fn check_node(schema: &Value, level: Level, place: &str, errors: &mut Vec<FieldError>) {
    let flag = |key: &str| schema[key] == true;
    let (embedded, preserve, int_or_string) = (
        flag("x-kubernetes-embedded-resource"),
        flag("x-kubernetes-preserve-unknown-fields"),
        flag("x-kubernetes-int-or-string"),
    );
    if kind(schema) == "array" && !schema["items"].is_object() {
        errors.push(FieldError::required(format!("{place}.items"), "must be specified"));
    }
    if schema["items"].is_object() {
        check_node(&schema["items"], Level::Item, &format!("{place}.items"), errors);
    }
    for (name, child) in entries(schema, "properties") {
        check_node(child, Level::Field, &format!("{place}.properties[{name}]"), errors);
    }
    let additional = &schema["additionalProperties"];
    let below = format!("{place}.additionalProperties");
    if !additional.is_null() && *additional != false {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&below, "must not be used at the root"));
        }
        if additional.is_object() {
            check_node(additional, Level::Field, &below, errors);
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(&below, detail));
        }
    }
    for (used, name) in
        [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if int_or_string && used {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{place}.{name}"), true, detail));
        }
    }
    check_values(
        schema,
        is_int_or_string(&schema["anyOf"]),
        is_int_or_string(&schema["allOf"][0]["anyOf"]),
        place,
        errors,
    );
    check_type(schema, level, place, embedded, preserve || int_or_string, errors);
    check_metadata(schema, level, embedded, place, errors);
    if embedded && !preserve && entries(schema, "properties").next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{place}.properties"), detail));
    }
}

fn check_type(schema: &Value, level: Level, place: &str, embedded: bool, free: bool, errors: &mut Vec<FieldError>) {
    let field = format!("{place}.type");
    let kind = kind(schema);
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind.is_empty() {
            true => FieldError::required(&field, detail),
            false => FieldError::invalid(&field, kind, detail),
        });
    } else if kind.is_empty() && !free {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&field, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&field, kind, "must be object at the root"));
    }
}

fn check_metadata(schema: &Value, level: Level, embedded: bool, place: &str, errors: &mut Vec<FieldError>) {
    let checked = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        let property = &schema["properties"][name];
        if checked && !property.is_null() && kind(property) != "string" {
            let field = format!("{place}.properties[{name}].type");
            errors.push(FieldError::invalid(field, kind(property), "must be string"));
        }
    }
    let metadata = &schema["properties"]["metadata"];
    let below = format!("{place}.properties[metadata]");
    if checked && !metadata.is_null() && kind(metadata) != "object" {
        errors.push(FieldError::invalid(format!("{below}.type"), kind(metadata), "must be object"));
    }
    if level == Level::Root
        && let Value::Object(map) = metadata
    {
        let plain = ["type", "description", "title", "default"];
        let named = |(key, value): (&String, &Value)| match key.as_str() {
            "properties" => entries(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName"),
            key => plain.contains(&key) && (key == "type" || key == "default") || value.is_null(),
        };
        if !map.iter().all(named) {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(below, detail));
        }
    }
}

/// The one union that is structural: `anyOf` of integer and string.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == serde_json::json!([{"type": "integer"}, {"type": "string"}])
}

fn check_values(schema: &Value, skip_any: bool, skip_first_all: bool, place: &str, errors: &mut Vec<FieldError>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        for (at, branch) in list(schema, key) {
            if key == "anyOf" && skip_any {
                continue;
            }
            let skip = key == "allOf" && at == 0 && skip_first_all;
            check_nested(branch, skip, &format!("{place}.{key}[{at}]"), errors);
        }
    }
    if schema["not"].is_object() {
        check_nested(&schema["not"], false, &format!("{place}.not"), errors);
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|p| !p.is_empty())
        && let Err(error) = cel::go::pattern::compile(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(format!("{place}.pattern"), pattern, detail));
    }
}

/// Below a junctor only value checks are allowed.
fn check_nested(schema: &Value, skip_any: bool, place: &str, errors: &mut Vec<FieldError>) {
    check_values(schema, skip_any, false, place, errors);
    if schema["items"].is_object() {
        check_nested(&schema["items"], false, &format!("{place}.items"), errors);
    }
    for (name, child) in entries(schema, "properties") {
        check_nested(child, false, &format!("{place}.properties[{name}]"), errors);
    }
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (key, detail) in FORBIDDEN {
        let value = &schema[key];
        let said = match value {
            Value::Null => false,
            Value::Bool(flag) => *flag || key == "additionalProperties" || key == "default",
            Value::String(text) => !text.is_empty() || key == "default",
            Value::Array(list) => !list.is_empty() || key == "default",
            _ => true,
        };
        if said {
            errors.push(FieldError::forbidden(format!("{place}.{key}"), detail));
        }
    }
    if !schema["properties"]["metadata"].is_null() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{place}.properties[metadata]"), detail));
    }
}

/// Every field that a value check speaks of must be declared outside of it.
fn check_complete(
    checks: &Value,
    declared: Option<&Value>,
    declared_place: &str,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let mut nested = |branch: &Value, place: String| {
        check_nested_complete(branch, declared, declared_place, &place, errors);
    };
    if checks["not"].is_object() {
        nested(&checks["not"], format!("{place}.not"));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (at, branch) in list(checks, key) {
            nested(branch, format!("{place}.{key}[{at}]"));
        }
    }
}

fn check_nested_complete(
    checks: &Value,
    declared: Option<&Value>,
    declared_place: &str,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(declared) = declared else {
        let detail = format!("because it is defined in {place}");
        errors.push(FieldError::required(declared_place, detail));
        return;
    };
    check_complete(checks, Some(declared), declared_place, place, errors);
    if checks["items"].is_object() {
        let items = declared.get("items").filter(|i| i.is_object());
        let (below, named) = (format!("{declared_place}.items"), format!("{place}.items"));
        check_nested_complete(&checks["items"], items, &below, &named, errors);
    }
    for (name, child) in entries(checks, "properties") {
        let below = format!("{declared_place}.properties[{name}]");
        let named = format!("{place}.properties[{name}]");
        match declared["properties"].get(name) {
            None => errors.push(FieldError::required(below, format!("because it is defined in {named}"))),
            Some(known) => check_nested_complete(child, Some(known), &below, &named, errors),
        }
    }
}
