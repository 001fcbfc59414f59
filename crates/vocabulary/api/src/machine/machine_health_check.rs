//! `MachineHealthCheck`: when machines count as unhealthy, and how many may be remediated at once.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MachineCondition;

/// When a machine is unhealthy, and how many may be repaired at once.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machine.openshift.io",
    version = "v1beta1",
    kind = "MachineHealthCheck",
    plural = "machinehealthchecks",
    shortname = "mhc",
    shortname = "mhcs",
    namespaced,
    doc = "When machines are unhealthy, and how many may be repaired at once.",
    status = "MachineHealthCheckStatus",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "MaxUnhealthy", type_ = "string", json_path = ".spec.maxUnhealthy"),
    printcolumn(name = "ExpectedMachines", type_ = "integer", json_path = ".status.expectedMachines"),
    printcolumn(name = "CurrentHealthy", type_ = "integer", json_path = ".status.currentHealthy")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// No machine is repaired while more than this many, or this percentage, are unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_string")]
    #[schemars(extend("pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$", "default" = "100%"))]
    pub max_unhealthy: Option<IntOrString>,
    /// How long a machine has to get a node; `0` waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    #[schemars(extend("default" = "10m"))]
    pub node_startup_timeout: Option<String>,
    /// Delegates remediation to the controller of this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_reference")]
    pub remediation_template: Option<ObjectReference>,
    /// Selects machines. If missing or empty, all of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// Any of these makes a node unhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
}

/// A node condition that has lasted too long.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyCondition {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    pub timeout: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub type_: Option<String>,
}

/// Number of selected machines that are healthy.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<MachineCondition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count")]
    pub current_healthy: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count")]
    pub expected_machines: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,
}
