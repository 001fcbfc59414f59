//! Answers without what must differ: uids, versions, times and addresses from a pool.

use serde_json::{Value, json};

/// What is compared of an answer.
pub(super) fn normal(code: u16, mut body: Value) -> Value {
    if code >= 300 {
        let causes = body["details"]["causes"].take();
        let mut causes: Vec<String> =
            causes.as_array().into_iter().flatten().map(|cause| told(cause.clone()).to_string()).collect();
        // Where several things are wrong, the order is that of a map now and then; the causes tell the same.
        let message = if causes.len() > 1 { Value::Null } else { told(json!({"message": body["message"]})) };
        // Some kinds are checked twice, and say twice what is wrong.
        causes.sort();
        causes.dedup();
        return json!({"code": code, "reason": body["reason"], "message": message, "causes": causes});
    }
    if let Some(metadata) = body["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
    }
    // Each server knows its administrator by another uid.
    if let Some(spec) = body["spec"].as_object_mut().filter(|spec| spec.contains_key("signerName")) {
        spec.remove("uid");
    }
    let text = plain(&body.to_string());
    json!({"code": code, "object": serde_json::from_str::<Value>(&text).unwrap_or_default()})
}

/// What is said, without the picture of the differences that the real server draws in Go's own notation.
fn told(mut said: Value) -> Value {
    let text = plain(said["message"].as_str().unwrap_or_default());
    said["message"] = text.split('\n').next().unwrap_or_default().into();
    said
}

/// Makes what the embedded server says of an object that the real one shows as its own Go type the same, if the rest is.
///
/// Such types have names of their own for everything, in an order of their own; users know those of the API.
pub(super) fn forgive_types(real: &Value, embedded: &mut Value) {
    let theirs: Vec<&str> = real["causes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shown = theirs.iter().filter_map(|text| {
        let (before, inner) = text.split_once("value: {\\\"").or_else(|| text.split_once("value: [{\\\""))?;
        let (_, after) = text.rsplit_once("}: ").or_else(|| text.rsplit_once("}]: "))?;
        // Metadata within another type has the names of the API.
        let is_type = inner.starts_with(|c: char| c.is_ascii_uppercase()) || inner.contains("\\\"Spec\\\":");
        is_type.then_some((*text, before, after))
    });
    let shown: Vec<_> = shown.collect();
    let Some(ours) = embedded.get_mut("causes").and_then(Value::as_array_mut) else { return };
    for (text, before, after) in shown {
        let fits = |own: &&mut Value| own.as_str().is_some_and(|own| own.starts_with(before) && own.ends_with(after));
        if let Some(own) = ours.iter_mut().find(fits) {
            *own = text.into();
        }
    }
    // An empty map that was sent is one to the real server until it is stored.
    for own in ours.iter_mut() {
        for empty in ["value: {}: ", "value: []: "] {
            let shown = own.as_str().unwrap_or_default().replace("value: null: ", empty);
            if theirs.contains(&shown.as_str()) {
                *own = shown.into();
                break;
            }
        }
    }
    ours.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    if ours.len() == 1 && real["causes"] == embedded["causes"] {
        embedded["message"] = real["message"].clone();
    }
}

/// A port from the range that both servers give out.
const NODE_PORT: &str = "\"nodePort\":3";
/// Volumes with tokens end in letters that form no words.
const TOKENS: &str = "kube-api-access-";

/// A text in which uids, times and addresses of services stand as words.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, length) = if rest.starts_with(TOKENS) && rest.len() >= TOKENS.len() + 5 {
            (TOKENS, TOKENS.len() + 5)
        } else if rest.starts_with(NODE_PORT) && rest.len() > NODE_PORT.len() + 5 {
            ("\"nodePort\":0", NODE_PORT.len() + 4)
        } else if let Some(length) = pool_address(rest) {
            ("10.0.0.N", length)
        } else if rest.get(..36).is_some_and(is_uid) {
            ("uid", 36)
        } else if rest.get(..20).is_some_and(is_time) {
            ("time", 20)
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push_str(word);
        rest = &rest[length..];
    }
    out
}

/// Services get addresses from a range of each server's own.
fn pool_address(text: &str) -> Option<usize> {
    let rest = ["10.96.", "10.0.0."].iter().find_map(|start| text.strip_prefix(start))?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    Some(text.len() - rest.len() + end)
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00Z";
    text.bytes()
        .zip(shape.bytes())
        .all(|(byte, shape)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape })
}

/// Only what differs, side by side.
pub(super) fn difference(real: &Value, embedded: &Value) -> Value {
    match (real, embedded) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let differing = names.into_iter().filter(|name| one.get(*name) != other.get(*name));
            let told = differing.map(|name| {
                let (one, other) = (one.get(name), other.get(name));
                let told = match (one, other) {
                    (Some(one), Some(other)) => difference(one, other),
                    _ => json!({"real": one, "embedded": other}),
                };
                (name.clone(), told)
            });
            Value::Object(told.collect())
        }
        _ => json!({"real": real, "embedded": embedded}),
    }
}
