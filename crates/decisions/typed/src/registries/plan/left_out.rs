//! What is left out of a MachineConfig: noted on it, so that it is told once.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::MachineConfig;
use serde_json::{Map, Value, json};

use crate::plan::{Object, Plan, fingerprint, note};

/// How many objects are named. Annotations have little room, and nobody reads more events than this at once.
const NAMED: usize = 20;
/// The longest reason that is noted, in characters.
const LONGEST: usize = 500;
/// The entry that stands for the others.
const OTHERS: &str = "others";

/// Tells what is not in force and was not told before.
pub(super) fn tell(left_out: &BTreeMap<Object, String>, known: Option<&str>, plan: &mut Plan) {
    let known: Value = known.and_then(|known| serde_json::from_str(known).ok()).unwrap_or_default();
    for (object, why) in left_out.iter().take(NAMED) {
        if known[full_name(object)] != shortened(why).as_str() {
            plan.warn(object.clone(), "RegistryConfigurationNotApplied", why.clone());
        }
    }
    if let Some((object, others)) = left_out.iter().nth(NAMED).zip(others(left_out))
        && known[OTHERS] != others.as_str()
    {
        let count = left_out.len() - NAMED;
        let why =
            format!("this object and {} others are not applied either; correct those that are named first", count - 1);
        plan.warn(object.0.clone(), "RegistryConfigurationNotApplied", why);
    }
}

/// The MachineConfig with a note of what is left out of it.
pub(super) fn note_on(mut config: MachineConfig, left_out: &BTreeMap<Object, String>) -> MachineConfig {
    if !left_out.is_empty() {
        let notes = config.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::LEFT_OUT.to_owned(), listed(left_out));
    }
    config
}

/// The same for one that exists: an older note is replaced also when nothing is left out any more.
pub(super) fn noted(config: MachineConfig, live: &MachineConfig, left_out: &BTreeMap<Object, String>) -> MachineConfig {
    let mut config = note_on(config, left_out);
    if left_out.is_empty() && note(live, annotations::LEFT_OUT).is_some() {
        let notes = config.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::LEFT_OUT.to_owned(), listed(left_out));
    }
    config
}

fn listed(left_out: &BTreeMap<Object, String>) -> String {
    let entries = left_out.iter().take(NAMED).map(|(object, why)| (full_name(object), json!(shortened(why))));
    let others = others(left_out).map(|others| (OTHERS.to_owned(), json!(others)));
    Value::Object(entries.chain(others).collect()).to_string()
}

/// A hash of those that are not named.
fn others(left_out: &BTreeMap<Object, String>) -> Option<String> {
    let others = left_out.iter().skip(NAMED).map(|(object, why)| (full_name(object), json!(why)));
    let others: Map<String, Value> = others.collect();
    (!others.is_empty()).then(|| fingerprint(&Value::Object(others)))
}

fn shortened(why: &str) -> String {
    why.chars().take(LONGEST).collect()
}

fn full_name(object: &Object) -> String {
    match &object.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.kind, object.name),
        None => format!("{} {}", object.kind, object.name),
    }
}
