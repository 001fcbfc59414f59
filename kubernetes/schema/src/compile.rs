//! Compiles OpenAPI schemas into nodes: those of CustomResourceDefinitions and those of the built-in tables.
//!
//! Compiling never refuses: what is not structural is found by `structural`, before a definition is accepted.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::{Map, Value};

use crate::{
    node::{Additional, Below, Id, Limits, List, Node, Patch, Pattern, Schema, Types},
    rules::Rule,
};

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Built-in types whose times are values in Go, not pointers.
const ALWAYS_TIMED: [&str; 5] =
    ["Condition", ".Event", ".EventSeries", ".ContainerStateRunning", ".ContainerStateTerminated"];

/// Deeper schemas than this are cut off; the real server's own limits lie far below.
const MAX_DEPTH: usize = 256;

static BUILT_IN: LazyLock<Mutex<HashMap<String, Option<Arc<Schema>>>>> = LazyLock::new(Mutex::default);

impl Schema {
    /// Compiles the schema of one version of a custom resource (`schema.openAPIV3Schema`); without one everything is kept.
    #[must_use]
    pub fn custom(open_api: Option<&Value>, preserve_unknown_fields: bool) -> Schema {
        let mut compiler = Compiler { custom: true, ..Compiler::default() };
        let metadata = compiler.definition(OBJECT_META);
        let text = compiler.push(Node { types: Types::STRING, ..Node::default() });
        let keep_all = Value::Object(Map::from_iter([
            ("type".to_string(), "object".into()),
            ("x-kubernetes-preserve-unknown-fields".to_string(), true.into()),
        ]));
        let root = compiler.node(open_api.unwrap_or(&keep_all), 0);
        compiler.resolve_aliases();
        let mut properties: Vec<(Box<str>, Id)> = compiler.nodes[root as usize].properties.to_vec();
        let checked_metadata = take(&mut properties, "metadata");
        properties.push(("metadata".into(), metadata));
        for name in ["apiVersion", "kind"] {
            if !properties.iter().any(|(key, _)| key.as_ref() == name) {
                properties.push((name.into(), text));
            }
        }
        properties.sort();
        let node = &mut compiler.nodes[root as usize];
        node.properties = properties.into();
        node.preserve |= preserve_unknown_fields;
        node.embedded = true;
        compiler.finish(root, metadata, checked_metadata)
    }

    /// The schema of a built-in kind by its name in the tables; compiled at first use.
    #[must_use]
    pub fn builtin(definition: &str) -> Option<Arc<Schema>> {
        let mut cache = BUILT_IN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = cache.get(definition) {
            return known.clone();
        }
        let schema = tables::definitions().contains_key(definition).then(|| {
            let mut compiler = Compiler::default();
            let metadata = compiler.definition(OBJECT_META);
            let root = compiler.definition(definition);
            compiler.resolve_aliases();
            Arc::new(compiler.finish(root, metadata, None))
        });
        cache.insert(definition.to_string(), schema.clone());
        schema
    }
}

fn take(properties: &mut Vec<(Box<str>, Id)>, name: &str) -> Option<Id> {
    let at = properties.iter().position(|(key, _)| key.as_ref() == name)?;
    Some(properties.swap_remove(at).1)
}

#[derive(Default)]
struct Compiler {
    custom: bool,
    nodes: Vec<Node>,
    known: HashMap<String, Id>,
    /// Nodes that copy another definition but keep what they say themselves.
    aliases: Vec<(Id, Id)>,
}

