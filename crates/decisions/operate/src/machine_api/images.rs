//! The ConfigMap `machine-api-operator-images`: which image runs for which platform.

use serde_json::{Map, Value, json};

pub const CONFIG_MAP: &str = "machine-api-operator-images";
pub const KEY: &str = "images.json";

/// Keys of all eras for what this release has. The operator, which also holds the simulated cloud, and each provider may
/// come from an image of its own.
const KEYS: [&str; 8] = [
    "machineAPIOperator",
    "clusterAPIControllerAWS",
    "clusterAPIControllerBareMetal",
    "clusterAPIControllerGCP",
    "clusterAPIControllerKubemark",
    "clusterAPIControllerLibvirt",
    "clusterAPIControllerOpenStack",
    "clusterAPIControllerVSphere",
];

/// Required by upstream since 4.6. Nothing of ours runs it: files without it are as good.
const PROXY: &str = "kubeRBACProxy";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("ConfigMap {namespace}/{CONFIG_MAP} has no {KEY}; `machinist install` prints it as it should be")]
    Missing { namespace: String },
    #[error("{origin}: {reason}; `machinist install` prints it as it should be")]
    Broken { origin: String, reason: String },
}

/// Where images were read from, for errors.
pub fn origin(namespace: &str) -> String {
    format!("ConfigMap {namespace}/{CONFIG_MAP}: data[{KEY:?}]")
}

/// Reads the text of the file. What images mean for a platform is decided in the crate `machine`.
pub fn parse(text: &str, origin: &str) -> Result<Value, Error> {
    let broken = |reason: String| Error::Broken { origin: origin.to_owned(), reason };
    let mut images: Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
    let operator = images.get("machineAPIOperator").cloned().unwrap_or_default();
    let Some(members) = images.as_object_mut() else { return Err(broken("it is not an object".to_owned())) };
    members.entry(PROXY).or_insert(operator);
    Ok(images)
}

pub(crate) fn config_map(image: &str, namespace: &str) -> Value {
    let images: Map<String, Value> = KEYS.iter().map(|key| ((*key).to_owned(), json!(image))).collect();
    let text = serde_json::to_string_pretty(&images).unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": {KEY: text + "\n"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_2019_is_read_and_a_broken_one_is_named() {
        let images = parse(r#"{"machineAPIOperator": "a:1", "clusterAPIControllerAWS": "b:1"}"#, "here");
        assert_eq!(images.expect("it can be read")["clusterAPIControllerAWS"], "b:1");
        for text in ["", "[]", "{"] {
            let error = parse(text, &origin("ns")).expect_err(text).to_string();
            assert!(error.starts_with("ConfigMap ns/machine-api-operator-images: data[\"images.json\"]: "), "{error}");
        }
    }
}
