//! The walk detects each class of difference: every case changes one thing in our copy of a small CRD.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::definition;

fn upstream() -> Value {
    json!({
        "metadata": { "name": "things.example.org" },
        "spec": {
            "group": "example.org",
            "names": { "kind": "Thing", "plural": "things", "shortNames": ["th"], "categories": ["all"] },
            "scope": "Cluster",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" },
                },
                "additionalPrinterColumns": [
                    { "name": "Size", "type": "string", "jsonPath": ".spec.size" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1 },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": { "spec": {
                        "type": "object",
                        "properties": {
                            "size": {
                                "type": "string",
                                "enum": ["Small", "Large"],
                                "default": "Small",
                                "minLength": 1,
                                "maxLength": 9,
                                "pattern": "^[A-Z]",
                                "description": "How large it is.",
                                "x-kubernetes-validations": [{ "rule": "self != oldSelf", "message": "must change" }],
                            },
                            "replicas": {
                                "type": "integer",
                                "format": "int32",
                                "minimum": 0,
                                "maximum": 9,
                                "nullable": true,
                            },
                            "parts": {
                                "type": "array",
                                "maxItems": 5,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": {
                                    "type": "object",
                                    "x-kubernetes-map-type": "atomic",
                                    "properties": { "name": { "type": "string" } },
                                },
                            },
                            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                            "raw": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                            "either": {
                                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                                "x-kubernetes-int-or-string": true,
                            },
                        },
                    } },
                } },
            }],
        },
    })
}

/// Sets or removes the value at `pointer` in our copy, and expects exactly one difference.
#[track_caller]
fn check(pointer: &str, change: Option<Value>, expected: &str) {
    let mut ours = upstream();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = ours.pointer_mut(parent).unwrap();
    match (parent, change) {
        (Value::Object(fields), Some(value)) => {
            fields.insert(key.to_owned(), value);
        }
        (Value::Object(fields), None) => {
            fields.remove(key).unwrap();
        }
        (Value::Array(items), Some(value)) => items.push(value),
        (Value::Array(items), None) => {
            items.remove(key.parse().unwrap());
        }
        _ => panic!("{pointer} does not name a member"),
    }
    assert_eq!(definition(&upstream(), &ours), [expected]);
}

const VERSION: &str = "/spec/versions/0";

#[track_caller]
fn check_version(below: &str, change: Option<Value>, expected: &str) {
    check(&format!("{VERSION}{below}"), change, expected);
}

#[track_caller]
fn check_spec(below: &str, change: Option<Value>, expected: &str) {
    check_version(&format!("/schema/openAPIV3Schema/properties/spec/properties{below}"), change, expected);
}

#[test]
fn equal_definitions_do_not_differ() {
    assert!(definition(&upstream(), &upstream()).is_empty());
}

#[test]
fn prose_and_the_spelling_of_numbers_do_not_count() {
    let mut ours = upstream();
    let spec = ours.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    spec["properties"]["size"]["description"] = json!("In other words.");
    spec["properties"]["replicas"]["minimum"] = json!(0.0);
    assert!(definition(&upstream(), &ours).is_empty());
}

