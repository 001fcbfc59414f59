//! Patches that carry only what changes, and that land on exactly the object that was looked at.

use std::fmt::Debug;

use cluster::write;
use kube::api::Api;
use kube::{Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The merge patch that makes `new` out of `old`, if they differ.
pub(crate) fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) => patch.extend(difference(before, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
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
}