impl Compiler {
    fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        Id::try_from(self.nodes.len() - 1).unwrap_or(Id::MAX)
    }

    fn definition(&mut self, name: &str) -> Id {
        if let Some(id) = self.known.get(name) {
            return *id;
        }
        let id = self.push(Node::default());
        self.known.insert(name.to_string(), id);
        if let Some(schema) = tables::definitions().get(name) {
            let custom = std::mem::replace(&mut self.custom, false);
            let mut node = self.build(schema, 0);
            self.custom = custom;
            if ALWAYS_TIMED.iter().any(|suffix| name.ends_with(suffix)) {
                self.keep_times(schema, &mut node);
            }
            // Whatever stands there is kept as it is, and judged by whoever it is for.
            if name.ends_with(".runtime.RawExtension") {
                node.types = Types(0);
            }
            node.go = name.rsplit('.').next().map(Arc::from);
            node.wire = tables::message(name);
            self.nodes[id as usize] = node;
        }
        id
    }

    /// Times that Go's type holds by value are written as null when they are not set.
    fn keep_times(&mut self, schema: &Value, node: &mut Node) {
        let mut properties = node.properties.to_vec();
        for (name, id) in &mut properties {
            let target = reference(&schema["properties"][name.as_ref()])
                .or_else(|| reference(&schema["properties"][name.as_ref()]["allOf"][0]));
            if target.is_some_and(|t| t.ends_with(".Time") || t.ends_with(".MicroTime")) {
                let timed = Node {
                    types: Types::STRING,
                    format: Some(Arc::from("date-time")),
                    default: Some(Value::Null),
                    go: target.and_then(|t| t.rsplit('.').next()).map(Arc::from),
                    ..Node::default()
                };
                *id = self.push(timed);
            }
        }
        node.properties = properties.into();
    }

    fn node(&mut self, schema: &Value, depth: usize) -> Id {
        if !self.custom {
            if let Some(name) = reference(schema) {
                return self.definition(name);
            }
            if let Some(name) = schema["allOf"].as_array().and_then(|l| l.first()).and_then(reference) {
                let target = self.definition(name);
                let own = self.push(Node {
                    default: schema.get("default").cloned(),
                    list: list_type(schema),
                    atomic_map: schema["x-kubernetes-map-type"] == "atomic",
                    patch: patch(schema),
                    ..Node::default()
                });
                self.aliases.push((own, target));
                return own;
            }
        }
        let id = self.push(Node::default());
        if depth < MAX_DEPTH {
            self.nodes[id as usize] = self.build(schema, depth);
        }
        id
    }

    fn build(&mut self, schema: &Value, depth: usize) -> Node {
        let int_or_string = schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string";
        let types = match int_or_string {
            true => Types(Types::INTEGER.0 | Types::STRING.0),
            false => schema["type"].as_str().map_or(Types(0), Types::from_name),
        };
        let mut properties: Vec<(Box<str>, Id)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, child)| (name.as_str().into(), self.node(child, depth + 1)))
            .collect();
        properties.sort();
        let additional = match schema.get("additionalProperties") {
            Some(Value::Object(_)) => Additional::Schema(self.node(&schema["additionalProperties"], depth + 1)),
            Some(Value::Bool(true)) => Additional::Any,
            _ => Additional::None,
        };
        // An object or value of which the tables say nothing is free-form (FieldsV1, RawExtension, JSON).
        let free = !self.custom
            && properties.is_empty()
            && additional == Additional::None
            && (types == Types::OBJECT || (types.is_any() && schema.get("oneOf").is_none()));
        Node {
            types,
            int_or_string,
            nullable: schema["nullable"] == true,
            preserve: free || schema["x-kubernetes-preserve-unknown-fields"] == true,
            embedded: schema["x-kubernetes-embedded-resource"] == true,
            atomic_map: free || schema["x-kubernetes-map-type"] == "atomic",
            default: schema.get("default").cloned(),
            properties: properties.into(),
            additional,
            items: schema.get("items").filter(|i| i.is_object()).map(|items| self.node(items, depth + 1)),
            list: list_type(schema),
            format: schema["format"].as_str().filter(|f| *f != "int-or-string").map(Arc::from),
            limits: self.limits(schema, depth),
            rules: match self.custom {
                true => Rule::compile_all(&schema["x-kubernetes-validations"]).into(),
                false => Arc::new([]),
            },
            below: Below::default(),
            patch: patch(schema),
            go: None,
            wire: None,
        }
    }

    fn limits(&mut self, schema: &Value, depth: usize) -> Option<Arc<Limits>> {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut limits =
            Limits { required: required.filter_map(Value::as_str).map(Box::from).collect(), ..Limits::default() };
        if self.custom {
            let branches = |compiler: &mut Compiler, key: &str| -> Vec<Id> {
                let list = schema[key].as_array().into_iter().flatten();
                list.map(|branch| compiler.node(branch, depth + 1)).collect()
            };
            limits.all_of = branches(self, "allOf");
            limits.any_of = branches(self, "anyOf");
            limits.one_of = branches(self, "oneOf");
            limits.not = schema.get("not").filter(|n| n.is_object()).map(|n| self.node(n, depth + 1));
            limits.one_of_values = schema["enum"].as_array().filter(|l| !l.is_empty()).cloned();
            limits.pattern = schema["pattern"].as_str().filter(|p| !p.is_empty()).map(Pattern::new);
            limits.minimum = schema["minimum"].as_f64();
            limits.exclusive_minimum = schema["exclusiveMinimum"] == true;
            limits.maximum = schema["maximum"].as_f64();
            limits.exclusive_maximum = schema["exclusiveMaximum"] == true;
            limits.multiple_of = schema["multipleOf"].as_f64();
            limits.min_length = schema["minLength"].as_u64();
            limits.max_length = schema["maxLength"].as_u64();
            limits.min_items = schema["minItems"].as_u64();
            limits.max_items = schema["maxItems"].as_u64();
            limits.unique_items = schema["uniqueItems"] == true;
            limits.min_properties = schema["minProperties"].as_u64();
            limits.max_properties = schema["maxProperties"].as_u64();
        }
        (!limits.is_empty()).then(|| Arc::new(limits))
    }

    /// Copies into each alias what its definition says and the alias does not.
    fn resolve_aliases(&mut self) {
        let mut aliases = std::mem::take(&mut self.aliases);
        // An alias of an alias waits until its target is resolved; definitions are never aliases themselves, so one pass
        // in reverse order of discovery is enough, and a second pass costs nothing.
        aliases.reverse();
        for (own, target) in aliases {
            let target = &self.nodes[target as usize];
            let copy = Node {
                types: target.types,
                int_or_string: target.int_or_string,
                nullable: target.nullable,
                preserve: target.preserve,
                embedded: target.embedded,
                atomic_map: target.atomic_map,
                default: None,
                properties: target.properties.clone(),
                additional: target.additional,
                items: target.items,
                list: target.list.clone(),
                format: target.format.clone(),
                limits: target.limits.clone(),
                rules: target.rules.clone(),
                below: target.below,
                patch: None,
                go: target.go.clone(),
                wire: target.wire,
            };
            let node = std::mem::take(&mut self.nodes[own as usize]);
            self.nodes[own as usize] = Node {
                default: node.default,
                atomic_map: node.atomic_map || copy.atomic_map,
                list: if node.list == List::Unspecified { copy.list.clone() } else { node.list },
                patch: node.patch,
                ..copy
            };
        }
    }

    fn finish(mut self, root: Id, metadata: Id, checked_metadata: Option<Id>) -> Schema {
        while self.spread_below() {}
        Schema { nodes: self.nodes, root, metadata, checked_metadata, custom: self.custom }
    }

    /// Carries what each subtree has one level up; true if anything changed.
    fn spread_below(&mut self) -> bool {
        let mut changed = false;
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let mut below = Below {
                defaults: node.below.defaults,
                rules: node.below.rules || !node.rules.is_empty(),
                keyed_lists: node.below.keyed_lists || matches!(node.list, List::Set | List::Map(_)),
            };
            let additional = match node.additional {
                Additional::Schema(id) => Some(id),
                Additional::None | Additional::Any => None,
            };
            let branches = node.limits.iter().flat_map(|l| l.all_of.iter().copied());
            let children = node.properties.iter().map(|(_, id)| *id).chain(additional).chain(node.items);
            for child in children.chain(branches) {
                let child = &self.nodes[child as usize];
                below.defaults |= child.below.defaults || child.default.is_some();
                below.rules |= child.below.rules;
                below.keyed_lists |= child.below.keyed_lists;
            }
            changed |= below != node.below;
            self.nodes[at].below = below;
        }
        changed
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(REFERENCE)
}

