//! Lays what a mutating policy makes over an object, without tracking who manages what.

use cel::objects::Odd;
use serde_json::Value;

use super::{
    merge::merge,
    shape::{Place, Shape, field, is_associative, shape},
    typed,
};
use crate::node::Schema;

/// The object with everything that the configuration says. What is no JSON in the configuration is in `odd`.
///
/// # Errors
/// The configuration does not fit the kind, or has something that only changes as a whole.
pub(crate) fn overlay(schema: &Schema, object: &Value, applied: &Value, odd: &[Odd]) -> Result<Value, String> {
    typed::check(schema, applied, odd)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find(schema, Place::Node(schema.root), applied, "", &mut atomics);
    if !atomics.is_empty() {
        let list = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {list}"));
    }
    merge(schema, object, applied).map_err(|why| format!("failed to merge patch: {why}"))
}

/// What in a configuration only changes as a whole. The values of maps are not looked into.
fn find(schema: &Schema, place: Place, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape(schema, place, value), value) {
        (Shape::Map { atomic, node }, Value::Object(map)) => {
            // Who manages what is named once, as the list that it is.
            if atomic && !path.starts_with(".metadata.managedFields[") {
                found.push(path.to_owned());
            }
            for (key, child) in map {
                let (place, declared) = field(schema, node, key);
                if declared {
                    find(schema, place, child, &format!("{path}.{key}"), found);
                }
            }
        }
        (Shape::List { list, items }, Value::Array(values)) => {
            if !is_associative(list) {
                found.push(path.to_owned());
            }
            for (at, child) in values.iter().enumerate() {
                find(schema, items, child, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}
