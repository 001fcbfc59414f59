//! The definitions of our kinds: which are installed, and whether somebody changed one.

use serde_json::Value;

use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};

pub(crate) fn all(installation: &Installation) -> Vec<Desired> {
    let older = |group: &str| [api::cluster::GROUP, api::healthchecking::GROUP].contains(&group);
    let definitions = api::crds();
    let wanted = definitions.iter().filter(|one| installation.older_groups || !older(&one.spec.group));
    wanted.map(|one| Desired::new(Step::RenderConfig, Keep::Whole, api::manifest(one))).collect()
}

/// Where a definition in the cluster says something else than ours: the path of the first difference and both values.
///
/// What the server adds by itself is no difference; a field or a version that somebody else added is one.
pub fn difference(ours: &Value, live: &Value) -> Option<String> {
    differ("spec", ours.get("spec")?, live.get("spec").unwrap_or(&Value::Null))
}

/// What the API server fills in when it is left out.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        "conversion" => value.get("strategy").is_none_or(|strategy| strategy == "None"),
        "singular" | "listKind" => true,
        _ => false,
    }
}

fn differ(path: &str, ours: &Value, live: &Value) -> Option<String> {
    match (ours, live) {
        (Value::Object(ours), Value::Object(live)) => {
            let missing = ours.iter().find_map(|(key, value)| {
                let path = format!("{path}.{key}");
                match live.get(key) {
                    Some(other) => differ(&path, value, other),
                    None if is_empty(value) => None,
                    None => Some(format!("{path} is missing")),
                }
            });
            missing.or_else(|| {
                let added = |key: &&String| !ours.contains_key(*key) && !is_default(key, &live[*key]);
                live.keys()
                    .filter(added)
                    .find(|key| !is_empty(&live[*key]))
                    .map(|key| format!("{path}.{key} was added"))
            })
        }
        (Value::Array(ours), Value::Array(live)) if ours.len() == live.len() => ours
            .iter()
            .zip(live)
            .enumerate()
            .find_map(|(index, (ours, live))| differ(&format!("{path}[{index}]"), ours, live)),
        (Value::Array(ours), Value::Array(live)) => {
            Some(format!("{path} has {} entries instead of {}", live.len(), ours.len()))
        }
        (ours, live) if is_same(ours, live) => None,
        (_, live) => Some(format!("{path} was changed to {}", shorten(&live.to_string()))),
    }
}

fn is_same(ours: &Value, live: &Value) -> bool {
    ours == live || ours.as_f64().zip(live.as_f64()).is_some_and(|(ours, live)| ours == live)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_server_fills_in_is_no_difference() {
        let ours = json!({"spec": {"group": "a", "names": {"kind": "A"}, "versions": [{"name": "v1", "bound": 1}]}});
        let live = json!({"spec": {"group": "a", "conversion": {"strategy": "None"},
            "names": {"kind": "A", "singular": "a", "listKind": "AList"}, "versions": [{"name": "v1", "bound": 1.0}]}});
        assert_eq!(difference(&ours, &live), None);
        let mut converted = live.clone();
        converted["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(difference(&ours, &converted), Some("spec.conversion was added".into()));
    }

    #[test]
    fn a_change_an_addition_and_an_omission_are_named_by_path() {
        let ours =
            json!({"spec": {"versions": [{"served": true, "schema": {"properties": {"a": {"type": "string"}}}}]}});
        let mut live = ours.clone();
        live["spec"]["versions"][0]["schema"]["properties"]["a"]["type"] = json!("integer");
        let path = "spec.versions[0].schema.properties";
        assert_eq!(difference(&ours, &live), Some(format!("{path}.a.type was changed to \"integer\"")));
        let mut live = ours.clone();
        live["spec"]["versions"][0]["schema"]["properties"]["b"] = json!({"type": "string"});
        assert_eq!(difference(&ours, &live), Some(format!("{path}.b was added")));
        let mut live = ours.clone();
        live["spec"]["versions"][0]["schema"]["properties"] = json!({"a": {}});
        assert_eq!(difference(&ours, &live), Some(format!("{path}.a.type is missing")));
    }

    #[test]
    fn the_groups_of_2019_stay_out_unless_asked_for() {
        let count = |older_groups| all(&Installation { older_groups, ..Installation::default() }).len();
        assert_eq!(count(true), api::crds().len());
        assert_eq!(count(true) - count(false), 5);
    }
}
