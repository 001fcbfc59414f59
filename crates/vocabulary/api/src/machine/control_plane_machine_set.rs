//! `ControlPlaneMachineSet`: the machines of the control plane, replaced one at a time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use super::MachineSpec;

/// The only supported kind of template.
pub const MACHINES_V1BETA1: &str = "machines_v1beta1_machine_openshift_io";

/// The machines of the control plane.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machine.openshift.io",
    version = "v1",
    kind = "ControlPlaneMachineSet",
    plural = "controlplanemachinesets",
    namespaced,
    doc = "The machines of the control plane, replaced one at a time.",
    status = "ControlPlaneMachineSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Unavailable", type_ = "integer", json_path = ".status.unavailableReplicas"),
    printcolumn(name = "State", type_ = "string", json_path = ".spec.state"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetSpec {
    /// Begins the names of new machines, which end with an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 245))]
    #[x_kube(validation = Rule::new("!format.dns1123Subdomain().validate(self).hasValue()").message(
        "machineNamePrefix must be a lowercase RFC 1123 subdomain"))]
    pub machine_name_prefix: Option<String>,
    /// How many machines: 3 or 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3, "enum" = [3, 5]))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("replicas is immutable"))]
    pub replicas: Option<i32>,
    /// Selects the machines of the control plane.
    #[schemars(schema_with = "crate::schema::label_selector")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("selector is immutable"))]
    pub selector: LabelSelector,
    /// `Active` makes the set act; it cannot be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Inactive", "enum" = ["Active", "Inactive"]))]
    #[x_kube(validation = Rule::new("oldSelf != 'Active' || self == oldSelf").message("state cannot be changed once Active"))]
    pub state: Option<String>,
    /// How machines are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "type": "RollingUpdate" }))]
    pub strategy: Option<ControlPlaneMachineSetStrategy>,
    /// Template for new machines.
    pub template: ControlPlaneMachineSetTemplate,
}

/// How machines are replaced.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "RollingUpdate", "enum" = ["RollingUpdate", "OnDelete"]))]
    pub type_: Option<String>,
}

/// Template for new machines.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetTemplate {
    #[schemars(extend("enum" = [MACHINES_V1BETA1]))]
    pub machine_type: String,
    #[serde(default, rename = "machines_v1beta1_machine_openshift_io", skip_serializing_if = "Option::is_none")]
    pub machines: Option<ControlPlaneMachineTemplate>,
}

/// A template of Machines.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineTemplate {
    /// Where machines are placed, spread evenly. In the words of one platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<FailureDomains>,
    pub metadata: ControlPlaneMachineTemplateMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<MachineSpec>,
}

/// Places of one platform.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = only_for("AWS", "aws"))]
#[x_kube(validation = only_for("Azure", "azure"))]
#[x_kube(validation = only_for("GCP", "gcp"))]
#[x_kube(validation = only_for("OpenStack", "openstack"))]
#[x_kube(validation = only_for("VSphere", "vsphere"))]
#[x_kube(validation = only_for("Nutanix", "nutanix"))]
pub struct FailureDomains {
    #[schemars(schema_with = "crate::schema::platform_type")]
    pub platform: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub aws: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub azure: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub gcp: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub openstack: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub vsphere: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "places")]
    pub nutanix: Option<Vec<Value>>,
}

/// A list of platform-specific objects; the provider's rules validate them.
fn places(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-list-type": "atomic",
    })
}

fn only_for(platform: &str, field: &str) -> Rule {
    let rule = format!("has(self.platform) && self.platform == '{platform}' ?  has(self.{field}) : !has(self.{field})");
    let message = format!("{field} configuration is required when platform is {platform}, and forbidden otherwise");
    Rule::new(rule).message(message.as_str())
}

/// Labels and annotations of new machines.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineTemplateMeta {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[x_kube(validation = master_label("machine.openshift.io/cluster-api-machine-role"))]
    #[x_kube(validation = master_label("machine.openshift.io/cluster-api-machine-type"))]
    #[x_kube(validation = Rule::new("'machine.openshift.io/cluster-api-cluster' in self").message(
        "label 'machine.openshift.io/cluster-api-cluster' is required"))]
    pub labels: BTreeMap<String, String>,
}

fn master_label(key: &str) -> Rule {
    Rule::new(format!("'{key}' in self && self['{key}'] == 'master'"))
        .message(format!("label '{key}' is required, and must have value 'master'").as_str())
}

/// Progress of the control plane.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSetStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
}
