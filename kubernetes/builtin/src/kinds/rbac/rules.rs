//! What the two kinds of roles share.

use serde_json::Value;

/// Rules are always written, although no schema requires them.
pub(super) fn default(value: &mut Value) {
    if let Some(role) = value.as_object_mut() {
        role.entry("rules").or_insert(Value::Null);
    }
}

/// A role without rules says so.
pub(super) fn settle(role: &mut Value) {
    if role["rules"].as_array().is_none_or(Vec::is_empty) {
        role["rules"] = Value::Null;
    }
}
