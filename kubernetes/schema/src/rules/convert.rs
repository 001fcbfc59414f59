//! JSON values as values of expressions, typed by the schema.

use std::{collections::BTreeMap, sync::Arc};

use cel::{
    escape, untyped,
    value::{Entries, Key, Kind, List, Value},
};
use serde_json::Value as Json;

use crate::node::{self, Additional, Id, Node, Schema, Types};

/// The value as rules see it: declared fields only, formats decoded, numbers by their declared type.
pub(super) fn value(schema: &Schema, id: Id, value: &Json) -> Value {
    typed(schema, Some(schema.node(id)), value)
}

fn typed(schema: &Schema, node: Option<&Node>, value: &Json) -> Value {
    let Some(node) = node else { return untyped(value) };
    match value {
        Json::Number(number) => match number.as_i64() {
            Some(whole) if node.types == Types::NUMBER => Value::Double(whole as f64),
            Some(whole) => Value::Int(whole),
            None if node.types == Types::INTEGER => Value::Int(number.as_f64().unwrap_or(0.0) as i64),
            None => Value::Double(number.as_f64().unwrap_or(0.0)),
        },
        Json::String(text) => string(node, text),
        Json::Array(list) => {
            let items = node.items.map(|id| schema.node(id));
            let kind = match &node.list {
                node::List::Unspecified | node::List::Atomic => Kind::Ordered,
                node::List::Set => Kind::Set,
                node::List::Map(keys) => Kind::Keyed(keys.iter().map(|key| escape(key).into_boxed_str()).collect()),
            };
            let items = list.iter().map(|item| typed(schema, items, item)).collect();
            Value::List(Arc::new(List { items, kind, found: true }))
        }
        Json::Object(map) => {
            let mut entries = BTreeMap::new();
            for (key, child) in map {
                let (name, field) = match (node.property(key), node.additional) {
                    // A field without a value is as good as absent.
                    (Some(_), _) if child.is_null() => continue,
                    (Some(id), _) => (escape(key), Some(schema.node(id))),
                    (None, Additional::Schema(id)) => (key.clone(), Some(schema.node(id))),
                    (None, _) => (key.clone(), None),
                };
                entries.insert(Key::Text(name.into()), typed(schema, field, child));
            }
            Value::Map(Arc::new(Entries::found(entries)))
        }
        plain => untyped(plain),
    }
}

fn string(node: &Node, text: &str) -> Value {
    let format = node.format.as_deref().filter(|_| node.types == Types::STRING);
    format.and_then(|format| cel::formatted(format, text)).unwrap_or_else(|| text.into())
}
