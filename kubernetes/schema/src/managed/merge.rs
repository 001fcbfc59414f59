//! Lays an applied configuration over the live object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::shape::{Place, Shape, element, field, is_associative, shape};
use crate::node::{List, Schema};

/// The live object with everything the configuration says.
pub(super) fn merge(schema: &Schema, live: &Value, applied: &Value) -> Result<Value, String> {
    let merged = Merger { schema }.merge(Place::Node(schema.root), Some(live), Some(applied))?;
    Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
}

/// A null says nothing about a map or list that merges, if it holds anything.
fn unless_null<'v>(live: &'v Value, filled: bool, applied: &'v Value) -> &'v Value {
    if applied.is_null() && filled { live } else { applied }
}

struct Merger<'a> {
    schema: &'a Schema,
}

impl Merger<'_> {
    fn merge(&self, place: Place, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, String> {
        let Some(applied) = applied else { return Ok(live.cloned()) };
        let Some(live) = live else { return Ok(Some(applied.clone())) };
        match shape(self.schema, place, applied) {
            Shape::Map { atomic: false, node } => {
                let (Some(before), Some(after)) = (live.as_object(), applied.as_object()) else {
                    let filled = live.as_object().is_some_and(|map| !map.is_empty());
                    return Ok(Some(unless_null(live, filled, applied).clone()));
                };
                if before.is_empty() || after.is_empty() {
                    let kept = if after.is_empty() && !before.is_empty() { before } else { after };
                    return Ok(Some(Value::Object(kept.clone())));
                }
                let mut out = before.clone();
                for (key, value) in after {
                    let old = out.remove(key);
                    if let Some(merged) = self.merge(field(self.schema, node, key).0, old.as_ref(), Some(value))? {
                        out.insert(key.clone(), merged);
                    }
                }
                Ok(Some(Value::Object(out)))
            }
            Shape::List { list, items } if is_associative(list) => {
                let (Some(before), Some(after)) = (live.as_array(), applied.as_array()) else {
                    let filled = live.as_array().is_some_and(|list| !list.is_empty());
                    return Ok(Some(unless_null(live, filled, applied).clone()));
                };
                Ok(Some(Value::Array(self.lists(list, items, before, after)?)))
            }
            Shape::Leaf | Shape::Map { .. } | Shape::List { .. } => Ok(Some(applied.clone())),
        }
    }

    /// Elements of both lists: the configuration's order, with the live list's own elements where they stood.
    fn lists(&self, list: &List, items: Place, live: &[Value], applied: &[Value]) -> Result<Vec<Value>, String> {
        let keys = |values: &[Value]| -> Result<Vec<String>, String> {
            let name = |(at, value)| element(self.schema, list, items, value).map_err(|e| format!("element {at}: {e}"));
            values.iter().enumerate().map(name).collect()
        };
        let (left, right) = (keys(live)?, keys(applied)?);
        let mut in_live: HashMap<&str, Option<usize>> = HashMap::with_capacity(left.len());
        for (at, key) in left.iter().enumerate() {
            // A key that appears twice in the live list has no single value to merge with.
            in_live.entry(key).and_modify(|place| *place = None).or_insert(Some(at));
        }
        let mut in_applied: HashMap<&str, usize> = HashMap::with_capacity(right.len());
        for (at, key) in right.iter().enumerate() {
            if in_applied.insert(key, at).is_some() {
                let shown = super::fieldset_element(key);
                return Err(format!("duplicate entries for key {shown}"));
            }
        }
        let item = |key: &str| -> Result<Option<Value>, String> {
            let live = in_live.get(key).copied().flatten().map(|at| &live[at]);
            self.merge(items, live, in_applied.get(key).map(|at| &applied[*at]))
        };
        let mut shared = right.iter().filter(|key| in_live.contains_key(key.as_str()));
        let mut next_shared = shared.next();
        let mut merged: HashSet<&str> = HashSet::with_capacity(right.len());
        let mut out = Vec::with_capacity(left.len().max(right.len()));
        let (mut l, mut r) = (0, 0);
        while l < left.len() || r < right.len() {
            if l < left.len() && r < right.len() {
                if left[l] == right[r] {
                    merged.insert(&left[l]);
                    out.extend(item(&left[l])?);
                    l += 1;
                    r += 1;
                    next_shared = shared.next();
                    continue;
                }
                if in_applied.contains_key(left[l].as_str()) && next_shared.is_some_and(|next| *next != left[l]) {
                    l += 1;
                    continue;
                }
            }
            if l < left.len() {
                if !in_applied.contains_key(left[l].as_str()) {
                    out.push(live[l].clone());
                    l += 1;
                    continue;
                } else if merged.contains(left[l].as_str()) {
                    l += 1;
                }
            }
            if r < right.len() {
                merged.insert(&right[r]);
                out.extend(item(&right[r])?);
                if next_shared == Some(&right[r]) {
                    next_shared = shared.next();
                }
                r += 1;
            }
        }
        Ok(out)
    }
}
