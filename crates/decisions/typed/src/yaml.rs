//! Writes objects as YAML.

use serde_json::{Map, Value};

/// An object as YAML. Should that ever fail it is written as JSON, which every reader of YAML takes too.
pub(crate) fn write(members: &Map<String, Value>) -> String {
    serde_saphyr::to_string(members).unwrap_or_else(|_| Value::Object(members.clone()).to_string())
}
