//! The values of fields that can be selected on.
//!
//! `metadata.name` and `metadata.namespace` are selectable everywhere and are not stored again here; the selectable
//! fields of custom resources are read from the object when a selector asks for them.

use serde_json::Value;

/// How the value of a selectable field is read.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    /// What stands at its path.
    Plain,
    /// What stands at its path, or this where nothing does.
    Or(&'static str),
    By(fn(&Value) -> String),
}

impl Read {
    pub(crate) fn of(self, object: &Value, path: &str) -> String {
        match self {
            Read::Plain => at(object, path),
            Read::Or(other) => match at(object, path) {
                value if value.is_empty() => other.to_owned(),
                value => value,
            },
            Read::By(read) => read(object),
        }
    }
}

/// The value at a dotted path as a selector compares it: strings as they are, numbers and booleans printed.
#[must_use]
pub fn at(object: &Value, path: &str) -> String {
    let mut value = object;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        value = &value[step];
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
