//! What a user would do: manifests that would be applied, MachineConfigs that would be deleted.

use serde_json::{Map, Value};

use crate::generated;
use crate::manifest::{Manifest, Origin};

/// Kinds that count as they are written.
const PLAIN: [&str; 4] = ["MachineConfig", "MachineConfigPool", "MachineConfiguration", "ClusterSettings"];

#[derive(Clone, Debug)]
pub struct Change {
    pub manifests: Vec<Manifest>,
    pub deletes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{origin}: {kind} {name:?} cannot be planned; plan takes {}", kinds().join(", "))]
pub struct Error {
    origin: Origin,
    kind: String,
    name: String,
}

fn kinds() -> Vec<&'static str> {
    PLAIN.into_iter().chain(generated::KINDS.map(|(_, kind)| kind)).collect()
}

impl Change {
    /// # Errors
    /// When one of the manifests is of a kind that no plan is made for.
    pub fn new(manifests: Vec<Manifest>, deletes: Vec<String>) -> Result<Self, Error> {
        let is_known = |manifest: &Manifest| PLAIN.contains(&manifest.kind.as_str()) || generated::is_typed(manifest);
        match manifests.iter().find(|manifest| !is_known(manifest)) {
            Some(Manifest { origin, kind, name, .. }) => {
                Err(Error { origin: origin.clone(), kind: kind.clone(), name: name.clone() })
            }
            None => Ok(Self { manifests, deletes }),
        }
    }
}

/// An object as it would be: the user's spec in place of the old one, labels and annotations added to the old ones. What a
/// controller writes into a pool's spec stays.
#[must_use]
pub fn laid_over(old: &Value, new: &Value) -> Value {
    let mut value = old.clone();
    for part in ["labels", "annotations"] {
        let Some(added) = new.pointer(&format!("/metadata/{part}")).and_then(Value::as_object) else { continue };
        if !value["metadata"][part].is_object() {
            value["metadata"][part] = Value::Object(Map::new());
        }
        for (key, text) in added {
            value["metadata"][part][key] = text.clone();
        }
    }
    let configuration = old.pointer("/spec/configuration").cloned();
    value["spec"] = new.get("spec").cloned().unwrap_or_default();
    if let Some(configuration) = configuration.filter(|_| new["kind"] == "MachineConfigPool")
        && let Some(spec) = value["spec"].as_object_mut()
    {
        spec.entry("configuration").or_insert(configuration);
    }
    value
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_that_no_plan_is_made_for_is_named_with_its_place() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
        let manifests = crate::manifest::parse("a.yaml", text).unwrap();
        let error = Change::new(manifests, Vec::new()).unwrap_err().to_string();
        assert!(
            error.starts_with(r#"a.yaml, document 1: Secret "a" cannot be planned; plan takes MachineConfig, "#),
            "{error}"
        );
    }

    #[test]
    fn a_pool_keeps_its_target_and_labels_are_added() {
        let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"paused": true, "configuration": {"name": "r"}}});
        let new = json!({"kind": "MachineConfigPool", "metadata": {"labels": {"b": "2"}}, "spec": {}});
        let both = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"configuration": {"name": "r"}}});
        assert_eq!(laid_over(&old, &new), both);
    }
}
