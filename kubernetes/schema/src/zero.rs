//! The object before anything was written to it, against which a create is tracked.

use serde_json::{Map, Value};

use crate::node::{Id, Schema};

/// Go's zero values nest only as deep as its types do; recursive kinds stop here.
const MAX_DEPTH: usize = 16;

impl Schema {
    /// An empty object of the same kind and version as the sample.
    ///
    /// A custom object starts as its type alone. A built-in one starts as Go's zero value: parts that are always present are
    /// there already, so creating them is not something a manager did.
    pub(crate) fn zero(&self, sample: &Value) -> Value {
        let mut zero = match self.custom {
            true => Map::new(),
            false => self.zero_of(self.root, 0),
        };
        // The rules of a role are always written, although no schema requires them.
        if matches!(self.node(self.root).go.as_deref(), Some("Role" | "ClusterRole")) {
            zero.insert("rules".to_string(), Value::Null);
        }
        for key in ["apiVersion", "kind"] {
            if let Some(value) = sample.get(key) {
                zero.insert(key.to_string(), value.clone());
            }
        }
        Value::Object(zero)
    }

    fn zero_of(&self, id: Id, depth: usize) -> Map<String, Value> {
        let node = self.node(id);
        let mut zero = Map::new();
        if depth > MAX_DEPTH {
            return zero;
        }
        let required = node.limits.as_ref().map_or(&[][..], |l| l.required.as_slice());
        let left_out = |name: &str| node.wire.and_then(|wire| wire.named(name)).is_some_and(|field| field.optional);
        for (name, child) in node.properties.iter() {
            match &self.node(*child).default {
                Some(Value::Object(map)) if map.is_empty() => {
                    zero.insert(name.to_string(), Value::Object(self.zero_of(*child, depth + 1)));
                }
                // Only zero values are Go's; any other default is added by the server's defaulting.
                Some(value) if (*value == "" || *value == 0 || *value == false) && !left_out(name) => {
                    zero.insert(name.to_string(), value.clone());
                }
                // Times that are held by value.
                Some(Value::Null) => drop(zero.insert(name.to_string(), Value::Null)),
                None if required.contains(name) && !left_out(name) => {
                    zero.insert(name.to_string(), Value::Null);
                }
                _ => {}
            }
        }
        zero
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_built_in_object_starts_with_its_fixed_parts() {
        let schema = Schema::builtin("io.k8s.api.apps.v1.Deployment").expect("in the tables");
        assert_eq!(
            schema.zero(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}})),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "status": {}, "spec": {
                "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}}})
        );
        let custom = Schema::custom(Some(&json!({"type": "object"})), false);
        assert_eq!(custom.zero(&json!({"kind": "K", "spec": {}})), json!({"kind": "K"}));
    }
}
