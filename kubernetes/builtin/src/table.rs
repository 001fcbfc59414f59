//! Tables, as `kubectl get` prints them: columns, rows, and how values look in cells.
//!
//! Column descriptions are left empty: they are prose of the API's documentation, and nothing prints them.

use serde_json::{Value, json};

use crate::text;

/// One column definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    pub format: &'static str,
    /// 0 is always printed, 1 in wide output.
    pub priority: i32,
}

/// What a kind without a printer of its own shows.
pub(crate) const PLAIN: &str = "Name, @Created At";

/// Reads columns: a column is a string unless `#` (integer), `?` (boolean) or `@` (date) says otherwise; `+` marks wide
/// output. `Name` has the format `name`.
pub(crate) fn columns(text: &'static str) -> Vec<Column> {
    text.split(", ").map(column).collect()
}

fn column(text: &'static str) -> Column {
    let (priority, text) = text.strip_prefix('+').map_or((0, text), |rest| (1, rest));
    let (kind, name) = match text.split_at(1) {
        ("#", rest) => ("integer", rest),
        ("?", rest) => ("boolean", rest),
        ("@", rest) => ("date", rest),
        _ => ("string", text),
    };
    Column { name, kind, format: if matches!(name, "Name" | "Attacher") { "name" } else { "" }, priority }
}

/// An object that is to be printed.
pub(crate) struct Row<'a> {
    pub(crate) object: &'a Value,
    pub(crate) name: &'a Value,
    pub(crate) spec: &'a Value,
    pub(crate) status: &'a Value,
    /// The time since it was created.
    pub(crate) age: String,
    /// RFC 3339.
    pub(crate) now: &'a str,
}

impl<'a> Row<'a> {
    pub(crate) fn of(object: &'a Value, now: &'a str) -> Row<'a> {
        Row {
            object,
            name: &object["metadata"]["name"],
            spec: &object["spec"],
            status: &object["status"],
            age: age_of(&object["metadata"]["creationTimestamp"], now),
            now,
        }
    }
}

/// The cells of [`PLAIN`].
pub(crate) fn plain(row: &Row<'_>) -> Value {
    json!([row.name, row.object["metadata"]["creationTimestamp"]])
}

/// Name and age, for kinds that show nothing else.
pub(crate) fn aged(row: &Row<'_>) -> Value {
    json!([row.name, row.age])
}

pub(crate) const NONE: &str = "<none>";

pub(crate) fn or<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

pub(crate) fn age_of(time: &Value, now: &str) -> String {
    match time.as_str() {
        Some(time) => schema::table::since(time, now).unwrap_or_else(|| "<unknown>".to_string()),
        None => "<unknown>".to_string(),
    }
}

pub(crate) fn containers(template: &Value) -> (String, String) {
    let list = template["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let join = |key: &str| list.iter().map(|c| text(&c[key])).collect::<Vec<_>>().join(",");
    (join("name"), join("image"))
}

pub(crate) fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value)));
    let joined = pairs.collect::<Vec<_>>().join(",");
    or(&joined, NONE).to_string()
}

/// A label selector as text; requirements in order of their keys.
pub(crate) fn selector(selector: &Value) -> String {
    if !selector.is_object() {
        return NONE.to_string();
    }
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", text(value))));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_string(),
        };
        parts.push((key.to_string(), shown));
    }
    parts.sort();
    let joined = parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",");
    or(&joined, NONE).to_string()
}

pub(crate) fn modes(list: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    list.as_array().into_iter().flatten().map(short).collect::<Vec<_>>().join(",")
}

pub(crate) fn first_three(list: &[String], none: &str) -> String {
    let shown = list.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    match list.len() {
        0 => none.to_string(),
        1..=3 => shown,
        more => format!("{shown} + {} more...", more - 3),
    }
}

/// The name of an object, and whether an annotation makes it the default of its kind.
pub(crate) fn marked(object: &Value, annotation: &str) -> String {
    let default = object["metadata"]["annotations"][annotation] == "true";
    format!("{}{}", text(&object["metadata"]["name"]), if default { " (default)" } else { "" })
}
