//! `KubeletConfig`: settings of the kubelet for some pools.
//!
//! Each pool has its own 97 (Node config), 98 (feature gates) and 99 (KubeletConfigs). A custom pool that selects the workers'
//! MachineConfigs inherits all three: each of its own begins with what the workers' say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MachineConfigPoolCondition;
use crate::Empty;

/// Settings of the kubelet for the selected pools.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "KubeletConfig",
    plural = "kubeletconfigs",
    doc = "Settings of the kubelet for some pools. They become the MachineConfig 99-<pool>-generated-kubelet, beside 97-<pool>-generated-kubelet of the Node config and 98-<pool>-generated-kubelet of the FeatureGate. A custom pool that selects the workers' MachineConfigs starts from what the workers' 97, 98 and 99 say; its own settings are laid over that, field by field. Several on one pool are joined in the order of their names.",
    status = "KubeletConfigStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigSpec {
    /// Computes the resources reserved for the system on each node from its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_sizing_reserved: Option<bool>,
    /// A KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`), merged over the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub kubelet_config: Option<Value>,
    /// Verbosity of the kubelet's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub log_level: Option<i32>,
    /// Selects pools by label. If missing or empty, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub machine_config_pool_selector: Option<LabelSelector>,
    /// TLS settings of the kubelet's server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,
}

/// A named set of TLS settings, or a set of one's own.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecurityProfile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub custom: Option<CustomTlsProfile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub intermediate: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub modern: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub old: Option<Empty>,
    /// `Old`, `Intermediate`, `Modern` or `Custom`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Old", "Intermediate", "Modern", "Custom"]))]
    pub type_: Option<String>,
}

/// Custom TLS settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTlsProfile {
    #[serde(default, deserialize_with = "crate::schema::null_is_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ciphers: Vec<String>,
    #[serde(default, rename = "minTLSVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]))]
    pub min_tls_version: Option<String>,
}

/// Result of applying the settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<MachineConfigPoolCondition>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
