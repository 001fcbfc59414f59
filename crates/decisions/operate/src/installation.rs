//! How Machinist is installed: names, images and what a person has decided about the hosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine_api::Choices;

/// The namespace of sources such as the pull secret, unless another is given, is the installation's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Installation {
    pub namespace: String,
    /// Where `<pool>-user-data-managed` secrets go.
    pub machine_namespace: String,
    /// Where `pull-secret`, `user-ca-bundle` and `image-registry-ca` are looked for.
    pub source_namespace: String,
    pub images: Images,
    /// The user whose keys a MachineConfig may set; found from nothing, `core` unless given.
    pub admin_user: Option<String>,
    /// The unit of the container runtime; found from the nodes unless given.
    pub runtime_service: Option<String>,
    /// `host` or `host:port` at which new machines reach the config server; found from the cluster unless given.
    pub server: Option<String>,
    /// `https://host:port` at which machines reach the API; found from the cluster unless given.
    pub api_url: Option<String>,
    /// Daemons in pods use their shared account instead of the kubelet's credential, and every node may read every config.
    pub daemon_account: bool,
    /// The groups of 2019 are installed too.
    pub older_groups: bool,
    /// The platform whose machines are managed; found from the cluster unless given.
    pub platform: Option<String>,
    /// What was decided about the machine controllers.
    pub choices: Choices,
    /// RBAC of every process, made from what each declares, and ready to be applied.
    pub access: Vec<Value>,
    /// RBAC of the Machine API's operator and controllers, likewise.
    pub machine_access: Vec<Value>,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: api::names::NAMESPACE.to_owned(),
            machine_namespace: api::names::MACHINE_API_NAMESPACE.to_owned(),
            source_namespace: api::names::NAMESPACE.to_owned(),
            images: Images::default(),
            admin_user: None,
            runtime_service: None,
            server: None,
            api_url: None,
            daemon_account: false,
            older_groups: false,
            platform: None,
            choices: Choices::default(),
            access: Vec::new(),
            machine_access: Vec::new(),
        }
    }
}

impl Installation {
    /// The port that new machines ask at.
    pub const SERVER_PORT: u16 = 22623;

    /// The flags with which the operator's own Deployment repeats what was given at installation.
    pub(crate) fn operator_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["operator".to_owned(), format!("--namespace={}", self.namespace)];
        let given = [
            ("admin-user", &self.admin_user),
            ("runtime-service", &self.runtime_service),
            ("server", &self.server),
            ("apiserver-url", &self.api_url),
        ];
        for (flag, value) in given {
            arguments.extend(value.as_ref().map(|value| format!("--{flag}={value}")));
        }
        let names = [
            ("machine-namespace", &self.machine_namespace, api::names::MACHINE_API_NAMESPACE),
            ("source-namespace", &self.source_namespace, self.namespace.as_str()),
        ];
        for (flag, value, default) in names {
            arguments.extend((value != default).then(|| format!("--{flag}={value}")));
        }
        arguments.extend(self.daemon_account.then(|| "--daemon-account".to_owned()));
        arguments.extend(self.older_groups.then(|| "--legacy-kinds".to_owned()));
        arguments
    }
}

/// What every process runs, from the one ConfigMap `machine-config-operator-images`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Version of what the images hold.
    pub release_version: String,
    /// Image of the operator, the controller and the server.
    pub machine_config_operator: String,
    /// Image of the daemon; the same unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_config_daemon: Option<String>,
    /// Images that templates refer to, which are handed on as they are.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

impl Default for Images {
    fn default() -> Self {
        Self {
            release_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine_config_operator: concat!("machinist:", env!("CARGO_PKG_VERSION")).to_owned(),
            machine_config_daemon: None,
            others: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImagesError {
    #[error(
        "ConfigMap {namespace}/{}: data[\"images.json\"]: {reason}; `machinist install` prints it as it should be",
        Images::CONFIG_MAP
    )]
    Broken { namespace: String, reason: String },
    #[error(
        "refusing to read images.json version \"{found}\", operator version \"{own}\"; apply the ConfigMap {namespace}/{} and the Deployment of one release together",
        Images::CONFIG_MAP
    )]
    OtherVersion { namespace: String, found: String, own: String },
}

impl Images {
    pub const CONFIG_MAP: &str = "machine-config-operator-images";
    pub const KEY: &str = "images.json";

    /// Reads the ConfigMap's text; images of another version than the operator's own are refused, as upstream does.
    pub fn parse(text: &str, own: &str, namespace: &str) -> Result<Self, ImagesError> {
        let namespace = namespace.to_owned();
        let broken = |reason: String| ImagesError::Broken { namespace: namespace.clone(), reason };
        let images: Self = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        if images.machine_config_operator.trim().is_empty() {
            return Err(broken("machineConfigOperator is empty".to_owned()));
        }
        if images.release_version != own {
            let (found, own) = (images.release_version, own.to_owned());
            return Err(ImagesError::OtherVersion { namespace, found, own });
        }
        Ok(images)
    }

    pub fn daemon(&self) -> &str {
        self.machine_config_daemon.as_deref().unwrap_or(&self.machine_config_operator)
    }

    pub(crate) fn config_map(&self, namespace: &str) -> Value {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": Self::CONFIG_MAP, "namespace": namespace},
            "data": {Self::KEY: text + "\n"},
        })
    }

    /// What a ControllerConfig hands to templates.
    pub(crate) fn for_templates(&self) -> BTreeMap<String, String> {
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let mut images: BTreeMap<String, String> = self.others.iter().filter_map(text).collect();
        images.insert("machineConfigOperator".to_owned(), self.machine_config_operator.clone());
        images
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_another_version_are_refused_in_upstreams_words() {
        let text = r#"{"releaseVersion": "2", "machineConfigOperator": "a"}"#;
        let error = Images::parse(text, "1", "ns").expect_err("another version");
        assert!(error.to_string().starts_with("refusing to read images.json version \"2\", operator version \"1\""));
        assert!(Images::parse(text, "2", "ns").is_ok());
    }

    #[test]
    fn a_broken_file_names_the_config_map_and_the_key() {
        for text in ["", "{", "{}", r#"{"releaseVersion": "1", "machineConfigOperator": " "}"#] {
            let error = Images::parse(text, "1", "ns").expect_err(text).to_string();
            assert!(error.contains("ns/machine-config-operator-images") && error.contains("images.json"), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let images = Images { machine_config_daemon: Some("d".into()), ..Images::default() };
        let map = images.config_map("ns");
        let text = map["data"][Images::KEY].as_str().expect("text");
        assert_eq!(Images::parse(text, env!("CARGO_PKG_VERSION"), "ns"), Ok(images));
    }
}
