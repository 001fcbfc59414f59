//! Decoding errors: values that do not fit the Go types which the real server decodes into.
//!
//! Built-in kinds are decoded whole; of custom ones only `metadata` is.

use serde_json::Value;

use crate::node::{Additional, Id, Schema, Types};

impl Schema {
    /// The first value that cannot be decoded, in the words of the real server's decoder.
    #[must_use]
    pub fn decode_error(&self, object: &Value) -> Option<String> {
        if self.custom {
            let metadata = object.get("metadata")?;
            return self.misfit(self.metadata, metadata, "ObjectMeta", "");
        }
        self.misfit(self.root, object, self.node(self.root).go.as_deref().unwrap_or(""), "")
    }

    fn misfit(&self, id: Id, value: &Value, structure: &str, path: &str) -> Option<String> {
        let node = self.node(id);
        let wrong = |wanted: &str| {
            Some(format!(
                "json: cannot unmarshal {} into Go struct field {structure}.{path} of type {wanted}",
                json_kind(value, node.types)
            ))
        };
        match value {
            Value::Null => None,
            _ if node.is_quantity() => crate::quantity::canonical_value(value).err().map(str::to_owned),
            _ if node.types.is_any() || node.int_or_string => None,
            Value::Object(map) if node.types == Types::OBJECT => {
                let structure = node.go.as_deref().unwrap_or(structure);
                map.iter().find_map(|(key, child)| {
                    let (id, below) = match (node.property(key), node.additional) {
                        (Some(id), _) => (id, join(path, key)),
                        // A map's keys are no fields.
                        (None, Additional::Schema(id)) => (id, path.to_string()),
                        (None, Additional::None | Additional::Any) => return None,
                    };
                    self.misfit(id, child, structure, &below)
                })
            }
            Value::Array(list) if node.types == Types::ARRAY => {
                let items = node.items?;
                list.iter().find_map(|child| self.misfit(items, child, structure, path))
            }
            Value::String(text) if node.types == Types::STRING => match node.format.as_deref() {
                Some("date-time") if !text.is_empty() => {
                    // The few fields that count microseconds.
                    let fine = ["renewTime", "acquireTime", "eventTime", "lastObservedTime"];
                    bad_time(text, fine.iter().any(|field| path.ends_with(field)))
                }
                Some("byte") => bad_base64(text),
                _ => None,
            },
            Value::Bool(_) if node.types == Types::BOOLEAN => None,
            Value::Number(number) if node.types == Types::INTEGER => {
                let fits = match node.format.as_deref() {
                    Some("int32") => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                    _ => number.as_i64().is_some(),
                };
                if fits { None } else { wrong(self.go_type(id).as_str()) }
            }
            Value::Number(_) if node.types == Types::NUMBER => None,
            _ => wrong(self.go_type(id).as_str()),
        }
    }

    /// Puts an object that was merged into the types of its kind, as the real server does without decoding it: numbers
    /// are cut to what their fields can hold.
    ///
    /// # Errors
    /// A value cannot be converted.
    pub fn convert(&self, object: &mut Value) -> Result<(), String> {
        if self.custom {
            write_whole(object);
            return Ok(());
        }
        self.convert_node(self.root, object)
    }

