//! JSON values as CEL values, typed by the schema.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map as CelMap},
};
use serde_json::Value;

use crate::node::{Additional, Id, Node, Schema, Types};

/// The value as rules see it: declared fields only, formats decoded, numbers by their declared type.
pub(super) fn value(schema: &Schema, id: Id, value: &Value) -> Cel {
    typed(schema, Some(schema.node(id)), value)
}

fn typed(schema: &Schema, node: Option<&Node>, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => {
            let wants_float = node.is_some_and(|n| n.types == Types::NUMBER);
            match number.as_i64() {
                Some(integer) if !wants_float => Cel::Int(integer),
                Some(integer) => Cel::Float(integer as f64),
                None if node.is_some_and(|n| n.types == Types::INTEGER) => {
                    Cel::Int(number.as_f64().unwrap_or(0.0) as i64)
                }
                None => Cel::Float(number.as_f64().unwrap_or(0.0)),
            }
        }
        Value::String(text) => string(node, text),
        Value::Array(list) => {
            let items = node.and_then(|n| n.items).map(|id| schema.node(id));
            Cel::List(Arc::new(list.iter().map(|item| typed(schema, items, item)).collect()))
        }
        Value::Object(map) => {
            let mut entries: HashMap<Key, Cel> = HashMap::with_capacity(map.len());
            for (key, child) in map {
                let (name, field) = match node {
                    Some(node) => match (node.property(key), node.additional) {
                        (Some(id), _) => (escape(key), Some(schema.node(id))),
                        (None, Additional::Schema(id)) => (key.clone(), Some(schema.node(id))),
                        (None, _) => (key.clone(), None),
                    },
                    None => (key.clone(), None),
                };
                let value = typed(schema, field, child);
                if name != *key && is_reserved(key) {
                    entries.insert(Key::String(Arc::new(key.clone())), value.clone());
                }
                entries.insert(Key::String(Arc::new(name)), value);
            }
            Cel::Map(CelMap { map: Arc::new(entries) })
        }
    }
}

fn string(node: Option<&Node>, text: &str) -> Cel {
    let format = node.filter(|n| n.types == Types::STRING).and_then(|n| n.format.as_deref());
    let decoded = match format {
        Some("date-time") => kube_time(text),
        Some("date") => kube_time(&format!("{text}T00:00:00Z")),
        Some("duration") => kube_duration(text),
        Some("byte") => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => None,
    };
    decoded.unwrap_or_else(|| Cel::String(Arc::new(text.to_string())))
}

/// Times and durations are made by CEL's own functions: the calendar types behind them are not ours to name.
pub(super) fn kube_time(text: &str) -> Option<Cel> {
    evaluate("timestamp(text)", text)
}

pub(super) fn kube_duration(text: &str) -> Option<Cel> {
    evaluate("duration(text)", text)
}

fn evaluate(expression: &str, text: &str) -> Option<Cel> {
    super::FUNCTIONS.with(|functions| {
        let mut scope = functions.new_inner_scope();
        scope.add_variable_from_value("text", Cel::String(Arc::new(text.to_string())));
        kube_cel::cel::Program::compile(expression).ok()?.execute(&scope).ok()
    })
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

pub(super) fn is_reserved(name: &str) -> bool {
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
