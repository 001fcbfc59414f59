//! Conditions of requests for certificates: who may set which, and when they came about.

use serde_json::Value;

use crate::object::text;

/// An approval sets conditions and nothing else.
pub(super) fn approve(old: &Value, new: &mut Value) {
    stamp(old, new);
    let conditions = new.pointer_mut("/status/conditions").map(Value::take).unwrap_or_default();
    let mut kept = old.clone();
    kept["metadata"] = new["metadata"].take();
    if !kept["status"].is_object() {
        kept["status"] = serde_json::Map::new().into();
    }
    if let Some(status) = kept["status"].as_object_mut() {
        match conditions.is_null() {
            true => status.remove("conditions"),
            false => status.insert("conditions".to_owned(), conditions),
        };
    }
    *new = kept;
}

/// The one who signs leaves conditions of approval as they are.
pub(super) fn answer(old: &Value, new: &mut Value) {
    for kind in ["Approved", "Denied"] {
        let is = |condition: &&Value| condition["type"] == kind;
        let before: Vec<Value> = all(old).iter().filter(is).cloned().collect();
        if before.len() == all(new).iter().filter(is).count() {
            let own = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
            for (own, before) in own.filter(|condition| condition["type"] == kind).zip(before) {
                *own = before;
            }
        }
    }
    stamp(old, new);
}

fn all(request: &Value) -> &[Value] {
    request["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Conditions without times get them from the server; one that stays as it was keeps the time of its last change.
fn stamp(old: &Value, new: &mut Value) {
    let now: Value = crate::verbs::now().into();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter(|condition| condition.is_object()) {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.clone();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = |before: &&Value| {
                ["type", "status"].iter().all(|field| text(&before[*field]) == text(&condition[*field]))
                    && before["lastTransitionTime"].is_string()
            };
            let before = all(old).iter().find(same).map(|before| before["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = before.unwrap_or_else(|| now.clone());
        }
    }
}
