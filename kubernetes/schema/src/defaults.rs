//! Fills in the schema's default values.

use serde_json::{Map, Value};

use crate::node::{Additional, Id, Node, Schema, Types};

impl Schema {
    /// Sets missing fields to their defaults, and drops nulls that the schema neither allows nor replaces.
    ///
    /// For built-in kinds the defaults of the tables are the values Go's types always carry (`spec: {}`); what the
    /// server's own defaulting adds is `builtin::default`'s subject.
    pub fn default(&self, object: &mut Value) {
        self.fill(object, self.root, true);
    }

    /// As [`Schema::default`], for the outcome of an apply: what was applied as null stays null and is then refused.
    pub fn default_applied(&self, object: &mut Value) {
        self.fill(object, self.root, !self.custom);
    }

    fn fill(&self, value: &mut Value, id: Id, drop_nulls: bool) {
        let node = self.node(id);
        match value {
            Value::String(_) | Value::Number(_) if node.is_quantity() => {
                if let Ok(canonical) = crate::quantity::canonical_value(value) {
                    *value = canonical.into();
                }
            }
            Value::Object(map) => self.fill_map(map, node, drop_nulls),
            Value::Array(list) => {
                let Some(items) = node.items else { return };
                for child in list.iter_mut() {
                    if child.is_null() && !self.node(items).nullable {
                        *child = self.node(items).default.clone().unwrap_or(Value::Null);
                    }
                    self.fill(child, items, drop_nulls);
                }
            }
            _ => {}
        }
    }

    /// Whether Go leaves this field out: it is zero, and its tag says so.
    ///
    /// Structs have no zero in this sense, and neither have the types that print themselves (times, quantities).
    fn is_omitted(&self, node: &Node, key: &str, value: &Value) -> bool {
        let zero = match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Null => false,
        };
        // An empty list of managers is a request to forget them all.
        if !zero || key == "managedFields" {
            return false;
        }
        let Some(field) = node.property(key).map(|id| self.node(id)) else { return false };
        // An empty default is what the type carries anyway, so it is no reason to keep it.
        field.go.is_none() && node.wire.and_then(|wire| wire.named(key)).is_some_and(|field| field.omitted)
    }

    fn fill_map(&self, map: &mut Map<String, Value>, node: &Node, drop_nulls: bool) {
        // A key whose value is null is there, and Go's maps of texts and bytes have an empty value for it.
        if let (false, Additional::Schema(id)) = (self.custom, node.additional)
            && self.node(id).types == Types::STRING
        {
            map.values_mut().filter(|child| child.is_null()).for_each(|child| *child = "".into());
        }
        if drop_nulls && map.values().any(Value::is_null) {
            map.retain(|key, child| {
                let field = self.field(node, key).map(|id| self.node(id));
                !(child.is_null() && field.is_some_and(|f| !f.nullable && f.default.is_none()))
            });
        }
        // Of custom objects only the metadata has a type in Go.
        if node.wire.is_some() {
            map.retain(|key, child| !self.is_omitted(node, key, child));
        }
        if node.below.defaults {
            for (name, id) in node.properties.iter() {
                let Some(default) = &self.node(*id).default else {
                    continue;
                };
                match map.get(name.as_ref()) {
                    Some(Value::Null) if !self.node(*id).nullable => {}
                    None => {}
                    Some(_) => continue,
                }
                if node.wire.is_none() || !self.is_omitted(node, name, default) {
                    map.insert(name.to_string(), default.clone());
                }
            }
        }
        for (key, child) in map.iter_mut() {
            match (node.property(key), node.additional) {
                (Some(id), _) => self.fill(child, id, drop_nulls),
                (None, Additional::Schema(id)) => {
                    if child.is_null() && !self.node(id).nullable {
                        *child = self.node(id).default.clone().unwrap_or(Value::Null);
                    }
                    self.fill(child, id, drop_nulls);
                }
                (None, Additional::None | Additional::Any) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(spec_schema: &Value, mut spec: Value, expected: Value) {
        let schema = Schema::custom(Some(&json!({"type": "object", "properties": {"spec": spec_schema}})), false);
        spec = json!({ "spec": spec });
        schema.default(&mut spec);
        assert_eq!(spec["spec"], expected);
    }

    #[test]
    fn missing_fields_get_defaults_at_every_depth() {
        let spec = json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": 3},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "x"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "boolean", "default": true}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"e": {"type": "string", "default": "y"}}}},
            "none": {"type": "object", "properties": {"f": {"type": "string", "default": "z"}}},
        }});
        check(
            &spec,
            json!({"list": [{}, {"d": false}], "map": {"k": {}}}),
            json!({"a": 3, "b": {"c": "x"}, "list": [{"d": true}, {"d": false}], "map": {"k": {"e": "y"}}}),
        );
    }

    #[test]
    fn what_go_leaves_out_is_left_out() {
        let schema = Schema::builtin("io.k8s.api.core.v1.Node").expect("in the tables");
        let mut node = json!({"metadata": {"name": "a", "labels": {}, "generateName": ""},
            "spec": {"unschedulable": false, "podCIDR": "", "taints": []}, "status": {}});
        schema.default(&mut node);
        assert_eq!(node["metadata"], json!({"name": "a"}));
        assert_eq!(node["spec"], json!({}));
        let schema = Schema::builtin("io.k8s.api.apps.v1.Deployment").expect("in the tables");
        let mut deployment = json!({"spec": {"replicas": 0, "paused": false}});
        schema.default(&mut deployment);
        assert_eq!(deployment["spec"]["replicas"], 0, "a pointer says that it was set");
        assert_eq!(deployment["spec"]["paused"], Value::Null);
        let custom = Schema::custom(None, false);
        let mut object = json!({"metadata": {"annotations": {}}, "spec": {"empty": ""}});
        custom.default(&mut object);
        assert_eq!(object, json!({"metadata": {}, "spec": {"empty": ""}}));
    }

    #[test]
    fn nulls_are_replaced_kept_or_dropped_by_what_the_schema_says() {
        let spec = json!({"type": "object", "properties": {
            "defaulted": {"type": "string", "default": "d"},
            "nullable": {"type": "string", "nullable": true, "default": "d"},
            "plain": {"type": "string"},
        }});
        check(
            &spec,
            json!({"defaulted": null, "nullable": null, "plain": null}),
            json!({"defaulted": "d", "nullable": null}),
        );
    }
}
