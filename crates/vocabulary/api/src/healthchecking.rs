//! `healthchecking.openshift.io/v1alpha1`: health checks before they moved to the group of machines.
//!
//! Kept for manifests of that time. New manifests use [`crate::machine::MachineHealthCheck`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group.
pub const GROUP: &str = "healthchecking.openshift.io";
/// The version of every kind in the group.
pub const VERSION: &str = "v1alpha1";

/// Which machines are checked. When a node is unhealthy stands in the ConfigMap `node-unhealthy-conditions`.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "healthchecking.openshift.io",
    version = "v1alpha1",
    kind = "MachineHealthCheck",
    plural = "machinehealthchecks",
    namespaced,
    doc = "Selects the machines to check.",
    status = "MachineHealthCheckStatus",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// Selects machines by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// `reboot` restarts a machine instead of replacing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_strategy: Option<String>,
}

/// Nothing is reported here.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineHealthCheckStatus {}