    fn convert_node(&self, id: Id, value: &mut Value) -> Result<(), String> {
        let node = self.node(id);
        match value {
            Value::Null => Ok(()),
            _ if node.is_quantity() => crate::quantity::canonical_value(value).map(drop).map_err(str::to_owned),
            Value::Object(map) => {
                for (key, child) in map {
                    let id = match (node.property(key), node.additional) {
                        (Some(id), _) | (None, Additional::Schema(id)) => id,
                        (None, Additional::None | Additional::Any) => continue,
                    };
                    self.convert_node(id, child)?;
                }
                Ok(())
            }
            Value::Array(list) => match node.items {
                Some(items) => list.iter_mut().try_for_each(|child| self.convert_node(items, child)),
                None => Ok(()),
            },
            Value::String(text) => match node.format.as_deref() {
                Some("date-time") if !text.is_empty() => bad_time(text, false).map_or(Ok(()), Err),
                Some("byte") => bad_base64(text).map_or(Ok(()), |why| Err(format!("error decoding from json: {why}"))),
                _ => Ok(()),
            },
            Value::Number(_) | Value::Bool(_) if node.format.as_deref() == Some("date-time") => {
                let kind = if value.is_number() { "number" } else { "bool" };
                Err(format!("json: cannot unmarshal {kind} into Go value of type string"))
            }
            Value::Number(number) if node.types == Types::INTEGER => {
                let wide = match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => whole,
                    (None, Some(double)) if double.fract() == 0.0 => double as i64,
                    _ => {
                        let wanted = node.format.as_deref().unwrap_or("int64");
                        return Err(format!("cannot convert float64 to {wanted}"));
                    }
                };
                *value = match node.format.as_deref() {
                    Some("int32") => (wide as i32).into(),
                    _ => wide.into(),
                };
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The Go type of a node, as decoding errors name it.
    fn go_type(&self, id: Id) -> String {
        let node = self.node(id);
        match node.types {
            Types::STRING if node.format.as_deref() == Some("date-time") => "v1.Time".to_string(),
            Types::STRING => "string".to_string(),
            Types::INTEGER => node.format.as_deref().unwrap_or("int64").to_string(),
            Types::NUMBER => "float64".to_string(),
            Types::BOOLEAN => "bool".to_string(),
            Types::ARRAY => format!("[]{}", node.items.map(|items| self.go_type(items)).unwrap_or_default()),
            Types::OBJECT => match (&node.go, node.additional) {
                (Some(name), _) => format!("v1.{name}"),
                (None, Additional::Schema(value)) => format!("map[string]{}", self.go_type(value)),
                (None, _) => "map[string]interface {}".to_string(),
            },
            _ => "interface {}".to_string(),
        }
    }
}

/// Writes whole numbers without a point, as Go does.
fn write_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(double) = number.as_f64().filter(|double| double.fract() == 0.0 && double.abs() < 9e18) {
                *value = (double as i64).into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(write_whole),
        Value::Object(map) => map.values_mut().for_each(write_whole),
        _ => {}
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

fn json_kind(value: &Value, wanted: Types) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(_) => "bool".to_string(),
        // Only who wants a number is told which one was found.
        Value::Number(number) if wanted == Types::INTEGER => format!("number {number}"),
        Value::Number(_) => "number".to_string(),
        Value::String(_) => "string".to_string(),
        Value::Array(_) => "array".to_string(),
        Value::Object(_) => "object".to_string(),
    }
}

fn bad_time(text: &str, micro: bool) -> Option<String> {
    let valid = text.len() >= 20 && text.as_bytes()[10] == b'T' && text.parse::<jiff::Timestamp>().is_ok();
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    (!valid).then(|| {
        let quoted = crate::error::go_quote(text);
        format!("parsing time {quoted} as \"{layout}\": cannot parse {quoted} as \"2006\"")
    })
}

fn bad_base64(text: &str) -> Option<String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let offset = match STANDARD.decode(text) {
        Ok(_) => return None,
        Err(base64::DecodeError::InvalidByte(at, _)) => at,
        Err(_) => text.len() / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {offset}"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(definition: &str, object: Value, expected: Expect) {
        let schema = Schema::builtin(definition).expect("in the tables");
        expected.assert_eq(&schema.decode_error(&object).unwrap_or_default());
    }

    #[test]
    fn misfits_are_named_by_go_type_and_field() {
        let deployment = "io.k8s.api.apps.v1.Deployment";
        check(
            deployment,
            json!({"spec": {"replicas": "x"}}),
            expect!["json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"],
        );
        check(deployment, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}}), expect![""]);
        check(
            deployment,
            json!({"metadata": {"labels": {"a": 1}}}),
            expect!["json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"],
        );
        check("io.k8s.api.core.v1.Secret", json!({"data": {"a": "%"}}), expect!["illegal base64 data at input byte 0"]);
    }
}
