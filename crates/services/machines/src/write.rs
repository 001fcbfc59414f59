//! Patches that carry only what changes, and that land on exactly the object that was looked at.

use std::fmt::Debug;

use cluster::write;
use kube::api::Api;
use kube::{Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The merge patch that makes `new` out of `old`, if they differ. A member of `new` that is null is not there: a merge patch
/// could not write it.
pub(crate) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        match old.get(key) {
            Some(before) => patch.extend(difference(before, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), without_nulls(value));
            }
        }
    }
    let is_gone = |key: &&String| new.get(*key).is_none_or(Value::is_null);
    patch.extend(old.keys().filter(is_gone).map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

/// Merges `patch` into `object`. An object that has changed since makes it a conflict.
pub(crate) async fn merge<K>(api: &Api<K>, manager: &str, object: &K, mut patch: Value) -> Result<K, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    guard(object, &mut patch);
    write::merge(api, manager, &object.name_any(), &patch).await
}

/// Writes the part of a status that changes. `None` if nothing does.
pub(crate) async fn status<K, S>(api: &Api<K>, manager: &str, object: &K, old: &S, new: &S) -> Result<Option<K>, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    S: Serialize,
{
    let [old, new] = [old, new].map(serde_json::to_value);
    let Some(change) = difference(&old.map_err(Error::SerdeError)?, &new.map_err(Error::SerdeError)?) else {
        return Ok(None);
    };
    let mut patch = json!({ "status": change });
    guard(object, &mut patch);
    write::merge_status(api, manager, &object.name_any(), &patch).await.map(Some)
}

fn guard(object: &impl ResourceExt, patch: &mut Value) {
    patch["metadata"]["resourceVersion"] = object.resource_version().into();
    patch["metadata"]["uid"] = object.uid().into();
}

/// Whether `one` is at least as new as `other`. Servers count versions up; where one does not, a wrong answer here costs a
/// conflict and nothing more.
pub(crate) fn is_as_new(one: &impl ResourceExt, other: &impl ResourceExt) -> bool {
    let number = |version: Option<String>| version.and_then(|text| text.parse::<u64>().ok()).unwrap_or(u64::MAX);
    number(one.resource_version()) >= number(other.resource_version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_carries_what_changes_and_takes_away_what_is_gone() {
        let old =
            json!({"phase": "Failed", "errorMessage": "no", "addresses": [1], "providerStatus": {"a": 1, "b": 2}});
        let new = json!({"phase": "Running", "addresses": [1, 2], "providerStatus": {"a": 1, "c": 3}});
        let expected = json!({
            "phase": "Running", "errorMessage": null, "addresses": [1, 2], "providerStatus": {"b": null, "c": 3},
        });
        assert_eq!(difference(&old, &new), Some(expected));
        assert_eq!(difference(&new, &new), None);
    }

    #[test]
    fn a_null_that_the_server_would_not_keep_is_no_difference() {
        assert_eq!(difference(&json!({}), &json!({"a": null})), None);
        assert_eq!(difference(&json!({"s": {"b": 1}}), &json!({"s": {"a": null, "b": 1}})), None);
        assert_eq!(difference(&json!({}), &json!({"s": {"a": null, "b": 1}})), Some(json!({"s": {"b": 1}})));
        assert_eq!(difference(&json!({"a": 1}), &json!({"a": null})), Some(json!({"a": null})));
        let listed = json!({"list": [{"a": null}]});
        assert_eq!(difference(&listed, &listed), None, "what is inside a list is written as it is");
    }
}
