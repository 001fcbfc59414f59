//! Converts JSON to types and back, and reports the JSON path of every error.
//!
//! serde would stop at the first error and could not tell its location inside a [`Value`]. This reader continues,
//! collects all findings, and borrows nothing. `null` means missing, as in Go. A key that differs only in case is
//! accepted with a warning, because Go accepts it; an unknown key is a warning too, because Ignition ignores it.

use serde_json::{Map, Value};

use crate::path::Path;
use crate::report::{Problem, Report};

pub(crate) trait Node: Sized {
    /// The value for `None` and `null`.
    fn missing() -> Self;
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self;
    fn write(self) -> Value;
    /// Whether the value is equivalent to a missing one and need not be written.
    fn is_missing(&self) -> bool;
}

/// Implements [`Node`] for a struct from a table of its fields.
macro_rules! record {
    ($type:ty { $($field:ident: $name:literal),* $(,)? }) => {
        impl $crate::node::Node for $type {
            fn missing() -> Self {
                Self { $($field: $crate::node::Node::missing()),* }
            }
            fn read(value: &serde_json::Value, at: $crate::path::Path<'_>, report: &mut $crate::report::Report) -> Self {
                match $crate::node::Keys::of(value, &[$($name),*], &at, report) {
                    Some(keys) => Self { $($field: keys.read($name, &at, report)),* },
                    None => Self::missing(),
                }
            }
            fn write(self) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $($crate::node::put(&mut object, $name, self.$field);)*
                serde_json::Value::Object(object)
            }
            fn is_missing(&self) -> bool {
                true $(&& $crate::node::Node::is_missing(&self.$field))*
            }
        }
    };
}
pub(crate) use record;

/// The members of a JSON object that is read as a record.
pub(crate) struct Keys<'a> {
    object: &'a Map<String, Value>,
    /// There are keys that match no field exactly; one of them may be a missing field in other case.
    strangers: bool,
}

impl<'a> Keys<'a> {
    pub(crate) fn of(value: &'a Value, fields: &[&str], at: &Path<'_>, report: &mut Report) -> Option<Self> {
        let Value::Object(object) = value else {
            report.problem(wrong_type(at, "an object", value));
            return None;
        };
        let mut strangers = false;
        for key in object.keys().filter(|key| !fields.contains(&key.as_str())) {
            strangers = true;
            let message = match fields.iter().find(|field| field.eq_ignore_ascii_case(key)) {
                Some(field) if object.contains_key(*field) => {
                    let message = format!("key {key:?} is {field:?} in other letters, and both are given");
                    report.problem(Problem::new(at.key(key).to_string(), message));
                    continue;
                }
                Some(field) => format!("key {key:?} is read as {field:?}"),
                None => format!("unused key {key:?}"),
            };
            report.warning(Problem::new(at.key(key).to_string(), message));
        }
        Some(Self { object, strangers })
    }

    pub(crate) fn read<T: Node>(&self, name: &str, at: &Path<'_>, report: &mut Report) -> T {
        match self.get(name) {
            None | Some(Value::Null) => T::missing(),
            Some(value) => T::read(value, at.key(name), report),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let exact = self.object.get(name);
        if exact.is_some() || !self.strangers {
            return exact;
        }
        self.object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn put<T: Node>(object: &mut Map<String, Value>, name: &str, field: T) {
    if !field.is_missing() {
        object.insert(name.to_owned(), field.write());
    }
}

fn wrong_type(at: &Path<'_>, expected: &str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number that is not whole or too large",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Problem::new(at.to_string(), format!("expected {expected}, found {found}"))
}

impl Node for String {
    fn missing() -> Self {
        String::new()
    }
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self {
        match value {
            Value::String(text) => text.clone(),
            Value::Number(_) => {
                report.problem(Problem::new(at.to_string(), "expected a string, found a number"));
                String::new()
            }
            other => {
                report.problem(wrong_type(&at, "a string", other));
                String::new()
            }
        }
    }
    fn write(self) -> Value {
        Value::String(self)
    }
    fn is_missing(&self) -> bool {
        self.is_empty()
    }
}

impl Node for bool {
    fn missing() -> Self {
        false
    }
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self {
        match value {
            Value::Bool(answer) => *answer,
            other => {
                report.problem(wrong_type(&at, "true or false", other));
                false
            }
        }
    }
    fn write(self) -> Value {
        Value::Bool(self)
    }
    fn is_missing(&self) -> bool {
        !self
    }
}

impl Node for i64 {
    fn missing() -> Self {
        0
    }
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self {
        value.as_i64().unwrap_or_else(|| {
            report.problem(wrong_type(&at, "a whole number", value));
            0
        })
    }
    fn write(self) -> Value {
        Value::from(self)
    }
    fn is_missing(&self) -> bool {
        *self == 0
    }
}

impl<T: Node + Optional> Node for Option<T> {
    fn missing() -> Self {
        None
    }
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self {
        Some(T::read(value, at, report))
    }
    fn write(self) -> Value {
        self.map_or(Value::Null, T::write)
    }
    fn is_missing(&self) -> bool {
        self.as_ref().is_none_or(Optional::is_void)
    }
}

/// Decides when an optional field that is present counts as missing: empty lists and records do, an explicit `false`,
/// `0` or `""` does not.
pub(crate) trait Optional {
    fn is_void(&self) -> bool {
        false
    }
}

impl Optional for String {}
impl Optional for bool {}
impl Optional for i64 {}
impl<T> Optional for Vec<T> {
    fn is_void(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Node> Node for Vec<T> {
    fn missing() -> Self {
        Vec::new()
    }
    fn read(value: &Value, at: Path<'_>, report: &mut Report) -> Self {
        let Value::Array(items) = value else {
            report.problem(wrong_type(&at, "a list", value));
            return Vec::new();
        };
        let read = |(index, item): (usize, &Value)| match item {
            Value::Null => T::missing(),
            item => T::read(item, at.index(index), report),
        };
        items.iter().enumerate().map(read).collect()
    }
    fn write(self) -> Value {
        Value::Array(self.into_iter().map(T::write).collect())
    }
    fn is_missing(&self) -> bool {
        self.is_empty()
    }
}
