//! Conditions that the server itself sets.

use serde_json::{Value, json};

use crate::Now;

/// Sets a condition; one that keeps its state keeps the time of its last change.
pub fn set_condition(status: &mut Value, kind: &str, state: &str, reason: &str, message: &str, now: Now<'_>) {
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut new = json!({
        "type": kind, "status": state, "lastTransitionTime": now(), "reason": reason, "message": message,
    });
    match list.iter_mut().find(|condition| condition["type"] == kind) {
        Some(old) => {
            if old["status"] == state {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => list.push(new),
    }
    status["conditions"] = list.into();
}

/// What an APIService says about whether it is available.
#[must_use]
pub fn available(status: &str, reason: &str, message: &str, now: Now<'_>) -> Value {
    json!({
        "type": "Available", "status": status, "reason": reason, "message": message, "lastTransitionTime": now(),
    })
}
