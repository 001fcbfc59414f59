//! The types of a policy's expressions, checked against the schemas of the kinds that it is about.
//!
//! The policy is in force whatever is found; what is found is told in its status.

use serde_json::{Map, Value, json};

use cel::{Declared, admission::Admission};

/// A kind that a policy is about or takes its parameters from.
#[derive(Debug)]
pub struct Kind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    /// The OpenAPI document that has its schema.
    pub document: &'a Value,
}

/// What does not fit, as `expressionWarnings`. The names of types end in `number`.
#[must_use]
pub fn warnings(policy: &Value, kinds: &[Kind<'_>], params: Option<&Kind<'_>>, number: u32) -> Vec<Value> {
    let spec = &policy["spec"];
    let declare = |kind: &Kind<'_>| {
        let resolved = schema_of(kind)?;
        Declared::resource(&resolved, &format!("{}{number}", kind.kind))
    };
    let declared: Vec<(&Kind<'_>, Declared)> = kinds.iter().filter_map(|kind| Some((kind, declare(kind)?))).collect();
    let params = params.and_then(declare);
    let params = spec["paramKind"].is_object().then_some(params.as_ref());
    let environments: Vec<(&Kind<'_>, Admission<'_>)> = declared
        .iter()
        .map(|(kind, declared)| {
            let mut seen = Admission::typed(declared, params);
            for variable in spec["variables"].as_array().into_iter().flatten() {
                // What is wrong with a variable was told when the policy was written, or shows where it is used.
                let _ = seen.add(text(&variable["name"]), text(&variable["expression"]));
            }
            (*kind, seen)
        })
        .collect();
    let mut warnings = Vec::new();
    for (at, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = text(&validation[field]);
            if expression.is_empty() {
                continue;
            }
            let found: Vec<String> = environments
                .iter()
                .filter_map(|(kind, seen)| {
                    let problems = seen.problems(expression)?;
                    Some(format!("{}/{}, Kind={}: {problems}\n", kind.group, kind.version, kind.kind))
                })
                .collect();
            if !found.is_empty() {
                let place = format!("spec.validations[{at}].{field}");
                warnings.push(json!({"fieldRef": place, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

/// The schema of a kind with everything put in that it refers to.
fn schema_of(kind: &Kind<'_>) -> Option<Value> {
    let schemas = kind.document["components"]["schemas"].as_object()?;
    let (name, schema) = schemas.iter().find(|(_, schema)| {
        schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| {
            kinds
                .iter()
                .any(|own| own["group"] == kind.group && own["version"] == kind.version && own["kind"] == kind.kind)
        })
    })?;
    Some(resolved(schema, schemas, &mut vec![name.as_str()]))
}

fn resolved<'s>(schema: &'s Value, schemas: &'s Map<String, Value>, above: &mut Vec<&'s str>) -> Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"].as_array()?.first()?["$ref"].as_str());
    let target = reference.and_then(|reference| reference.rsplit('/').next());
    let Some(name) = target else { return inside(schema, schemas, above) };
    if above.contains(&name) {
        return json!({"type": "object"});
    }
    let Some(found) = schemas.get(name) else { return json!({"type": "object"}) };
    above.push(name);
    let found = inside(found, schemas, above);
    above.pop();
    found
}

fn inside<'s>(schema: &'s Value, schemas: &'s Map<String, Value>, above: &mut Vec<&'s str>) -> Value {
    let mut out = schema.clone();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        out["properties"][name] = resolved(property, schemas, above);
    }
    for field in ["additionalProperties", "items"] {
        if schema[field].is_object() {
            out[field] = resolved(&schema[field], schemas, above);
        }
    }
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
