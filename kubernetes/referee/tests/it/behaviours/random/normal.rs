//! Answers without what must differ: uids, versions, times and tokens.

use std::collections::HashMap;

use serde_json::Value;

/// What one server called things, in the order it first named them.
#[derive(Default)]
pub(super) struct Names {
    uids: HashMap<String, usize>,
}

impl Names {
    pub(super) fn normal(&mut self, value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let map = once(map);
                let fields = map.into_iter().map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("resourceVersion", Value::String(text)) if !text.is_empty() => "version".into(),
                        ("continue", Value::String(text)) if !text.is_empty() => "token".into(),
                        ("managedFields", Value::Array(entries)) => self.entries(entries),
                        (_, value) => self.normal(value),
                    };
                    (key, value)
                });
                // A list without more pages may or may not say so.
                fields
                    .filter(|(key, value)| !(key == "continue" && value == ""))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            Value::Array(items) => items.into_iter().map(|item| self.normal(item)).collect::<Vec<_>>().into(),
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    /// Entries are ordered by their times, which are not the same on two servers.
    fn entries(&mut self, entries: Vec<Value>) -> Value {
        let mut entries: Vec<Value> = entries.into_iter().map(|entry| self.normal(entry)).collect();
        entries.sort_by_key(|entry| {
            let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (field("operation"), field("manager"), field("apiVersion"), field("subresource"))
        });
        entries.into()
    }

    /// A text with times, uids and large numbers replaced; the sequences themselves use small numbers only.
    fn text(&mut self, text: &str) -> String {
        if is_time(text) {
            return "time".to_owned();
        }
        // Go looks at fields in no order, and names one of the wrong ones or several.
        let text = match text.split_once("): ") {
            Some((start, _)) if start.starts_with("failed to create typed patch object") => start,
            _ => text,
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(uid) = rest.get(..36).filter(|part| is_uid(part)) {
                let next = self.uids.len();
                out.push_str(&format!("uid{}", self.uids.entry(uid.to_owned()).or_insert(next)));
                rest = &rest[36..];
                continue;
            }
            if rest.get(..20).is_some_and(is_time) {
                out.push_str("time");
                rest = &rest[20..];
                continue;
            }
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let version = out.trim_end_matches(['\\', '"', ':']).ends_with("resourceVersion");
            if (digits >= 3 || digits > 0 && (version || out.ends_with('(')))
                && !out.ends_with(|c: char| c.is_ascii_alphanumeric())
            {
                out.push_str("number");
                rest = &rest[digits..];
                continue;
            }
            let step = digits.max(first.len_utf8());
            out.push_str(&rest[..step]);
            rest = &rest[step..];
        }
        out
    }
}

/// Some kinds are checked twice, and say twice what is wrong with their metadata.
fn once(mut status: serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    if status.get("reason").is_none_or(|reason| reason != "Invalid" && reason != "Conflict") {
        return status;
    }
    if let Some(causes) = status.get_mut("details").and_then(|details| details["causes"].as_array_mut()) {
        let mut known: Vec<Value> = Vec::new();
        causes.retain(|cause| {
            let new = !known.contains(cause);
            known.push(cause.clone());
            new
        });
        // Go looks at labels and at managers in no order.
        causes.sort_by_key(Value::to_string);
        status.remove("message");
    }
    status
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T'
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
