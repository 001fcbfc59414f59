//! Paths and operations of a resource.

use serde_json::{Map, Value, json};

use super::{DELETE_OPTIONS, PATCH, REFERENCE, STATUS, Schemas, Served, Source, gvk};

const DRY_RUN: &str = "dryRun";
const FIELD_MANAGER: &str = "fieldManager";
const FIELD_VALIDATION: &str = "fieldValidation";
const LIST_PARAMETERS: [&str; 9] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
];
const DELETE_PARAMETERS: [&str; 4] = [DRY_RUN, "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];

/// What an operation is about.
struct Subject<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    component: &'a str,
    custom: bool,
}

pub(super) fn add(
    paths: &mut Map<String, Value>,
    group: &str,
    version: &str,
    resource: &Served<'_>,
    component: &str,
    schemas: &mut Schemas,
) {
    let root = match group.is_empty() {
        true => format!("/api/{version}"),
        false => format!("/apis/{group}/{version}"),
    };
    let base = match resource.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
        false => format!("{root}/{}", resource.plural),
    };
    let custom = matches!(resource.schema, Source::Custom(_));
    let subject = Subject { group, version, kind: resource.kind, component, custom };
    let list = match resource.schema {
        Source::BuiltIn(definition) => format!("{definition}List"),
        Source::Custom(_) => component.replace(&format!(".{}", resource.kind), &format!(".{}", resource.list_kind)),
    };
    let has = |verb: &str| resource.verbs.iter().any(|v| v == verb);
    let collection = collection(&subject, &list, &has);
    put(paths, base.clone(), collection, resource.namespaced, false);
    if resource.namespaced && has("list") {
        let everywhere = Map::from_iter([("get".to_string(), list_operation(&subject, &list))]);
        put(paths, format!("{root}/{}", resource.plural), everywhere, false, false);
    }
    put(paths, format!("{base}/{{name}}"), item(&subject, &has), resource.namespaced, true);
    for sub in resource.subresources {
        let named = tables::definition_of(sub.group, sub.version, sub.kind).map(str::to_string);
        let name = if sub.kind == resource.kind { Some(component.to_string()) } else { named };
        let Some(name) = name else { continue };
        schemas.refer(&name);
        let subject = Subject { group: sub.group, version: sub.version, kind: sub.kind, component: &name, custom };
        let has = |verb: &str| sub.verbs.iter().any(|v| v == verb);
        let mut operations = item(&subject, &has);
        if has("create") {
            operations.insert("post".to_string(), write(&subject, "post", 201));
        }
        put(paths, format!("{base}/{{name}}/{}", sub.name), operations, resource.namespaced, true);
    }
}

fn put(paths: &mut Map<String, Value>, path: String, operations: Map<String, Value>, namespaced: bool, named: bool) {
    if operations.is_empty() {
        return;
    }
    let mut parameters = Vec::new();
    for (used, name) in [(named, "name"), (namespaced, "namespace")] {
        if used {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true },
            }));
        }
    }
    parameters.push(query("pretty"));
    let mut item = operations;
    item.insert("parameters".to_string(), Value::Array(parameters));
    paths.insert(path, Value::Object(item));
}

fn collection(subject: &Subject<'_>, list: &str, has: &impl Fn(&str) -> bool) -> Map<String, Value> {
    let mut operations = Map::new();
    if has("list") {
        operations.insert("get".to_string(), list_operation(subject, list));
    }
    if has("create") {
        operations.insert("post".to_string(), write(subject, "post", 201));
    }
    if has("deletecollection") {
        let mut parameters: Vec<&str> = LIST_PARAMETERS.to_vec();
        parameters.extend(DELETE_PARAMETERS);
        operations.insert("delete".to_string(), delete(subject, "deletecollection", &parameters));
    }
    operations
}

fn item(subject: &Subject<'_>, has: &impl Fn(&str) -> bool) -> Map<String, Value> {
    let mut operations = Map::new();
    if has("get") {
        let answer = content(subject.component, &["application/json", "application/yaml"]);
        operations.insert("get".to_string(), operation(subject, "get", &[], None, &[(200, answer)]));
    }
    if has("update") {
        operations.insert("put".to_string(), write(subject, "put", 200));
    }
    if has("patch") {
        operations.insert("patch".to_string(), patch(subject));
    }
    if has("delete") {
        operations.insert("delete".to_string(), delete(subject, "delete", &DELETE_PARAMETERS));
    }
    operations
}

fn list_operation(subject: &Subject<'_>, list: &str) -> Value {
    let answer = content(list, &["application/json", "application/yaml"]);
    let mut parameters: Vec<&str> = LIST_PARAMETERS.to_vec();
    parameters.push("watch");
    operation(subject, "list", &parameters, None, &[(200, answer)])
}

fn write(subject: &Subject<'_>, action: &str, code: u16) -> Value {
    let body = content(subject.component, &["application/json", "application/yaml"]);
    let answers = [(200, body.clone()), (code.max(201), body.clone())];
    operation(subject, action, &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION], Some(&body), &answers)
}

fn patch(subject: &Subject<'_>) -> Value {
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
    if !subject.custom {
        types.push("application/strategic-merge-patch+json");
    }
    let answer = content(subject.component, &["application/json", "application/yaml"]);
    let body = content(PATCH, &types);
    let parameters = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, "force"];
    operation(subject, "patch", &parameters, Some(&body), &[(200, answer.clone()), (201, answer)])
}

fn delete(subject: &Subject<'_>, action: &str, parameters: &[&str]) -> Value {
    let body = content(DELETE_OPTIONS, &["application/json", "application/yaml"]);
    let answer = content(STATUS, &["application/json", "application/yaml"]);
    operation(subject, action, parameters, Some(&body), &[(200, answer)])
}

fn operation(
    subject: &Subject<'_>,
    action: &str,
    parameters: &[&str],
    body: Option<&Value>,
    answers: &[(u16, Value)],
) -> Value {
    let mut responses: Map<String, Value> = answers
        .iter()
        .map(|(code, content)| (code.to_string(), json!({ "description": "OK", "content": content })))
        .collect();
    responses.insert("401".to_string(), json!({ "description": "Unauthorized" }));
    let mut operation = json!({
        "parameters": parameters.iter().map(|name| query(name)).collect::<Vec<_>>(),
        "responses": responses,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(subject.group, subject.version, subject.kind),
    });
    if let Some(body) = body {
        operation["requestBody"] = json!({ "content": body, "required": true });
    }
    operation
}

fn content(component: &str, types: &[&str]) -> Value {
    let schema = json!({ "schema": { "$ref": format!("{REFERENCE}{component}") } });
    Value::Object(types.iter().map(|name| (name.to_string(), schema.clone())).collect())
}

fn query(name: &str) -> Value {
    let kind = match name {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        "watch" | "force" | "allowWatchBookmarks" | "sendInitialEvents" | "orphanDependents" => "boolean",
        _ => "string",
    };
    json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
}
