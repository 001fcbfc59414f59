//! One stored object: its serialised form, and the few facts that lists, watches and collection need without parsing it.
//!
//! The bytes are what clients receive, resource version included, so get, list and watch copy them and parse nothing.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// The place of an object inside its collection; ordered by namespace, then name, which is the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Name {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// The place of an object in the whole store. `collection` is `group/plural`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub collection: Arc<str>,
    pub name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: Box<str>,
    pub blocks: bool,
}

/// Labels in one piece of text, which takes a fifth of the memory of a map: each key and each value ends with a zero,
/// which neither can contain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Box<str>);

impl Labels {
    fn read(value: &Value) -> Self {
        let mut joined = String::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            for part in [key.as_str(), text(value)] {
                joined.extend(part.chars().filter(|character| *character != '\0'));
                joined.push('\0');
            }
        }
        Self(joined.into())
    }

    pub(crate) fn get(&self, wanted: &str) -> Option<&str> {
        let mut rest = &*self.0;
        while let Some((key, after)) = rest.split_once('\0') {
            let (value, next) = after.split_once('\0')?;
            if key == wanted {
                return Some(value);
            }
            rest = next;
        }
        None
    }
}

#[derive(Debug)]
pub(crate) struct Object {
    pub key: Key,
    pub version: u64,
    pub uid: Box<str>,
    pub labels: Labels,
    pub owners: Vec<Owner>,
    pub deleting: bool,
    /// Values of the selectable fields of built-in kinds; see `fields`.
    pub fields: Box<[Box<str>]>,
    pub json: Bytes,
}

impl Object {
    pub(crate) fn namespace(&self) -> &str {
        &self.key.name.namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.key.name.name
    }

    /// The parsed object. The bytes were serialised by us, so failing to parse them is a broken invariant;
    /// it yields `null`, which every reader treats as an object without fields.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Reads back an object that was stored at `version`.
    pub(crate) fn load(key: Key, version: u64, json: Bytes) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_slice(&json)?;
        Ok(Draft::new(key, &value).facts.object(version, json))
    }
}

/// An object ready to be committed: everything but its resource version, which only the committer knows.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    facts: Facts,
    json: Vec<u8>,
    /// Where the digits of the resource version go.
    version_at: usize,
}

#[derive(Debug, Clone)]
struct Facts {
    key: Key,
    uid: Box<str>,
    labels: Labels,
    owners: Vec<Owner>,
    deleting: bool,
    fields: Box<[Box<str>]>,
}

impl Facts {
    fn object(self, version: u64, json: Bytes) -> Object {
        let Self { key, uid, labels, owners, deleting, fields } = self;
        Object { key, version, uid, labels, owners, deleting, fields, json }
    }
}

impl Draft {
    pub(crate) fn new(key: Key, value: &Value) -> Self {
        let (json, version_at) = serialise(value);
        let metadata = &value["metadata"];
        let facts = Facts {
            uid: text(&metadata["uid"]).into(),
            labels: Labels::read(&metadata["labels"]),
            owners: owners(&metadata["ownerReferences"]),
            deleting: metadata["deletionTimestamp"].is_string(),
            fields: builtin::of(&key.collection).extract(value),
            key,
        };
        Self { facts, json, version_at }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.facts.key
    }

    /// The object as it will be stored at `version`.
    pub(crate) fn at(&self, version: u64) -> Object {
        let digits = version.to_string();
        let mut json = Vec::with_capacity(self.json.len() + digits.len());
        json.extend_from_slice(&self.json[..self.version_at]);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.json[self.version_at..]);
        self.facts.clone().object(version, json.into())
    }
}

fn owners(value: &Value) -> Vec<Owner> {
    let references = value.as_array().map(Vec::as_slice).unwrap_or_default();
    references
        .iter()
        .map(|reference| Owner {
            uid: text(&reference["uid"]).into(),
            blocks: reference["blockOwnerDeletion"] == Value::Bool(true),
        })
        .collect()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Serialises with an empty `metadata.resourceVersion` and says where its digits belong.
fn serialise(value: &Value) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(1024);
    let mut version_at = 0;
    let empty = Map::new();
    let root = value.as_object().unwrap_or(&empty);
    out.push(b'{');
    let mut first = true;
    // These two first, so that the items of a list can leave them out without being parsed.
    let leading = ["apiVersion", "kind"].into_iter().filter_map(|key| root.get_key_value(key));
    let others = root.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"));
    for (key, field) in leading.chain(others) {
        separate(&mut out, &mut first);
        write(&mut out, key);
        out.push(b':');
        match field {
            Value::Object(metadata) if key == "metadata" => version_at = serialise_metadata(&mut out, metadata),
            _ => write(&mut out, field),
        }
    }
    out.push(b'}');
    (out, version_at)
}

fn serialise_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    const KEY: &str = "resourceVersion";
    let mut version_at = None;
    out.push(b'{');
    let mut first = true;
    for (key, field) in metadata {
        if version_at.is_none() && key.as_str() >= KEY {
            separate(out, &mut first);
            version_at = Some(serialise_version(out));
        }
        if key == KEY {
            continue;
        }
        separate(out, &mut first);
        write(out, key);
        out.push(b':');
        write(out, field);
    }
    let version_at = version_at.unwrap_or_else(|| {
        separate(out, &mut first);
        serialise_version(out)
    });
    out.push(b'}');
    version_at
}

fn serialise_version(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let at = out.len();
    out.push(b'"');
    at
}

fn separate(out: &mut Vec<u8>, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}

fn write<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing JSON values to memory cannot fail: keys are strings and there is no I/O.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_found_by_their_whole_key() {
        let labels = Labels::read(&json!({"a": "1", "a/b": "", "ab": "a", "z": "\0"}));
        let found = ["a", "a/b", "ab", "z", "b", "", "1"].map(|key| labels.get(key));
        assert_eq!(found, [Some("1"), Some(""), Some("a"), Some(""), None, None, None]);
        assert_eq!(Labels::read(&Value::Null).get("a"), None);
    }

    #[test]
    fn a_draft_carries_the_version_it_is_committed_at() {
        for metadata in [
            json!({}),
            json!({"name": "a", "uid": "u"}),
            json!({"name": "a", "resourceVersion": "7", "uid": "u"}),
            json!({"annotations": {"x": "\"resourceVersion\":\""}, "name": "a"}),
        ] {
            let key = Key { collection: "/nodes".into(), name: Name::new("", "a") };
            let mut value = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"a": [1]}});
            let object = Draft::new(key, &value).at(42);
            value["metadata"]["resourceVersion"] = "42".into();
            assert_eq!(object.value(), value);
        }
    }
}
