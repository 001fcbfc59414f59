//! Cases with the answers of a real server (kube-apiserver of the tables' release), recorded and compared.
//!
//! `e2e` runs the same cases on a real server, so a recording cannot go stale unnoticed.

use std::sync::Arc;

use schema::Schema;
use serde_json::{Value, json};

use crate::model::Model;

/// Errors of one object come in no fixed order from the real server, which walks Go maps.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    // Entries are ordered by time, and times are not compared.
    let managed = answer.pointer_mut("/object/metadata/managedFields").and_then(Value::as_array_mut);
    if let Some(managed) = managed {
        managed.sort_by_key(Value::to_string);
    }
    let Some(causes) = answer.get_mut("causes").and_then(Value::as_array_mut) else { return answer };
    causes.sort_by_key(Value::to_string);
    if causes.len() > 1 {
        let message = answer["message"].as_str().unwrap_or("");
        let mut parts: Vec<&str> = message.split([',', '[', ']', '\n']).map(str::trim).collect();
        parts.sort_unstable();
        answer["message"] = json!(parts);
    }
    answer
}

#[test]
fn custom_resources_are_answered_as_by_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("custom.json")).unwrap();
    let mut differences = Vec::new();
    let mut compared = 0;
    for (at, case) in cases.iter().enumerate() {
        let group = format!("c{at}.example.test");
        let schema = Arc::new(Schema::custom(Some(&case["schema"]), false));
        let version = format!("{group}/v1");
        let mut model = Model::new(schema, &group, &version, "Thing", case["status"] == true, true);
        for (step, expected) in case["steps"].as_array().unwrap().iter().zip(case["answers"].as_array().unwrap()) {
            let mut step = step.clone();
            if step.get("manager").is_none() {
                step["manager"] = json!("m");
            }
            let answer = comparable(&model.step(&step));
            compared += 1;
            if answer != comparable(expected) {
                differences
                    .push(format!("{}: {step}\n  real {}\n  ours {answer}", case["name"], comparable(expected),));
            }
        }
    }
    assert!(compared > 150, "only {compared} answers were compared");
    assert!(differences.is_empty(), "{} of {compared} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Where two answers differ, one line per place.
fn differing(real: &Value, ours: &Value, path: &str, lines: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let none = Value::Null;
                differing(a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), &format!("{path}/{key}"), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differing(a, b, &format!("{path}/{at}"), lines);
            }
        }
        (a, b) if a != b => lines.push(format!("  {path}: real {a}, ours {b}")),
        _ => {}
    }
}

/// Each step starts from what the real server had, since its own defaulting of built-in kinds is not this crate's.
#[test]
fn built_in_kinds_are_patched_and_tracked_as_by_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("builtin.json")).unwrap();
    let mut differences = Vec::new();
    let mut compared = 0;
    for case in &cases {
        let (version, kind) = (case["version"].as_str().unwrap(), case["kind"].as_str().unwrap());
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let short = version.rsplit('/').next().unwrap();
        let definition = tables::definition_of(group, short, kind).unwrap();
        let mut model = Model::new(Schema::builtin(definition).unwrap(), group, version, kind, true, false);
        let steps = case["steps"].as_array().unwrap();
        let mut live: Option<Value> = None;
        for (step, expected) in steps.iter().zip(case["answers"].as_array().unwrap()) {
            // A patch that does not decode is answered with the whole object as text, by the server itself.
            let whole = expected["causes"][0]["field"] == "patch";
            if let (Some(live), false, false) = (&live, whole, step["skip"].is_string()) {
                model.continue_from(live);
                let answer = comparable(&model.step(step));
                compared += 1;
                let mut lines = Vec::new();
                differing(&comparable(expected), &answer, "", &mut lines);
                if !lines.is_empty() {
                    differences.push(format!("{}: {step}\n{}", case["name"], lines.join("\n")));
                }
            }
            live = expected.get("object").cloned().or(live);
        }
    }
    assert!(compared > 50, "only {compared} answers were compared");
    assert!(differences.is_empty(), "{} of {compared} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn definitions_are_judged_as_by_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("definitions.json")).unwrap();
    let mut differences = Vec::new();
    for case in &cases {
        let mut crd = case["crd"].clone();
        Schema::builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
            .unwrap()
            .default(&mut crd);
        schema::crd::default(&mut crd);
        let mut errors = schema::metadata::validate_create(&crd, false, schema::metadata::NameRule::Subdomain);
        errors.extend(schema::crd::validate(&crd, None));
        errors.sort_by_key(schema::FieldError::message);
        errors.dedup();
        // Go prints an internal type here, in its own order of fields.
        let plain = |text: String| match text.starts_with("spec.versions: Invalid value: [") {
            true => text.rsplit(": ").next().unwrap_or_default().to_string(),
            false => text,
        };
        let ours: Vec<String> = errors.iter().map(schema::FieldError::message).map(plain).collect();
        let mut real: Vec<String> = case["answer"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap()))
            .map(plain)
            .collect();
        real.sort();
        real.dedup();
        if ours != real {
            differences.push(format!(
                "{}:\n  real {}\n  ours {}",
                case["name"],
                real.join("\n       "),
                ours.join("\n       ")
            ));
        }
    }
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}
