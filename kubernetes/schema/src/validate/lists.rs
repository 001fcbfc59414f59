//! Lists that promise unique elements or keys.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    error::FieldError,
    node::{Additional, Id, List, Schema},
    path::Path,
};

pub(super) fn check(schema: &Schema, id: Id, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let node = schema.node(id);
    if !node.below.keyed_lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match (node.property(key), node.additional) {
                    (Some(_), _) if id == schema.root && key == "metadata" => {}
                    (Some(id), _) => check(schema, id, child, &path.field(key), errors),
                    (None, Additional::Schema(id)) => check(schema, id, child, &path.key(key), errors),
                    (None, Additional::None | Additional::Any) => {}
                }
            }
        }
        Value::Array(list) => {
            match &node.list {
                List::Set => {
                    for at in repeated(list.iter().map(|v| Some(v.clone()))) {
                        errors.push(FieldError::duplicate(path.index(at).text(), list[at].clone()));
                    }
                }
                List::Map(keys) => check_map(list, keys, path, errors),
                List::Atomic | List::Unspecified => {}
            }
            if let Some(items) = node.items {
                for (at, child) in list.iter().enumerate() {
                    check(schema, items, child, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(list: &[Value], keys: &[Box<str>], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(at) = list.iter().position(|v| !v.is_object() && !v.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(at).text(), list[at].clone(), detail));
        return;
    }
    let key_of = |element: &Value| {
        let fields = keys.iter().filter_map(|key| Some((key.to_string(), element.get(key.as_ref())?.clone())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    for at in repeated(list.iter().map(|element| Some(key_of(element)))) {
        errors.push(FieldError::duplicate(path.index(at).text(), key_of(&list[at])));
    }
}

/// The positions at which a value appears for the second time.
fn repeated(values: impl ExactSizeIterator<Item = Option<Value>>) -> Vec<usize> {
    if values.len() <= 1 {
        return Vec::new();
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(values.len());
    let mut found = Vec::new();
    for (at, value) in values.enumerate() {
        let times = seen.entry(value.unwrap_or_default().to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }
    found
}
