//! Whether a configuration fits its kind well enough to be merged, in the words of the real server.

use std::collections::HashSet;

use cel::objects::Odd;
use serde_json::Value;

use super::shape::{Place, Shape, element, field, is_associative, shape};
use crate::node::{Additional, Node, Schema, Types};

/// Checks an applied configuration; the error lists everything that does not fit.
pub(super) fn check(schema: &Schema, applied: &Value, odd: &[Odd]) -> Result<(), String> {
    let mut walk = Walk { schema, odd, errors: Vec::new() };
    walk.visit(Place::Node(schema.root), applied, "", false);
    match walk.errors.len() {
        0 => Ok(()),
        1 => Err(walk.errors.swap_remove(0)),
        _ => Err(format!("errors:\n  {}", walk.errors.join("\n  "))),
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    odd: &'a [Odd],
    errors: Vec<String>,
}

impl Walk<'_> {
    fn push(&mut self, path: &str, text: &str) {
        self.errors.push(if path.is_empty() { text.to_string() } else { format!("{path}: {text}") });
    }

    /// `keep` is set below a node that preserves unknown fields.
    fn visit(&mut self, place: Place, value: &Value, path: &str, keep: bool) {
        if value.is_null() {
            return;
        }
        let node = match place {
            Place::Node(id) => Some(self.schema.node(id)),
            Place::Unknown => None,
        };
        match shape(self.schema, place, value) {
            Shape::Map { node, .. } => {
                let Some(map) = value.as_object() else {
                    return self.push(path, &format!("expected map, got {}", self.shown(value)));
                };
                let keep = keep || node.is_some_and(|n| n.preserve);
                for (key, child) in map {
                    let (place, declared) = field(self.schema, node, key);
                    let path = format!("{path}.{key}");
                    if !declared && !keep && is_closed(node) {
                        return self.push(&path, "field not declared in schema");
                    }
                    self.visit(place, child, &path, keep);
                }
            }
            Shape::List { list, items } => {
                let Some(values) = value.as_array() else {
                    return self.push(path, &format!("expected list, got {}", self.shown(value)));
                };
                let mut seen = HashSet::new();
                for (at, child) in values.iter().enumerate() {
                    let mut place = format!("{path}[{at}]");
                    if is_associative(list) {
                        let key = match element(self.schema, list, items, child) {
                            Ok(key) => key,
                            Err(text) => return self.push(path, &format!("element {at}: {text}")),
                        };
                        let name = match Odd::find(self.odd, child) {
                            Some(_) => "[={{undefined}}]".to_owned(),
                            None => super::fieldset_element(&key),
                        };
                        if !seen.insert(key) {
                            self.push(path, &format!("duplicate entries for key {name}"));
                        }
                        place = format!("{path}{name}");
                    }
                    self.visit(items, child, &place, keep);
                }
            }
            Shape::Leaf => self.scalar(node, value, path),
        }
    }

    fn scalar(&mut self, node: Option<&Node>, value: &Value, path: &str) {
        let odd = Odd::find(self.odd, value);
        let any =
            |node: &Node| (node.types.is_any() && !node.is_quantity()) || (node.int_or_string && self.schema.custom);
        let Some(node) = node.filter(|node| !any(node)) else {
            if odd.is_some() {
                self.push(path, &format!("expected map, got {}", self.shown(value)));
            }
            return;
        };
        let numeric = node.types.has(Types::INTEGER) || node.types.has(Types::NUMBER);
        if node.int_or_string || node.is_quantity() || node.format.as_deref() == Some("date-time") {
            if odd.is_some() || value.is_object() || value.is_array() {
                self.push(path, &format!("expected any scalar, got {}", self.shown(value)));
            }
        } else if numeric && !value.is_number() {
            let found = odd.map_or(go_type(value), |odd| &odd.kind);
            self.push(path, &format!("expected numeric (int or float), got {found}"));
        } else if node.types == Types::STRING && (odd.is_some() || !value.is_string()) {
            let written = odd.map_or_else(|| literal(value), |odd| odd.syntax.clone());
            self.push(path, &format!("expected string, got &value.valueUnstructured{{Value:{written}}}"));
        } else if node.types == Types::BOOLEAN && !value.is_boolean() {
            self.push(path, &format!("expected boolean, got {}", self.shown(value)));
        }
    }

    /// A value the way typed errors print it.
    fn shown(&self, value: &Value) -> String {
        let whole = crate::error::go_plain(value);
        let put = |text: String, (number, odd): (usize, &Odd)| text.replace(&Odd::name(number), &odd.plain);
        format!("&{{{}}}", self.odd.iter().enumerate().fold(whole, put))
    }
}

/// Whether a map admits declared fields only.
fn is_closed(node: Option<&Node>) -> bool {
    node.is_some_and(|n| n.additional == Additional::None && !n.properties.is_empty())
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Null => "<nil>",
    }
}

/// A value the way Go writes it in a program.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_string(),
        Value::String(text) => crate::error::go_quote(text),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", crate::error::go_quote(key), literal(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_named_by_path() {
        let schema = Schema::builtin("io.k8s.api.apps.v1.Deployment").expect("in the tables");
        let error = |applied: Value| check(&schema, &applied, &[]).expect_err("refused");
        assert_eq!(error(json!({"spec": {"foo": 1}})), ".spec.foo: field not declared in schema");
        assert_eq!(
            error(json!({"spec": {"replicas": "two"}})),
            ".spec.replicas: expected numeric (int or float), got string"
        );
        assert_eq!(
            error(json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}})),
            ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]"
        );
        let fits = json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}});
        assert!(check(&schema, &fits, &[]).is_ok());
    }
}
