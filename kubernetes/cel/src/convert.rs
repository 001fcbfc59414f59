//! JSON values as values of expressions, typed by the schema.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value as Json;

use super::{
    run::time,
    value::{Entries, Key, Kind, List, Value},
};
use crate::node::{self, Additional, Id, Node, Schema, Types};

/// The value as rules see it: declared fields only, formats decoded, numbers by their declared type.
pub(super) fn value(schema: &Schema, id: Id, value: &Json) -> Value {
    typed(schema, Some(schema.node(id)), value)
}

/// The value of which no schema says anything.
pub(crate) fn untyped(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Value::Double(number.as_f64().unwrap_or(0.0)), Value::Int)
        }
        Json::String(text) => text.as_str().into(),
        Json::Array(list) => {
            let items = list.iter().map(untyped).collect();
            Value::List(Arc::new(List { items, kind: Kind::Ordered, found: true }))
        }
        Json::Object(map) => {
            let entries = map.iter().map(|(key, child)| (Key::Text(key.as_str().into()), untyped(child)));
            Value::Map(Arc::new(Entries::found(entries.collect())))
        }
    }
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
    let decoded = match format {
        Some("date-time") => time::Moment::parse(text).map(Value::Time),
        Some("date") => time::Moment::parse(&format!("{text}T00:00:00Z")).map(Value::Time),
        Some("duration") => time::duration(text).map(Value::Duration),
        Some("byte") => STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        _ => None,
    };
    decoded.unwrap_or_else(|| text.into())
}

/// Words of the language; a field of such a name is found under it and under its escaped form.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Names that CEL cannot spell are escaped: reserved words, `.`, `-`, `/` and doubled underscores.
pub(super) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_string();
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
