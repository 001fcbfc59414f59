//! Tables of custom resources, as `kubectl get` prints them: what stands in the columns that a definition names, and ages.

mod age;
mod jsonpath;

pub use age::{human, since};
pub use jsonpath::JsonPath;

use serde_json::Value;

/// A printer column of a custom resource, with its path ready to use.
#[derive(Debug, Clone)]
pub struct CustomColumn {
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    pub path: JsonPath,
}

impl CustomColumn {
    /// A column by its type and `jsonPath`.
    #[must_use]
    pub fn new(kind: &str, path: &str) -> CustomColumn {
        CustomColumn { kind: kind.to_string(), path: JsonPath::parse(path) }
    }

    /// The cell of an object; `now` is RFC 3339.
    #[must_use]
    pub fn cell(&self, object: &Value, now: &str) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", Value::Null) => "<nil>".into(),
            ("string", Value::Number(number)) => number.to_string().into(),
            ("string", other) => crate::error::go_json(other).into(),
            ("integer", Value::Number(number)) => match number.as_i64() {
                Some(integer) => integer.into(),
                None => (number.as_f64().unwrap_or(0.0) as i64).into(),
            },
            ("number", Value::Number(number)) => Value::Number(number.clone()),
            ("boolean", Value::Bool(flag)) => (*flag).into(),
            ("date", Value::String(text)) => match since(text, now) {
                Some(age) => age.into(),
                None => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

/// The cells of a custom resource: its name, then its columns. Without columns of its own it has an age.
#[must_use]
pub fn custom_cells(columns: &[CustomColumn], object: &Value, now: &str) -> Vec<Value> {
    let mut cells = vec![object["metadata"]["name"].clone()];
    cells.extend(columns.iter().map(|column| column.cell(object, now)));
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn custom_columns_print_by_type() {
        let object = json!({
            "metadata": {"name": "one", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"n": 3, "s": "x", "o": {"a": 1}, "b": true, "f": 1.5},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let columns = [
            CustomColumn::new("integer", ".spec.n"),
            CustomColumn::new("string", ".spec.n"),
            CustomColumn::new("string", ".spec.o"),
            CustomColumn::new("string", ".spec.missing"),
            CustomColumn::new("boolean", ".spec.b"),
            CustomColumn::new("number", ".spec.f"),
            CustomColumn::new("integer", ".spec.s"),
            CustomColumn::new("string", ".status.conditions[?(@.type==\"Ready\")].status"),
            CustomColumn::new("date", ".metadata.creationTimestamp"),
        ];
        assert_eq!(
            custom_cells(&columns, &object, "2026-01-01T00:05:30Z"),
            [
                json!("one"),
                json!(3),
                json!("3"),
                json!("{\"a\":1}"),
                json!(null),
                json!(true),
                json!(1.5),
                json!(null),
                json!("True"),
                json!("5m30s")
            ]
        );
    }
}
