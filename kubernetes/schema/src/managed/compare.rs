//! What changed between two objects, as sets of fields.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    fieldset::FieldSet,
    shape::{Place, Shape, element, field, is_associative, shape},
};
use crate::node::{List, Schema};

#[derive(Default, Debug)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Modified and added together: what a writer takes.
    pub(super) fn taken(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two objects of one kind; `metadata.managedFields` does not count.
pub(super) fn compare(schema: &Schema, old: &Value, new: &Value) -> Result<Comparison, String> {
    let mut walk = Walk { schema, path: Vec::new(), out: Comparison::default() };
    walk.compare(Place::Node(schema.root), Some(old), Some(new))?;
    Ok(walk.out)
}

/// Keys in order of appearance, and where each stands.
type Index = (Vec<String>, HashMap<String, Vec<usize>>);

struct Walk<'a> {
    schema: &'a Schema,
    path: Vec<String>,
    out: Comparison,
}

impl Walk<'_> {
    fn compare(&mut self, place: Place, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
        if old == new {
            return Ok(());
        }
        let (before, after) =
            (old.map(|old| shape(self.schema, place, old)), new.map(|new| shape(self.schema, place, new)));
        let mut leaf = false;
        // A value that changes its shape loses what the old shape had and gains what the new one has.
        match (before, after) {
            (Some(before), Some(after)) if !before.is_like(&after) => {
                self.walk(&before, old, new)?;
                leaf = self.walk(&after, old, new)?;
            }
            (_, Some(shape)) | (Some(shape), None) => leaf = self.walk(&shape, old, new)?,
            (None, None) => {}
        }
        if !leaf && (old.is_none() || new.is_none()) {
            self.insert(old, new);
        }
        Ok(())
    }

    fn insert(&mut self, old: Option<&Value>, new: Option<&Value>) {
        let set = match (old, new) {
            (None, _) => &mut self.out.added,
            (_, None) => &mut self.out.removed,
            _ => &mut self.out.modified,
        };
        set.insert(self.path.iter().map(String::as_str));
    }

    /// Compares in one shape; true if the value is a leaf in it, which is then noted.
    fn walk(&mut self, shape: &Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<bool, String> {
        match shape {
            Shape::Map { atomic: false, node } => {
                let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty) {
                    self.insert(old, new);
                    return Ok(true);
                }
                for (key, value) in before.into_iter().flatten() {
                    self.field(*node, key, Some(value), after.and_then(|a| a.get(key)))?;
                }
                for (key, value) in after.into_iter().flatten() {
                    if before.is_none_or(|b| !b.contains_key(key)) {
                        self.field(*node, key, None, Some(value))?;
                    }
                }
                Ok(false)
            }
            Shape::List { list, items } if is_associative(list) => {
                let (before, after) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                if before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty) {
                    self.insert(old, new);
                    return Ok(true);
                }
                let none = Vec::new();
                self.items(list, *items, before.unwrap_or(&none), after.unwrap_or(&none))?;
                Ok(false)
            }
            Shape::Leaf | Shape::Map { .. } | Shape::List { .. } => {
                self.insert(old, new);
                Ok(true)
            }
        }
    }

    fn field(
        &mut self,
        node: Option<&crate::node::Node>,
        key: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        if key == "managedFields" && self.path.len() == 1 && self.path[0] == "f:metadata" {
            return Ok(());
        }
        if old == new {
            return Ok(());
        }
        self.path.push(format!("f:{key}"));
        let answer = self.compare(field(self.schema, node, key).0, old, new);
        self.path.pop();
        answer
    }

    fn items(&mut self, list: &List, items: Place, old: &[Value], new: &[Value]) -> Result<(), String> {
        let index = |values: &[Value]| -> Result<Index, String> {
            let mut order = Vec::with_capacity(values.len());
            let mut known: HashMap<String, Vec<usize>> = HashMap::with_capacity(values.len());
            for (at, value) in values.iter().enumerate() {
                let key = element(self.schema, list, items, value).map_err(|e| format!("element {at}: {e}"))?;
                let places = known.entry(key.clone()).or_default();
                if places.is_empty() {
                    order.push(key);
                }
                places.push(at);
            }
            Ok((order, known))
        };
        let (mut order, before) = index(old)?;
        let (new_order, after) = index(new)?;
        order.extend(new_order.into_iter().filter(|key| !before.contains_key(key)));
        for key in order {
            let left: Vec<&Value> = before.get(&key).into_iter().flatten().map(|at| &old[*at]).collect();
            let right: Vec<&Value> = after.get(&key).into_iter().flatten().map(|at| &new[*at]).collect();
            self.path.push(key);
            let path = |walk: &Self| walk.path.clone();
            match (left.as_slice(), right.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.compare(items, left.first().copied(), right.first().copied())?;
                }
                (l, r) if l.len() >= 2 && r.len() >= 2 => {
                    if l != r {
                        let path = path(self);
                        self.out.modified.insert(path.iter().map(String::as_str));
                    }
                }
                (l, r) if l.len() >= 2 => {
                    if let Some(only) = r.first() {
                        self.compare(items, None, Some(only))?;
                    }
                    let path = path(self);
                    self.out.removed.insert(path.iter().map(String::as_str));
                }
                (l, _) => {
                    if let Some(only) = l.first() {
                        self.compare(items, Some(only), None)?;
                    }
                    let path = path(self);
                    self.out.added.insert(path.iter().map(String::as_str));
                }
            }
            self.path.pop();
        }
        Ok(())
    }
}