#[test]
fn names_and_scope() {
    check("/spec/group", Some(json!("other.org")), r#"group: is "other.org" instead of "example.org""#);
    check("/spec/names/kind", Some(json!("Other")), r#"names: kind is "Other" instead of "Thing""#);
    check("/spec/names/shortNames", None, r#"names: shortNames lacks "th""#);
    check("/spec/names/shortNames/-", Some(json!("t")), r#"names: shortNames adds "t""#);
    check("/spec/names/categories/0", None, r#"names: categories lacks "all""#);
    check("/spec/scope", Some(json!("Namespaced")), r#"scope: is "Namespaced" instead of "Cluster""#);
}

#[test]
fn versions_and_subresources() {
    check("/spec/versions/0", None, "v1: we lack the version");
    check("/spec/versions/-", Some(json!({ "name": "v2" })), "v2: we add the version");
    check_version("/served", Some(json!(false)), "v1: served is false instead of true");
    check_version("/subresources/status", None, "v1 subresource status: we lack the subresource");
    check_version(
        "/subresources/scale/specReplicasPath",
        Some(json!(".spec.count")),
        r#"v1 subresource scale: specReplicasPath is ".spec.count" instead of ".spec.replicas""#,
    );
    check_version(
        "/subresources/scale/labelSelectorPath",
        Some(json!(".status.selector")),
        r#"v1 subresource scale: labelSelectorPath is ".status.selector", upstream has none"#,
    );
}

#[test]
fn columns() {
    check_version("/additionalPrinterColumns/0", None, "v1 column Size: we lack the column");
    check_version(
        "/additionalPrinterColumns/-",
        Some(json!({ "name": "More", "type": "string", "jsonPath": ".spec" })),
        "v1 column More: we add the column",
    );
    check_version(
        "/additionalPrinterColumns/0/jsonPath",
        Some(json!(".spec.width")),
        r#"v1 column Size: jsonPath is ".spec.width" instead of ".spec.size""#,
    );
    check_version("/additionalPrinterColumns/1/priority", None, "v1 column Age: priority is missing, upstream has 1");
    let mut ours = upstream();
    ours.pointer_mut("/spec/versions/0/additionalPrinterColumns").unwrap().as_array_mut().unwrap().reverse();
    assert_eq!(
        definition(&upstream(), &ours),
        [r#"v1 columns: the order is ["Age", "Size"] instead of ["Size", "Age"]"#]
    );
}

#[test]
fn properties() {
    check_spec("/size", None, "v1.spec.size: we lack the property");
    check_spec("/more", Some(json!({ "type": "string" })), "v1.spec.more: we add the property");
    check_spec("/parts/items/properties/name", None, "v1.spec.parts[].name: we lack the property");
    check_version("/schema/openAPIV3Schema/required/0", None, r#"v1: required lacks "spec""#);
    check_version("/schema/openAPIV3Schema/required/-", Some(json!("status")), r#"v1: required adds "status""#);
}

#[test]
fn types_enums_and_defaults() {
    check_spec("/size/type", Some(json!("integer")), r#"v1.spec.size: type is "integer" instead of "string""#);
    check_spec("/replicas/format", Some(json!("int64")), r#"v1.spec.replicas: format is "int64" instead of "int32""#);
    check_spec("/replicas/format", None, r#"v1.spec.replicas: format is missing, upstream has "int32""#);
    check_spec("/replicas/nullable", None, "v1.spec.replicas: nullable is missing, upstream has true");
    check_spec("/size/nullable", Some(json!(true)), "v1.spec.size: nullable is true, upstream has none");
    check_spec("/size/enum/0", None, r#"v1.spec.size: enum lacks "Small""#);
    check_spec("/size/enum/-", Some(json!("Huge")), r#"v1.spec.size: enum adds "Huge""#);
    check_spec("/size/default", None, r#"v1.spec.size: default is missing, upstream has "Small""#);
    check_spec("/replicas/default", Some(json!(1)), "v1.spec.replicas: default is 1, upstream has none");
    check_spec(
        "/labels/additionalProperties/type",
        Some(json!("integer")),
        r#"v1.spec.labels.*: type is "integer" instead of "string""#,
    );
    check_spec(
        "/labels/additionalProperties",
        None,
        r#"v1.spec.labels: additionalProperties is missing, upstream has {"type":"string"}"#,
    );
    check_spec(
        "/either/anyOf/0",
        None,
        r#"v1.spec.either: anyOf is [{"type":"string"}] instead of [{"type":"integer"},{"type":"string"}]"#,
    );
}

#[test]
fn bounds() {
    check_spec("/size/minLength", None, "v1.spec.size: minLength is missing, upstream has 1");
    check_spec("/size/maxLength", Some(json!(10)), "v1.spec.size: maxLength is 10 instead of 9");
    check_spec("/size/pattern", Some(json!("^[a-z]")), r#"v1.spec.size: pattern is "^[a-z]" instead of "^[A-Z]""#);
    check_spec("/replicas/minimum", Some(json!(1)), "v1.spec.replicas: minimum is 1 instead of 0");
    check_spec("/parts/maxItems", None, "v1.spec.parts: maxItems is missing, upstream has 5");
    check_spec("/parts/minItems", Some(json!(1)), "v1.spec.parts: minItems is 1, upstream has none");
}

#[test]
fn rules() {
    let rule = r#"v1.spec.size rule "self != oldSelf""#;
    check_spec("/size/x-kubernetes-validations", None, &format!("{rule}: we lack the rule"));
    check_spec(
        "/size/x-kubernetes-validations/-",
        Some(json!({ "rule": "self != ''" })),
        r#"v1.spec.size rule "self != ''": we add the rule"#,
    );
    check_spec(
        "/size/x-kubernetes-validations/0/message",
        Some(json!("must differ")),
        &format!(r#"{rule}: message is "must differ" instead of "must change""#),
    );
    check_spec(
        "/size/x-kubernetes-validations/0/optionalOldSelf",
        Some(json!(true)),
        &format!("{rule}: optionalOldSelf is true, upstream has none"),
    );
}

#[test]
fn extensions_and_unknown_keywords() {
    check_spec(
        "/parts/x-kubernetes-list-type",
        Some(json!("atomic")),
        r#"v1.spec.parts: x-kubernetes-list-type is "atomic" instead of "map""#,
    );
    check_spec(
        "/parts/x-kubernetes-list-map-keys/0",
        None,
        r#"v1.spec.parts: x-kubernetes-list-map-keys lacks "name""#,
    );
    check_spec(
        "/parts/items/x-kubernetes-map-type",
        None,
        r#"v1.spec.parts[]: x-kubernetes-map-type is missing, upstream has "atomic""#,
    );
    check_spec(
        "/raw/x-kubernetes-preserve-unknown-fields",
        None,
        "v1.spec.raw: x-kubernetes-preserve-unknown-fields is missing, upstream has true",
    );
    check_spec(
        "/either/x-kubernetes-int-or-string",
        None,
        "v1.spec.either: x-kubernetes-int-or-string is missing, upstream has true",
    );
    check_spec(
        "/raw/x-kubernetes-something-new",
        Some(json!(7)),
        "v1.spec.raw: x-kubernetes-something-new is 7, upstream has none",
    );
}
