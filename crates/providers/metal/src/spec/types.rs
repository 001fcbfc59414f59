//! The fields of a bare metal providerSpec.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine::spec::SecretReference;
use serde::{Deserialize, Serialize};

/// `BareMetalMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetalSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// What is written to the disk.
    pub image: Image,
    /// How it is written, where it is not simply copied.
    pub custom_deploy: CustomDeploy,
    /// The Secret with what the host reads at its first boot. Metal3 reads it.
    pub user_data: Option<SecretReference>,
    pub host_selector: HostSelector,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub url: String,
    /// A checksum, or the address of a file with checksums.
    pub checksum: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomDeploy {
    pub method: String,
}

/// Which hosts will do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSelector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    pub key: String,
    /// As upstream spells them: `in`, `notin`, `exists`, `!`, `=`, `==`, `!=`, `gt`, `lt`; and as Kubernetes does.
    pub operator: String,
    pub values: Vec<String>,
}

impl HostSelector {
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let by_label = self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        by_label && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    pub(crate) const OPERATORS: [&str; 9] = ["in", "notin", "exists", "!", "=", "==", "!=", "gt", "lt"];

    /// The operator in upstream's spelling.
    pub(crate) fn operation(&self) -> String {
        match self.operator.to_ascii_lowercase().as_str() {
            "doesnotexist" => "!".to_owned(),
            other => other.to_owned(),
        }
    }

    /// As Kubernetes' selectors: what is absent is not in, and not equal.
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_in = || value.is_some_and(|value| self.values.contains(value));
        let compared = |is: fn(i64, i64) -> bool| {
            let pair =
                value.and_then(|value| value.parse().ok()).zip(self.values.first().and_then(|it| it.parse().ok()));
            pair.is_some_and(|(value, bound)| is(value, bound))
        };
        match self.operation().as_str() {
            "in" | "=" | "==" => is_in(),
            "notin" | "!=" => !is_in(),
            "exists" => value.is_some(),
            "!" => value.is_none(),
            "gt" => compared(|value, bound| value > bound),
            "lt" => compared(|value, bound| value < bound),
            // Validation refuses it; a selector that nobody understands chooses nothing.
            _ => false,
        }
    }
}
