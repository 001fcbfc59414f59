//! Server-side apply against the real server's own: structured-merge-diff and the managers around it, as a Go program.
//!
//! Schemas and sequences of writes are made up from a seed and played by both; objects, owners and the texts of conflicts
//! must be equal after every write. `APPLY_SEEDS=1000..100000` looks longer than every run does. Stories that found a
//! difference stay, in their smallest form, in `applying/found.jsonl`.

mod plan;
mod shrink;

use schema::{
    Schema,
    managed::{self, ApplyError, Writer},
};
use serde_json::{Value, json};

use super::oracle::Oracle;

const FOUND: &str = include_str!("applying/found.jsonl");

/// How often the real one is asked why it refuses an object, before its answers count as different from ours.
const ASK_AGAIN: usize = 8;

/// As many as take some seconds.
const SEEDS: std::ops::Range<u64> = 0..300;

#[test]
fn server_side_apply_agrees_with_structured_merge_diff() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut differences = Vec::new();
    for (line, text) in FOUND.lines().enumerate() {
        let story: Value = serde_json::from_str(text).unwrap();
        differences.extend(difference(&mut oracle, &story).map(|it| format!("found.jsonl, line {}: {it}", line + 1)));
    }
    for seed in seeds() {
        let story = plan::story(seed);
        if difference(&mut oracle, &story).is_some() {
            assert_eq!(refusals(&story), "", "seed {seed} made up no structural schema");
            let misfits = misfits(&story);
            let still = |story: &Value| {
                self::misfits(story) <= misfits
                    && refusals(story).is_empty()
                    && difference(&mut oracle, story).is_some()
            };
            let smallest = shrink::smallest(story, still);
            let difference = difference(&mut oracle, &smallest).unwrap_or_default();
            differences.push(format!("seed {seed}: {difference}\n{smallest}"));
        }
        if differences.len() >= 5 {
            break;
        }
    }
    assert!(differences.is_empty(), "apply differs from the real server's:\n{}", differences.join("\n\n"));
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("APPLY_SEEDS") else { return SEEDS };
    let bounds = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    bounds.expect("APPLY_SEEDS is like 1000..2000")
}

/// How many writes have fields that the schema does not have, or are updates that no server would store.
fn misfits(story: &Value) -> usize {
    let schema = Schema::custom(Some(&story["schema"]), false);
    let fits = |write: &&Value| {
        let mut pruned = write["object"].clone();
        schema.prune(&mut pruned);
        pruned == write["object"] && (write["apply"] == true || schema.validate(&pruned, None).is_empty())
    };
    let writes = story["writes"].as_array().into_iter().flatten();
    writes.filter(|write| !fits(write)).count()
}

/// Why no server would take this schema.
fn refusals(story: &Value) -> String {
    let names = json!({ "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": story["schema"] },
    });
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.oracle.dev" },
        "spec": { "group": "oracle.dev", "names": names, "scope": "Namespaced", "versions": [version] },
    });
    schema::crd::default(&mut definition);
    schema::crd::validate(&definition, None).iter().map(|error| format!("{error:?}\n")).collect()
}

/// Where both disagree first.
///
/// Go's maps have no order, so an object with several faults is refused for any of them: it is asked again.
fn difference(oracle: &mut Oracle, story: &Value) -> Option<String> {
    let ours = play(story);
    let mut difference = None;
    for _ in 0..ASK_AGAIN {
        let theirs = oracle.ask(story);
        difference = (0..theirs.len()).find_map(|at| {
            let (theirs, ours) = (normal(&theirs[at]), normal(&ours[at]));
            let refused = theirs["error"].is_string() && ours["error"].is_string();
            let text = format!("write {at}: {}\nreal: {theirs}\nours: {ours}", story["writes"][at]);
            (theirs != ours).then_some((text, refused))
        });
        match &difference {
            Some((_, true)) => {}
            _ => break,
        }
    }
    difference.map(|(text, _)| text)
}

/// Our side of a story; a refused write leaves the object as it was.
fn play(story: &Value) -> Vec<Value> {
    let schema = Schema::custom(Some(&story["schema"]), false);
    let mut live: Option<Value> = None;
    let mut outcomes = Vec::new();
    for write in story["writes"].as_array().into_iter().flatten() {
        match carry_out(&schema, live.as_ref(), write) {
            Ok(mut object) => {
                object["metadata"]["uid"] = "1".into();
                outcomes.push(json!({ "object": object }));
                live = Some(object);
            }
            Err(error) => outcomes.push(json!({ "error": error })),
        }
    }
    outcomes
}

fn carry_out(schema: &Schema, live: Option<&Value>, write: &Value) -> Result<Value, String> {
    let text = |key: &str| write[key].as_str().unwrap_or_default();
    let writer = Writer {
        manager: text("manager"),
        api_version: "oracle.dev/v1",
        subresource: text("subresource"),
        time: "2020-01-01T00:00:00Z",
    };
    let reset: Vec<&str> = write["reset"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let object = &write["object"];
    if write["apply"] != true {
        let mut object = object.clone();
        managed::update(schema, live, &mut object, &writer, &reset);
        return Ok(object);
    }
    let applied = managed::apply(schema, live, object, &writer, write["force"] == true, &reset);
    applied.map(|applied| applied.object).map_err(|error| match error {
        ApplyError::Untyped(text) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            format!("failed to create typed patch object (/{name}; oracle.dev/v1, Kind=Thing): {text}")
        }
        ApplyError::Conflict(_) | ApplyError::BadRequest(_) => error.to_string(),
    })
}

/// Times differ, and with them the order of entries.
fn normal(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    let entries = outcome.pointer_mut("/object/metadata/managedFields").and_then(Value::as_array_mut);
    if let Some(entries) = entries {
        for entry in entries.iter_mut() {
            entry["time"] = Value::Null;
        }
        entries.sort_by_key(Value::to_string);
    }
    if let Some((head, list)) = outcome["error"].as_str().and_then(|text| text.split_once("errors:\n")) {
        let mut lines: Vec<&str> = list.lines().collect();
        lines.sort_unstable();
        outcome["error"] = format!("{head}errors:\n{}", lines.join("\n")).into();
    }
    outcome
}
