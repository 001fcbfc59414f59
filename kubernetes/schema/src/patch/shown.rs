//! A patched object as complaints show it.
//!
//! The real server opens only those parts of an object that a patch touches. They are written with their fields in
//! alphabetical order; every other part stands as the server's types wrote it, in the order of their fields.

use serde_json::{Map, Value};

use crate::node::{Additional, Id, Schema};

/// The JSON text of an object after a patch touched parts of it: `touched` has their fields, and below them theirs.
#[must_use]
pub fn shown(schema: &Schema, object: &Value, touched: &Value) -> String {
    let mut text = String::new();
    write(schema, (!schema.custom).then_some(schema.root), object, Some(touched), &mut text);
    crate::error::go_escaped(text)
}

/// The parts that a JSON patch touches, in the form of a merge patch.
#[must_use]
pub fn touched(operations: &Value) -> Value {
    let mut tree = Value::Object(Map::new());
    for operation in operations.as_array().into_iter().flatten() {
        for path in [&operation["path"], &operation["from"]].into_iter().filter_map(Value::as_str) {
            let mut node = &mut tree;
            for step in path.split('/').skip(1) {
                let Value::Object(map) = node else { break };
                let below = map.entry(step.replace("~1", "/").replace("~0", "~"));
                node = below.or_insert_with(|| Value::Object(Map::new()));
            }
        }
    }
    tree
}

/// A strategic merge patch as it is left once it was applied: what the object did not have is taken without its nulls.
#[must_use]
pub fn left(patch: &Value, object: &Value) -> Value {
    match (patch, object) {
        (Value::Object(patch), Value::Object(object)) => {
            let of = |key: &String, value: &Value| match object.get(key) {
                Some(known) if known.is_object() == value.is_object() => left(value, known),
                _ => without_nulls(value),
            };
            patch.iter().map(|(key, value)| (key.clone(), of(key, value))).collect::<Map<_, _>>().into()
        }
        _ => patch.clone(),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(without_nulls).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn write(schema: &Schema, id: Option<Id>, value: &Value, touched: Option<&Value>, out: &mut String) {
    let node = id.map(|id| schema.node(id));
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            if let Some(message) = node.and_then(|node| node.wire).filter(|_| touched.is_none()) {
                fields.sort_by_key(|(name, _)| message.order(name));
            }
            out.push('{');
            for (at, (name, child)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                let below = node.and_then(|node| match (node.property(name), node.additional) {
                    (Some(id), _) | (None, Additional::Schema(id)) => Some(id),
                    (None, Additional::None | Additional::Any) => None,
                });
                write(schema, below, child, opened(touched, name), out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            let items = node.and_then(|node| node.items);
            out.push('[');
            for (at, child) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(schema, items, child, opened(touched, &at.to_string()), out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// What is touched below a field; nothing if the patch does not go there.
fn opened<'v>(touched: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    match touched? {
        Value::Object(map) => map.get(name),
        // A list that a patch brings is its own all the way down.
        list @ Value::Array(_) => Some(list),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn untouched_parts_keep_the_order_of_their_types() {
        let schema = Schema::builtin("io.k8s.api.rbac.v1.Role").expect("in the tables");
        let object = json!({"kind": "Role", "metadata": {"name": "a", "labels": {"b": "<", "a": "x"}}, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        assert_eq!(
            shown(&schema, &object, &json!({"metadata": {"labels": {"a": "x"}}})),
            r#"{"kind":"Role","metadata":{"labels":{"a":"x","b":"\u003c"},"name":"a"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}"#
        );
        let patch = json!([{"op": "add", "path": "/rules/0/verbs/-", "value": "get"}]);
        assert_eq!(
            shown(&schema, &object, &touched(&patch)),
            r#"{"kind":"Role","metadata":{"name":"a","labels":{"a":"x","b":"\u003c"}},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#
        );
    }
}
