//! Drops fields that the schema does not know, and names them for strict decoding.

use serde_json::{Map, Value};

use crate::{
    node::{Additional, Id, Node, Schema},
    path::Path,
};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Drops every unknown field.
    pub fn prune(&self, object: &mut Value) {
        let mut pruner = Pruner { schema: self, unknown: None };
        pruner.prune(object, Some(self.root), &Path::ROOT, true);
    }

    /// Drops every unknown field and returns their paths, sorted, as strict decoding names them.
    pub fn prune_and_name(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { schema: self, unknown: Some(Vec::new()) };
        pruner.prune(object, Some(self.root), &Path::ROOT, true);
        in_order(pruner.unknown.unwrap_or_default())
    }

    /// The paths of unknown fields, sorted; the object stays as it is.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.find_unknown(object, Some(self.root), &Path::ROOT, true, &mut unknown);
        in_order(unknown)
    }

    fn find_unknown(&self, value: &Value, id: Option<Id>, path: &Path<'_>, root: bool, unknown: &mut Vec<String>) {
        let node = id.map(|id| self.node(id));
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    match self.step(node, key, root) {
                        Step::Keep => {}
                        Step::Into(id) => self.find_unknown(child, id, &path.field(key), false, unknown),
                        Step::Drop => unknown.push(path.field(key).text()),
                    }
                }
            }
            Value::Array(list) => {
                let items = node.and_then(|n| n.items);
                if items.is_none() && node.is_some_and(|n| n.preserve) {
                    return;
                }
                for (at, child) in list.iter().enumerate() {
                    self.find_unknown(child, items, &path.index(at), false, unknown);
                }
            }
            _ => {}
        }
    }

    fn step(&self, node: Option<&Node>, key: &str, root: bool) -> Step {
        let Some(node) = node else { return Step::Drop };
        if node.embedded && META.contains(&key) {
            return if key == "metadata" { Step::Into(Some(self.metadata)) } else { Step::Keep };
        }
        match (node.property(key), node.additional) {
            (Some(id), _) | (None, Additional::Schema(id)) => Step::Into(Some(id)),
            (None, Additional::Any) if !self.custom => Step::Keep,
            // `additionalProperties: true` keeps the key but knows nothing of what is below it.
            (None, Additional::Any) => Step::Into(None),
            (None, Additional::None) if node.preserve => Step::Keep,
            (None, Additional::None) if root && META.contains(&key) => Step::Keep,
            (None, Additional::None) => Step::Drop,
        }
    }
}

/// Metadata is decoded first, so its unknown fields are named first.
fn in_order(mut unknown: Vec<String>) -> Vec<String> {
    unknown.sort_by(|a, b| {
        let rest = |path: &str| !path.starts_with("metadata.");
        (rest(a), a).cmp(&(rest(b), b))
    });
    unknown
}

enum Step {
    Keep,
    Into(Option<Id>),
    Drop,
}

struct Pruner<'a> {
    schema: &'a Schema,
    unknown: Option<Vec<String>>,
}

impl Pruner<'_> {
    fn prune(&mut self, value: &mut Value, id: Option<Id>, path: &Path<'_>, root: bool) {
        let node = id.map(|id| self.schema.node(id));
        match value {
            Value::Object(map) => self.prune_map(map, node, path, root),
            Value::Array(list) => {
                let items = node.and_then(|n| n.items);
                if items.is_none() && node.is_some_and(|n| n.preserve) {
                    return;
                }
                for (at, child) in list.iter_mut().enumerate() {
                    self.prune(child, items, &path.index(at), false);
                }
            }
            // Go prints 1.0 as 1, so that is what is stored.
            Value::Number(number) if number.is_f64() => {
                let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e15);
                if let Some(whole) = whole {
                    *value = Value::from(whole as i64);
                }
            }
            _ => {}
        }
    }

    fn prune_map(&mut self, map: &mut Map<String, Value>, node: Option<&Node>, path: &Path<'_>, root: bool) {
        map.retain(|key, child| match self.schema.step(node, key, root) {
            Step::Keep => true,
            Step::Into(id) => {
                self.prune(child, id, &path.field(key), false);
                true
            }
            Step::Drop => {
                if let Some(unknown) = &mut self.unknown {
                    unknown.push(path.field(key).text());
                }
                false
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::custom(
            Some(&json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "a": {"type": "string"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                             "properties": {"known": {"type": "object", "properties": {"x": {"type": "string"}}}}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"m": {"type": "string"}}}},
                    "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                                 "properties": {"spec": {"type": "object"}}},
                }},
            }})),
            false,
        )
    }

    #[test]
    fn unknown_fields_go_and_are_named_in_order() {
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "extra": 1,
            "metadata": {"name": "n", "labels": {"l": "v"}, "bogus": 1},
            "spec": {"a": "x", "b": {"c": 1},
                "free": {"any": {"thing": 1}, "known": {"x": "1", "y": 2}},
                "list": [{"n": "1", "o": 2}], "map": {"k": {"m": "1", "z": 2}},
                "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p", "odd": 1}, "spec": {}, "status": {}}},
        });
        let named = schema().unknown_fields(&object);
        assert_eq!(
            named,
            [
                "metadata.bogus",
                "extra",
                "spec.b",
                "spec.embedded.metadata.odd",
                "spec.embedded.status",
                "spec.free.known.y",
                "spec.list[0].o",
                "spec.map.k.z",
            ]
        );
        assert_eq!(schema().prune_and_name(&mut object), named);
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "labels": {"l": "v"}},
                "spec": {"a": "x", "free": {"any": {"thing": 1}, "known": {"x": "1"}}, "list": [{"n": "1"}],
                    "map": {"k": {"m": "1"}},
                    "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p"}, "spec": {}}},
            })
        );
        assert!(schema().unknown_fields(&object).is_empty());
    }

    #[test]
    fn a_kind_without_schema_keeps_everything_but_odd_metadata() {
        let schema = Schema::custom(None, false);
        let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "any": {"thing": [1]}});
        assert!(schema.unknown_fields(&object).is_empty());
    }

    #[test]
    fn built_in_kinds_keep_free_form_parts() {
        let schema = Schema::builtin("io.k8s.api.core.v1.Pod").expect("in the tables");
        let object = json!({"metadata": {"managedFields": [{"fieldsV1": {"f:a": {"f:b": {}}}}]},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}, "oops": 1}]}});
        assert_eq!(schema.unknown_fields(&object), ["spec.containers[0].oops"]);
    }
}
