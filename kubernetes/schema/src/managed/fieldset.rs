//! Sets of fields in the encoding of `fieldsV1`, worked on without decoding.
//!
//! The encoding is a trie: `{"f:spec": {"f:replicas": {}}}`. An empty object is a member; `"."` beside children makes the
//! inner node a member too. Keys are `f:` fields, `k:` list-map keys, `v:` set values and `i:` positions.

use serde_json::{Map, Value};

/// A set of fields; the map is the `fieldsV1` of one manager.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldSet(pub(super) Map<String, Value>);

const SELF: &str = ".";

impl FieldSet {
    /// Reads `fieldsV1`; `None` if it is no field set.
    #[must_use]
    pub fn decode(fields: &Value) -> Option<FieldSet> {
        match fields {
            Value::Null => Some(FieldSet::default()),
            Value::Object(map) => {
                let mut map = map.clone();
                map.remove(SELF);
                map.iter_mut().all(|(key, below)| is_element(key) && normalize(below)).then_some(FieldSet(map))
            }
            _ => None,
        }
    }

    /// The `fieldsV1` of this set.
    #[must_use]
    pub fn encode(self) -> Value {
        Value::Object(self.0)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the path; an empty path adds nothing.
    pub(super) fn insert<'p>(&mut self, path: impl Iterator<Item = &'p str>) {
        let mut path = path.peekable();
        let mut map = &mut self.0;
        while let Some(element) = path.next() {
            let fresh = !map.contains_key(element);
            let entry = map.entry(element.to_string()).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(next) = entry else { return };
            match path.peek() {
                // A node that was a mere step becomes a member.
                None if !fresh && !next.is_empty() => {
                    next.insert(SELF.to_string(), Value::Object(Map::new()));
                }
                // A leaf that gets children keeps its membership.
                Some(_) if !fresh && next.is_empty() => {
                    next.insert(SELF.to_string(), Value::Object(Map::new()));
                }
                _ => {}
            }
            map = next;
        }
    }

    #[cfg(test)]
    fn has(&self, path: &[&str]) -> bool {
        let mut map = &self.0;
        for (at, element) in path.iter().enumerate() {
            let Some(Value::Object(next)) = map.get(*element) else { return false };
            if at + 1 == path.len() {
                return is_member(next);
            }
            map = next;
        }
        false
    }

    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        FieldSet(union(&self.0, &other.0))
    }

    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        FieldSet(intersection(&self.0, &other.0))
    }

    /// What is in this set and not in the other; members of the other do not take their children along.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        FieldSet(difference(&self.0, &other.0, false))
    }

    /// As [`FieldSet::difference`], and members of the other take everything below them along.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        FieldSet(difference(&self.0, &other.0, true))
    }

    /// The paths of all members as users read them: `.spec.containers[name="a"].image`.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        collect_paths(&self.0, &mut String::new(), &mut paths);
        paths
    }
}

pub(super) fn is_member(entry: &Map<String, Value>) -> bool {
    entry.is_empty() || entry.contains_key(SELF)
}

pub(super) fn has_children(entry: &Map<String, Value>) -> bool {
    entry.keys().any(|key| key != SELF)
}

fn children(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    map.iter().filter(|(key, _)| key.as_str() != SELF).filter_map(|(key, value)| Some((key, value.as_object()?)))
}

/// Writes a node: nothing if it is neither member nor has children.
fn put(into: &mut Map<String, Value>, key: &str, member: bool, mut below: Map<String, Value>) {
    if !below.is_empty() {
        if member {
            below.insert(SELF.to_string(), Value::Object(Map::new()));
        }
        into.insert(key.to_string(), Value::Object(below));
    } else if member {
        into.insert(key.to_string(), Value::Object(Map::new()));
    }
}

fn union(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let mut out = a.clone();
    out.remove(SELF);
    for (key, right) in children(b) {
        match a.get(key).and_then(Value::as_object) {
            None => {
                out.insert(key.clone(), Value::Object(right.clone()));
            }
            Some(left) => {
                let member = is_member(left) || is_member(right);
                out.remove(key);
                put(&mut out, key, member, union(left, right));
            }
        }
    }
    out
}

fn intersection(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, left) in children(a) {
        if let Some(right) = b.get(key).and_then(Value::as_object) {
            put(&mut out, key, is_member(left) && is_member(right), intersection(left, right));
        }
    }
    out
}

fn difference(a: &Map<String, Value>, b: &Map<String, Value>, recursive: bool) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, left) in children(a) {
        match b.get(key).and_then(Value::as_object) {
            None => {
                out.insert(key.clone(), Value::Object(left.clone()));
            }
            Some(right) if recursive && is_member(right) => {}
            Some(right) => {
                put(&mut out, key, is_member(left) && !is_member(right), difference(left, right, recursive));
            }
        }
    }
    out
}

