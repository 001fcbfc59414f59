//! Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{Kind, fields::Read, kind::Check, table::size, text, validate::config};

pub(super) static KIND: Kind = Kind {
    fields: &[("type", Read::Plain)],
    columns: "Name, Type, Data, Age",
    cells: |row| json!([row.name, text(&row.object["type"]), size(&row.object["data"]), row.age]),
    default: |value, _| default(value),
    validate: Check::Change(config::secret),
    judged: true,
    ..Kind::plain("/secrets")
};

/// `stringData` is only a way to write `data`.
fn default(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    if object.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
        object.insert("type".into(), "Opaque".into());
    }
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        let data = object.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Some(data) = data.as_object_mut() {
            for (key, text) in plain {
                data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
            }
        }
    }
}
