//! JSON values as values of expressions, and names of fields as expressions spell them.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value as Json;

use super::{
    run::time,
    value::{Entries, Key, Kind, List, Value},
};

/// The value of which no schema says anything.
#[must_use]
pub fn untyped(value: &Json) -> Value {
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

/// The value of a text in one of the formats that expressions know as types of their own; none if it is not.
#[must_use]
pub fn formatted(format: &str, text: &str) -> Option<Value> {
    match format {
        "date-time" => time::Moment::parse(text).map(Value::Time),
        "date" => time::Moment::parse(&format!("{text}T00:00:00Z")).map(Value::Time),
        "duration" => time::duration(text).map(Value::Duration),
        "byte" => STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        _ => None,
    }
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

/// Whether a name is a word of the language.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Names that CEL cannot spell are escaped: reserved words, `.`, `-`, `/` and doubled underscores.
#[must_use]
pub fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_string();
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
