//! How values look in cells: text, counts, labels, selectors, ages.

use serde_json::Value;

use super::age;

pub(super) const NONE: &str = "<none>";

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

pub(super) fn or<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

pub(super) fn age_of(time: &Value, now: &str) -> String {
    match time.as_str() {
        Some(time) => age::since(time, now).unwrap_or_else(|| "<unknown>".to_string()),
        None => "<unknown>".to_string(),
    }
}

pub(super) fn containers(template: &Value) -> (String, String) {
    let list = template["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let join = |key: &str| list.iter().map(|c| text(&c[key])).collect::<Vec<_>>().join(",");
    (join("name"), join("image"))
}

pub(super) fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value)));
    let joined = pairs.collect::<Vec<_>>().join(",");
    or(&joined, NONE).to_string()
}

/// A label selector as text; requirements in order of their keys.
pub(super) fn selector(selector: &Value) -> String {
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

pub(super) fn modes(list: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    list.as_array().into_iter().flatten().map(short).collect::<Vec<_>>().join(",")
}

pub(super) fn first_three(list: &[String], none: &str) -> String {
    let shown = list.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    match list.len() {
        0 => none.to_string(),
        1..=3 => shown,
        more => format!("{shown} + {} more...", more - 3),
    }
}
