//! Makes stories up: a structural schema, and writes of a few managers who often mean the same fields.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

pub(super) fn story(seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let schema = json!({
        "type": "object",
        "properties": { "spec": object_schema(&mut dice, 0), "status": object_schema(&mut dice, 2) },
    });
    let mut specs = Vec::new();
    let count = 2 + dice.roll(7);
    let writes: Vec<Value> = (0..count).map(|at| write(&mut dice, &schema, &mut specs, at == 0)).collect();
    json!({ "schema": schema, "writes": writes })
}

fn write(dice: &mut Dice, schema: &Value, known: &mut Vec<Value>, first: bool) -> Value {
    let apply = !dice.one_in(3);
    let status = !first && dice.one_in(6);
    let mut fault = apply && dice.one_in(25);
    let faulty = fault;
    let fresh = value(dice, &schema["properties"]["spec"], &mut fault, 0);
    // What somebody wrote before, in whole or in part, is what conflicts are made of.
    let spec = match known.is_empty() {
        true => fresh,
        false => {
            let at = usize::try_from(dice.roll(known.len() as u64)).expect("small");
            blend(dice, &known[at], &fresh)
        }
    };
    // No update with a fault would come as far as this.
    if !faulty {
        known.push(spec.clone());
    }
    let apply = apply || !is_valid(schema, &spec);
    let mut object = json!({
        "apiVersion": "oracle.dev/v1", "kind": "Thing", "metadata": { "name": "it" }, "spec": spec,
    });
    if dice.one_in(4) {
        object["metadata"]["labels"] = json!({ dice.pick(&NAMES): dice.pick(&["x", "y"]) });
    }
    if status || dice.one_in(5) {
        object["status"] = value(dice, &schema["properties"]["status"], &mut false, 0);
    }
    if !apply && !first {
        object["metadata"]["uid"] = "1".into();
        if dice.one_in(30) {
            object["metadata"]["managedFields"] = json!([{}]);
        }
    }
    let reset: &[&str] = if status { &["metadata", "spec"] } else { &["status"] };
    json!({
        "apply": apply,
        "force": apply && dice.one_in(3),
        "manager": dice.pick(&["one", "two", "three"]),
        "subresource": if status { "status" } else { "" },
        "reset": reset,
        "object": object,
    })
}

/// Updates that do not fit their schema are refused before anybody owns anything.
fn is_valid(schema: &Value, spec: &Value) -> bool {
    let object = json!({ "apiVersion": "oracle.dev/v1", "kind": "Thing", "metadata": { "name": "it" }, "spec": spec });
    schema::Schema::custom(Some(schema), false).validate(&object, None).is_empty()
}

/// Parts of both.
fn blend(dice: &mut Dice, old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut out = Map::new();
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                match (old.get(key), new.get(key), dice.roll(8)) {
                    (Some(old), Some(new), 0..6) => drop(out.insert(key.clone(), blend(dice, old, new))),
                    (Some(one), None, 0..6) | (None, Some(one), 0..4) => drop(out.insert(key.clone(), one.clone())),
                    _ => {}
                }
            }
            Value::Object(out)
        }
        (Value::Array(old), Value::Array(new)) if dice.one_in(2) => {
            let chosen = old.iter().chain(new).filter(|_| dice.one_in(2)).cloned().collect::<Vec<_>>();
            let mut out: Vec<Value> = Vec::new();
            for item in chosen {
                if !out.contains(&item) {
                    out.push(item);
                }
            }
            Value::Array(out)
        }
        _ => if dice.one_in(2) { old } else { new }.clone(),
    }
}

fn object_schema(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in NAMES.iter().take(2 + usize::try_from(dice.roll(4)).expect("small")) {
        properties.insert((*name).to_owned(), any_schema(dice, depth + 1));
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if dice.one_in(8) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if depth > 0 && dice.one_in(6) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    } else if dice.one_in(8) {
        schema["x-kubernetes-map-type"] = "granular".into();
    }
    schema
}

fn any_schema(dice: &mut Dice, depth: usize) -> Value {
    let mut schema = match dice.roll(if depth > 3 { 6 } else { 16 }) {
        0..3 => scalar_schema(dice),
        3 => json!({ "x-kubernetes-int-or-string": true }),
        4 => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        5 => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        6..9 => object_schema(dice, depth),
        9 | 10 => {
            let mut schema = json!({ "type": "object", "additionalProperties": any_schema(dice, depth + 1) });
            if dice.one_in(4) {
                schema["x-kubernetes-map-type"] = "atomic".into();
            }
            schema
        }
        11 => {
            let mut schema = json!({ "type": "array", "items": any_schema(dice, depth + 1) });
            if dice.one_in(2) {
                schema["x-kubernetes-list-type"] = "atomic".into();
            }
            schema
        }
        12 => json!({ "type": "array", "x-kubernetes-list-type": "set", "items": scalar_schema(dice) }),
        13 if dice.one_in(4) => json!({
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }),
        _ => keyed_schema(dice, depth),
    };
    if dice.one_in(8) {
        schema["nullable"] = true.into();
    }
    schema
}