fn is_element(key: &str) -> bool {
    match key.split_once(':') {
        Some(("f", _)) => true,
        Some(("k", keys)) => serde_json::from_str::<Map<String, Value>>(keys).is_ok(),
        Some(("v", value)) => serde_json::from_str::<Value>(value).is_ok(),
        Some(("i", index)) => index.parse::<i64>().is_ok(),
        _ => false,
    }
}

/// Brings one node into the form the trie functions expect; false if it is no field set.
fn normalize(node: &mut Value) -> bool {
    let Value::Object(map) = node else { return false };
    if map.len() == 1 && map.contains_key(SELF) {
        map.clear();
    }
    map.iter_mut().all(|(key, below)| key == SELF || (is_element(key) && normalize(below)))
}

fn collect_paths(map: &Map<String, Value>, path: &mut String, paths: &mut Vec<String>) {
    // Members of a level come before what lies deeper, as in the real server's iteration.
    for pass in [true, false] {
        for (key, below) in children(map) {
            let length = path.len();
            push_element(path, key);
            if pass && is_member(below) {
                paths.push(path.clone());
            }
            if !pass {
                collect_paths(below, path, paths);
            }
            path.truncate(length);
        }
    }
}

/// `f:name` as `.name`, `k:{"a":"b"}` as `[a="b"]`, `v:"x"` as `[="x"]`, `i:1` as `[1]`.
fn push_element(path: &mut String, key: &str) {
    match key.split_once(':') {
        Some(("f", name)) => {
            path.push('.');
            path.push_str(name);
        }
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let parts: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            path.push_str(&format!("[{}]", parts.join(",")));
        }
        Some(("v", value)) => path.push_str(&format!("[={value}]")),
        Some((_, rest)) => path.push_str(&format!("[{rest}]")),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::decode(&value).expect("a field set")
    }

    #[test]
    fn inner_nodes_are_members_only_when_said() {
        let mut fields = FieldSet::default();
        fields.insert(["f:a", "f:b"].into_iter());
        assert!(fields.has(&["f:a", "f:b"]) && !fields.has(&["f:a"]));
        fields.insert(["f:a"].into_iter());
        assert_eq!(fields.clone().encode(), json!({"f:a": {".": {}, "f:b": {}}}));
        fields.insert(["f:a", "f:b", "f:c"].into_iter());
        assert_eq!(fields.encode(), json!({"f:a": {".": {}, "f:b": {".": {}, "f:c": {}}}}));
    }

    #[test]
    fn set_operations_follow_membership() {
        let a = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let b = set(json!({"f:a": {}, "f:d": {}}));
        assert_eq!(a.union(&b), set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}})));
        assert_eq!(a.intersection(&b), set(json!({"f:a": {}})));
        assert_eq!(a.difference(&b), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(a.recursive_difference(&b), set(json!({"f:c": {}})));
    }

    #[test]
    fn paths_read_as_in_conflicts() {
        let fields = set(json!({"f:spec": {"f:list": {"k:{\"name\":\"a\",\"port\":1}": {".": {}, "f:image": {}}},
            "f:set": {"v:\"x\"": {}}, "f:at": {"i:2": {}}}}));
        assert_eq!(
            fields.paths(),
            [
                ".spec.at[2]",
                ".spec.list[name=\"a\",port=1]",
                ".spec.list[name=\"a\",port=1].image",
                ".spec.set[=\"x\"]"
            ]
        );
    }

    #[test]
    fn what_is_no_field_set_is_refused() {
        for bad in [json!([]), json!({"a": {}}), json!({"f:a": 1}), json!({"k:x": {}}), json!({"i:x": {}})] {
            assert_eq!(FieldSet::decode(&bad), None, "{bad}");
        }
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let element = prop::sample::select(vec!["f:a", "f:b", "k:{\"n\":\"1\"}", "v:\"x\"", "i:0"]);
        let path = prop::collection::vec(element, 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut fields = FieldSet::default();
            for path in paths {
                fields.insert(path.into_iter());
            }
            fields
        })
    }

    proptest! {
        #[test]
        fn encoding_round_trips(fields in any_set()) {
            prop_assert_eq!(FieldSet::decode(&fields.clone().encode()), Some(fields));
        }

        #[test]
        fn sets_obey_their_laws(a in any_set(), b in any_set()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.union(&a), a.clone());
            prop_assert_eq!(a.intersection(&a), a.clone());
            prop_assert!(a.difference(&a).is_empty());
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        }
    }
}
