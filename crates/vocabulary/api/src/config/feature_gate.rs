//! `FeatureGate`: features of the cluster that are turned on or off.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Features of the cluster that are turned on or off.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "FeatureGate",
    plural = "featuregates",
    doc = "Features of the cluster that are turned on or off. One object, named cluster.",
    status = "FeatureGateStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(oldSelf.featureSet) ? has(self.featureSet) : true")
    .message(".spec.featureSet cannot be removed"))]
pub struct FeatureGateSpec {
    /// Single features, with the feature set `CustomNoUpgrade` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub custom_no_upgrade: Option<CustomFeatureGates>,
    /// A named set of features. Most sets cannot be left again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "feature_set")]
    pub feature_set: Option<String>,
}

/// Features by name.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomFeatureGates {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "names")]
    pub disabled: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "names")]
    pub enabled: Vec<String>,
}

/// Enabled features, by version of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
    pub feature_gates: Vec<FeatureGateDetails>,
}

/// Enabled features in one version.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateDetails {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<FeatureGateAttributes>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<FeatureGateAttributes>,
    pub version: String,
}

/// One feature.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGateAttributes {
    #[schemars(extend("pattern" = NAME))]
    pub name: String,
}

const NAME: &str = r"^([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+\.?$";

fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "pattern": NAME } })
}

fn feature_set(_: &mut SchemaGenerator) -> Schema {
    let fixed = |set: &str| {
        serde_json::json!({
            "rule": format!("oldSelf == '{set}' ? self == '{set}' : true"),
            "message": format!("{set} may not be changed"),
        })
    };
    json_schema!({
        "type": "string",
        "enum": ["CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", "OKD", ""],
        "x-kubernetes-validations": [
            fixed("CustomNoUpgrade"),
            fixed("TechPreviewNoUpgrade"),
            fixed("DevPreviewNoUpgrade"),
            { "rule": "oldSelf == 'OKD' ? self != '' : true", "message": "OKD cannot transition to Default" },
        ],
    })
}