/// Lists of built-in kinds without a list type merge as their patch strategy says.
fn list_type(schema: &Value) -> List {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("atomic") => List::Atomic,
        Some("set") => List::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            List::Map(keys.filter_map(Value::as_str).map(Box::from).collect::<Vec<_>>().into())
        }
        _ => match patch(schema).filter(|patch| patch.merge) {
            Some(patch) => patch.key.as_ref().map_or(List::Set, |key| List::Map(Arc::from([key.clone()]))),
            None => List::Unspecified,
        },
    }
}

fn patch(schema: &Value) -> Option<Arc<Patch>> {
    let strategy = schema["x-kubernetes-patch-strategy"].as_str()?;
    Some(Arc::new(Patch {
        merge: strategy.split(',').any(|s| s == "merge"),
        replace: strategy.split(',').any(|s| s == "replace"),
        key: schema["x-kubernetes-patch-merge-key"].as_str().map(Box::from),
    }))
}

impl Limits {
    fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.one_of_values.is_none()
            && self.pattern.is_none()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && self.min_length.is_none()
            && self.max_length.is_none()
            && self.min_items.is_none()
            && self.max_items.is_none()
            && !self.unique_items
            && self.min_properties.is_none()
            && self.max_properties.is_none()
            && self.all_of.is_empty()
            && self.any_of.is_empty()
            && self.one_of.is_empty()
            && self.not.is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_built_in_kind_compiles() {
        for resource in tables::resources() {
            let schema = Schema::builtin(&resource.schema).expect("in the tables");
            let root = schema.node(schema.root);
            assert!(root.property("metadata").is_some() || resource.kind.ends_with("Review"), "{}", resource.kind);
        }
    }

    #[test]
    fn aliases_keep_their_own_default_and_list_type() {
        let schema = Schema::builtin("io.k8s.api.apps.v1.Deployment").expect("in the tables");
        let spec = schema.node(schema.node(schema.root).property("spec").expect("spec"));
        assert_eq!(spec.default, Some(json!({})));
        assert!(spec.property("replicas").is_some());
        let template = schema.node(spec.property("template").expect("template"));
        let pod = schema.node(template.property("spec").expect("spec"));
        let containers = schema.node(pod.property("containers").expect("containers"));
        assert_eq!(containers.list, List::Map(Arc::from([Box::from("name")])));
    }

    #[test]
    fn a_custom_schema_knows_the_metadata_of_objects() {
        let schema =
            Schema::custom(Some(&json!({"type": "object", "properties": {"spec": {"type": "object"}}})), false);
        let root = schema.node(schema.root);
        let metadata = schema.node(root.property("metadata").expect("metadata"));
        assert!(metadata.property("labels").is_some());
        assert!(root.property("kind").is_some());
    }
}