fn scalar_schema(dice: &mut Dice) -> Value {
    json!({ "type": dice.pick(&["string", "string", "integer", "number", "boolean"]) })
}

fn keyed_schema(dice: &mut Dice, depth: usize) -> Value {
    let mut items = object_schema(dice, depth + 1);
    items["x-kubernetes-map-type"] = "granular".into();
    let keys: &[&str] = dice.pick(&[&["k"], &["k", "l"]]);
    let mut required = Vec::new();
    for key in keys {
        let mut schema = json!({ "type": dice.pick(&["string", "integer"]) });
        match dice.one_in(3) {
            true => {
                schema["default"] = if schema["type"] == "string" { json!("x") } else { json!(1) };
            }
            false => required.push(*key),
        }
        items["properties"][*key] = schema;
    }
    items["required"] = json!(required);
    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items })
}

/// A value that fits; while `fault` is set, somewhere one that does not.
fn value(dice: &mut Dice, schema: &Value, fault: &mut bool, depth: usize) -> Value {
    if depth > 0 && *fault && dice.one_in(6) {
        *fault = false;
        return dice.pick(&[&json!("text"), &json!(3), &json!([1, "x"]), &json!({"z": 1}), &json!(true)]).clone();
    }
    if depth > 0 && schema["nullable"] == true && dice.one_in(5) {
        return Value::Null;
    }
    match schema["type"].as_str() {
        Some("string") => dice.pick(&["x", "y", "z"]).into(),
        Some("integer") => dice.roll(3).into(),
        Some("number") => dice.pick(&[0.5, 2.5, -1.25]).into(),
        Some("boolean") => dice.one_in(2).into(),
        Some("array") => list(dice, schema, fault, depth),
        Some("object") => map(dice, schema, fault, depth),
        _ if schema["x-kubernetes-int-or-string"] == true => match dice.one_in(2) {
            true => dice.roll(3).into(),
            false => dice.pick(&["x", "50%"]).into(),
        },
        _ => free(dice, depth),
    }
}

fn map(dice: &mut Dice, schema: &Value, fault: &mut bool, depth: usize) -> Value {
    let mut out = Map::new();
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        if !dice.one_in(3) {
            out.insert(name.clone(), value(dice, child, fault, depth + 1));
        }
    }
    if schema["additionalProperties"].is_object() {
        for _ in 0..dice.roll(4) {
            let name = dice.pick(&["m", "n", "o"]);
            out.insert(name.to_owned(), value(dice, &schema["additionalProperties"], fault, depth + 1));
        }
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        out.insert("apiVersion".to_owned(), "v1".into());
        out.insert("kind".to_owned(), "Inner".into());
        if dice.one_in(2) {
            out.insert("metadata".to_owned(), json!({ "name": dice.pick(&["x", "y"]), "finalizers": ["a/b"] }));
        }
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true && dice.one_in(2) {
        out.insert(dice.pick(&["p", "q"]).to_owned(), free(dice, depth + 1));
    } else if *fault && dice.one_in(6) {
        *fault = false;
        out.insert("unknown".to_owned(), 1.into());
    }
    Value::Object(out)
}

fn list(dice: &mut Dice, schema: &Value, fault: &mut bool, depth: usize) -> Value {
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut out: Vec<Value> = Vec::new();
    for _ in 0..dice.roll(5) {
        let mut item = value(dice, &schema["items"], fault, depth + 1);
        if !keys.is_empty() {
            // Keys are seldom left out, and then only those with a default.
            let Some(item) = item.as_object_mut() else { continue };
            for key in &keys {
                let child = &schema["items"]["properties"][*key];
                let given = match child["type"] == "string" {
                    true => json!(dice.pick(&["x", "y", "z"])),
                    false => json!(dice.roll(3)),
                };
                match child["default"].is_null() || !dice.one_in(3) {
                    true => item.insert((*key).to_owned(), given),
                    false => item.remove(*key),
                };
            }
        } else if schema["x-kubernetes-list-type"] == "set" && item.is_null() {
            continue;
        }
        let id = |value: &Value| match keys.is_empty() {
            true => value.to_string(),
            false => keys.iter().map(|key| value[*key].to_string()).collect(),
        };
        let twice = !matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"));
        if twice || (*fault && dice.one_in(4)) || !out.iter().any(|known| id(known) == id(&item)) {
            out.push(item);
        }
    }
    Value::Array(out)
}

/// A value of which the schema says nothing.
fn free(dice: &mut Dice, depth: usize) -> Value {
    match dice.roll(if depth > 4 { 4 } else { 8 }) {
        0 => dice.pick(&["x", "y"]).into(),
        1 => dice.roll(3).into(),
        2 => dice.one_in(2).into(),
        3 => dice.pick(&[&json!({}), &json!([]), &json!(null)]).clone(),
        4 => Value::Array((0..dice.roll(3)).map(|_| free(dice, depth + 1)).collect()),
        _ => {
            let count = 1 + dice.roll(3);
            Value::Object((0..count).map(|_| (dice.pick(&NAMES).to_owned(), free(dice, depth + 1))).collect())
        }
    }
}
