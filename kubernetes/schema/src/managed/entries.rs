//! `metadata.managedFields` as entries: who wrote what, by which operation, in which version.

use serde_json::{Map, Value, json};

use super::fieldset::FieldSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One manager's entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

impl Entry {
    /// Entries of one writer are one entry: versions tell updates apart, but not applies.
    pub(super) fn is_of(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The manager as conflicts name it.
    pub(super) fn shown(&self) -> String {
        let mut text = crate::error::go_quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", crate::error::go_quote(&self.subresource)));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Reads the entries; `None` if one of them is none.
pub(super) fn decode(managed: &Value) -> Option<Vec<Entry>> {
    let list = managed.as_array().map_or(&[][..], Vec::as_slice);
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
    for item in list {
        let text = |key: &str| item[key].as_str().unwrap_or("").to_string();
        let operation = match item["operation"].as_str() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return None,
        };
        let entry = Entry {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: item["time"].as_str().map(str::to_string),
            fields: FieldSet::decode(&item["fieldsV1"])?,
        };
        entries.retain(|known| !known.is_of(&entry));
        entries.push(entry);
    }
    Some(entries)
}

/// Writes the entries in the server's order; nothing at all if there are none.
pub(super) fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| {
        let key =
            |e: &Entry| (e.operation, e.time.clone(), e.manager.clone(), e.api_version.clone(), e.subresource.clone());
        key(a).cmp(&key(b))
    });
    let list = entries.into_iter().map(|entry| {
        let mut item = Map::new();
        item.insert("manager".into(), entry.manager.into());
        let operation = if entry.operation == Operation::Apply { "Apply" } else { "Update" };
        item.insert("operation".into(), operation.into());
        item.insert("apiVersion".into(), entry.api_version.into());
        if let Some(time) = entry.time {
            item.insert("time".into(), time.into());
        }
        item.insert("fieldsType".into(), "FieldsV1".into());
        item.insert("fieldsV1".into(), entry.fields.encode());
        if !entry.subresource.is_empty() {
            item.insert("subresource".into(), entry.subresource.into());
        }
        Value::Object(item)
    });
    Some(Value::Array(list.collect()))
}

/// Whether a request asks to forget all managers: one empty entry, or for built-in kinds an empty list.
pub(super) fn is_reset(managed: &Value, custom: bool) -> bool {
    let Value::Array(list) = managed else { return false };
    match list.as_slice() {
        [] => !custom,
        [entry] => *entry == json!({}),
        _ => false,
    }
}

/// Only so many update managers are kept apart; the oldest share one entry per version.
const MAX_UPDATERS: usize = 10;

/// Merges the oldest update entries while there are too many.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let mut updaters: Vec<Entry> = Vec::new();
    if entries.iter().filter(|e| e.operation == Operation::Update).count() <= MAX_UPDATERS {
        return;
    }
    let mut kept = Vec::new();
    for entry in entries.drain(..) {
        match entry.operation {
            Operation::Update => updaters.push(entry),
            Operation::Apply => kept.push(entry),
        }
    }
    updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
    let mut count = updaters.len();
    let mut firsts: Vec<Entry> = Vec::new();
    let mut rest = updaters.into_iter();
    for entry in rest.by_ref() {
        match firsts.iter_mut().find(|first| first.api_version == entry.api_version) {
            Some(bucket) => {
                bucket.manager = "ancient-changes".to_string();
                bucket.subresource = String::new();
                bucket.fields = bucket.fields.union(&entry.fields);
                bucket.time = entry.time;
                count -= 1;
            }
            None => firsts.push(entry),
        }
        if count <= MAX_UPDATERS {
            break;
        }
    }
    kept.extend(firsts);
    kept.extend(rest);
    *entries = kept;
}
