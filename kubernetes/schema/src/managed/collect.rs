//! The set of fields an applied configuration names.

use serde_json::Value;

use super::{
    fieldset::FieldSet,
    shape::{Place, Shape, element, field, is_associative, shape},
};
use crate::node::Schema;

/// The fields of an object, with keys of maps and elements of lists as members of their own.
///
/// Elements without a key, which only pruning makes, are one nameless member.
pub(super) fn collect(schema: &Schema, value: &Value) -> FieldSet {
    let mut walk = Walk { schema, path: Vec::new(), out: FieldSet::default() };
    walk.visit(Place::Node(schema.root), value);
    walk.out
}

struct Walk<'a> {
    schema: &'a Schema,
    path: Vec<String>,
    out: FieldSet,
}

impl Walk<'_> {
    fn insert(&mut self) {
        let Walk { path, out, .. } = self;
        out.insert(path.iter().map(String::as_str));
    }

    fn visit(&mut self, place: Place, value: &Value) {
        match shape(self.schema, place, value) {
            Shape::Leaf | Shape::Map { atomic: true, .. } => self.insert(),
            Shape::Map { node, .. } => {
                for (key, child) in value.as_object().into_iter().flatten() {
                    let (place, declared) = field(self.schema, node, key);
                    self.path.push(format!("f:{key}"));
                    self.visit(place, child);
                    let empty = child.is_null() || child.as_object().is_some_and(serde_json::Map::is_empty);
                    if empty || !declared {
                        self.insert();
                    }
                    self.path.pop();
                }
            }
            Shape::List { list, .. } if !is_associative(list) => self.insert(),
            Shape::List { list, items } => {
                let values = value.as_array().map_or(&[][..], Vec::as_slice);
                let key = |value| element(self.schema, list, items, value).unwrap_or_default();
                let keys: Vec<String> = values.iter().map(key).collect();
                for (at, (key, child)) in keys.iter().zip(values).enumerate() {
                    let repeated = keys.iter().enumerate().any(|(other, k)| other != at && k == key);
                    self.path.push(key.clone());
                    if !repeated {
                        self.visit(items, child);
                    }
                    self.insert();
                    self.path.pop();
                }
            }
        }
    }
}
