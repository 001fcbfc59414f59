//! OpenAPI v3 documents of what is served: schemas, and operations with the parameters that kubectl looks for.

mod operations;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// One resource of the group version.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    pub kind: &'a str,
    pub list_kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    pub verbs: &'a [String],
    pub subresources: &'a [Subresource<'a>],
    pub schema: Source<'a>,
}

/// A subresource, with the kind it carries.
#[derive(Debug, Clone, Copy)]
pub struct Subresource<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub verbs: &'a [String],
}

/// Where a kind's schema comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A definition of the built-in tables.
    BuiltIn(&'a str),
    /// `openAPIV3Schema` of a custom resource's version, if it has one.
    Custom(Option<&'a Value>),
}

/// The document of one group version (`v1`, `apps/v1`).
#[must_use]
pub fn document(group: &str, version: &str, served: &[Served<'_>]) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for resource in served {
        let name = schemas.add(group, version, resource);
        operations::add(&mut paths, group, version, resource, &name, &mut schemas);
    }
    for name in [DELETE_OPTIONS, STATUS, PATCH] {
        schemas.refer(name);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": tables::RELEASE },
        "paths": paths,
        "components": {
            "schemas": schemas.complete(),
            "securitySchemes": {
                "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header" },
            },
        },
    })
}

/// The component names used so far, and the schemas that are not in the tables.
#[derive(Default)]
struct Schemas {
    own: Map<String, Value>,
    wanted: BTreeSet<String>,
}

impl Schemas {
    fn refer(&mut self, name: &str) {
        self.wanted.insert(name.to_string());
    }

    /// Adds a kind and its list; returns the kind's component name.
    fn add(&mut self, group: &str, version: &str, resource: &Served<'_>) -> String {
        let (name, list) = match resource.schema {
            Source::BuiltIn(definition) => {
                self.refer(definition);
                (definition.to_string(), format!("{definition}List"))
            }
            Source::Custom(open_api) => {
                let prefix: Vec<&str> = group.rsplit('.').collect();
                let name = format!("{}.{version}.{}", prefix.join("."), resource.kind);
                self.refer(OBJECT_META);
                self.own.insert(name.clone(), custom(open_api, group, version, resource.kind));
                (name, format!("{}.{version}.{}", prefix.join("."), resource.list_kind))
            }
        };
        if resource.verbs.iter().any(|verb| verb == "list") && !tables::definitions().contains_key(&list) {
            self.refer(LIST_META);
            let schema = json!({
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": { "type": "string" },
                    "items": { "type": "array", "items": { "allOf": [{ "$ref": format!("{REFERENCE}{name}") }], "default": {} } },
                    "kind": { "type": "string" },
                    "metadata": { "allOf": [{ "$ref": format!("{REFERENCE}{LIST_META}") }], "default": {} },
                },
                "x-kubernetes-group-version-kind": [gvk(group, version, resource.list_kind)],
            });
            self.own.insert(list.clone(), schema);
        }
        self.refer(&list);
        name
    }

    /// Every schema that is referred to, with what those refer to in turn.
    fn complete(self) -> Map<String, Value> {
        let mut waiting: Vec<String> = self.wanted.into_iter().collect();
        let mut schemas = self.own;
        for schema in schemas.values() {
            references(schema, &mut waiting);
        }
        while let Some(name) = waiting.pop() {
            if schemas.contains_key(&name) {
                continue;
            }
            if let Some(schema) = tables::definitions().get(&name) {
                references(schema, &mut waiting);
                schemas.insert(name, schema.clone());
            }
        }
        schemas
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// A custom kind's schema as clients see it: with the fields every object has.
fn custom(open_api: Option<&Value>, group: &str, version: &str, kind: &str) -> Value {
    let mut schema = match open_api {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::from_iter([
            ("type".to_string(), json!("object")),
            ("x-kubernetes-preserve-unknown-fields".to_string(), json!(true)),
        ]),
    };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            properties.entry(name).or_insert_with(|| json!({ "type": "string" }));
        }
        let metadata = json!({ "allOf": [{ "$ref": format!("{REFERENCE}{OBJECT_META}") }] });
        properties.insert("metadata".to_string(), metadata);
    }
    schema.insert("x-kubernetes-group-version-kind".to_string(), json!([gvk(group, version, kind)]));
    Value::Object(schema)
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().and_then(|v| v.strip_prefix(REFERENCE)) {
                    Some(name) if key == "$ref" => found.push(name.to_string()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbs() -> Vec<String> {
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"].map(String::from).to_vec()
    }

    #[test]
    fn a_built_in_group_version_has_its_schemas_and_operations() {
        let verbs = verbs();
        let status_verbs = ["get", "patch", "update"].map(String::from);
        let status =
            [Subresource { name: "status", group: "apps", version: "v1", kind: "Deployment", verbs: &status_verbs }];
        let served = Served {
            kind: "Deployment",
            list_kind: "DeploymentList",
            plural: "deployments",
            namespaced: true,
            verbs: &verbs,
            subresources: &status,
            schema: Source::BuiltIn("io.k8s.api.apps.v1.Deployment"),
        };
        let document = document("apps", "v1", &[served]);
        let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        assert_eq!(item["patch"]["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        let parameters = item["patch"]["parameters"].as_array().expect("parameters");
        assert!(parameters.iter().any(|p| p["name"] == "fieldValidation"));
        assert!(document["paths"]["/apis/apps/v1/deployments"]["get"].is_object());
        assert!(document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status"]["put"].is_object());
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let mut wanted = Vec::new();
        references(&document, &mut wanted);
        for name in wanted {
            assert!(schemas.contains_key(&name), "{name} is referred to");
        }
    }

    #[test]
    fn a_custom_kind_is_named_by_its_reversed_group() {
        let verbs = verbs();
        let own = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let served = Served {
            kind: "Thing",
            list_kind: "ThingList",
            plural: "things",
            namespaced: false,
            verbs: &verbs,
            subresources: &[],
            schema: Source::Custom(Some(&own)),
        };
        let document = document("a.example", "v1", &[served]);
        let thing = &document["components"]["schemas"]["example.a.v1.Thing"];
        assert!(thing["properties"]["spec"].is_object() && thing["properties"]["metadata"].is_object());
        assert!(document["paths"]["/apis/a.example/v1/things/{name}"]["get"].is_object());
    }
}
