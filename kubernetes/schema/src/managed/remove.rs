//! Takes fields out of an object, and prepares field sets for it.

use serde_json::{Map, Value};

use super::{
    fieldset::{FieldSet, has_children, is_member},
    shape::{Place, Shape, element, field, is_associative, shape},
};
use crate::node::Schema;

/// The object without the named fields; containers that become empty go too.
pub(super) fn remove(schema: &Schema, value: &Value, fields: &FieldSet) -> Value {
    remove_at(schema, Place::Node(schema.root), value, &fields.0).unwrap_or(Value::Null)
}

fn remove_at(schema: &Schema, place: Place, value: &Value, fields: &Map<String, Value>) -> Option<Value> {
    match shape(schema, place, value) {
        Shape::Leaf => Some(value.clone()),
        Shape::Map { atomic, node } => {
            let map = value.as_object().filter(|m| !m.is_empty() && !atomic)?;
            let mut kept = Map::new();
            for (key, child) in map {
                let entry = fields.get(&format!("f:{key}")).and_then(Value::as_object);
                match entry {
                    None => {
                        kept.insert(key.clone(), child.clone());
                    }
                    Some(entry) if is_member(entry) => {}
                    Some(entry) => {
                        let rest = remove_at(schema, field(schema, node, key).0, child, entry);
                        kept.insert(key.clone(), rest.unwrap_or(Value::Null));
                    }
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Shape::List { list, items } => {
            let values = value.as_array().filter(|l| !l.is_empty() && is_associative(list))?;
            let mut kept = Vec::with_capacity(values.len());
            for child in values {
                let key = element(schema, list, items, child).unwrap_or_default();
                match fields.get(&key).and_then(Value::as_object) {
                    None => kept.push(child.clone()),
                    Some(entry) if is_member(entry) => {}
                    Some(entry) => {
                        kept.push(remove_at(schema, items, child, entry).unwrap_or(Value::Null));
                    }
                }
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
    }
}

/// The set in which every declared field on the way to a member is a member itself.
pub(super) fn with_parents(schema: &Schema, fields: &FieldSet) -> FieldSet {
    FieldSet(with_parents_at(schema, Place::Node(schema.root), &fields.0))
}

fn with_parents_at(schema: &Schema, place: Place, fields: &Map<String, Value>) -> Map<String, Value> {
    let node = match place {
        Place::Node(id) => Some(schema.node(id)),
        Place::Unknown => None,
    };
    let mut out = Map::with_capacity(fields.len());
    for (key, entry) in fields {
        let Value::Object(entry) = entry else { continue };
        if key == "." {
            continue;
        }
        let (below, declared) = match key.strip_prefix("f:") {
            Some(name) => field(schema, node, name),
            None => (node.and_then(|n| n.items).map_or(Place::Unknown, Place::Node), false),
        };
        let member = is_member(entry) || (declared && has_children(entry));
        let mut children = with_parents_at(schema, below, entry);
        if member && !children.is_empty() {
            children.insert(".".to_string(), Value::Object(Map::new()));
        }
        if member || !children.is_empty() {
            out.insert(key.clone(), Value::Object(children));
        }
    }
    out
}
