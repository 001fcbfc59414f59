//! `Scheduler`: settings of the scheduler. It decides whether the control plane runs the users' pods.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Empty;
use crate::config::NameReference;

/// Settings of the scheduler.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Scheduler",
    plural = "schedulers",
    doc = "Settings of the scheduler. One object, named cluster.",
    status = "Empty",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_node_selector: Option<String>,
    /// Whether control-plane nodes run the users' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masters_schedulable: Option<bool>,
    /// Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<NameReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "LowNodeUtilization", "HighNodeUtilization", "NoScoring"]))]
    pub profile: Option<String>,
}
