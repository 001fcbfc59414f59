//! What a drain knows of a pod, and of the budgets that protect it.

use std::collections::BTreeMap;
use std::fmt;

use api::selector::Selector;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

/// Its presence marks a static pod's image in the API: deleting that changes nothing on the node.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The facts of one pod that drains depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The controller that would make the pod again.
    pub owner: Option<Owner>,
    pub mirror: bool,
    /// It has run to its end, well or badly.
    pub finished: bool,
    pub created: Option<Timestamp>,
    /// Since when it is being deleted.
    pub terminating: Option<Timestamp>,
}

/// The object that controls a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    pub namespace: String,
    pub name: String,
    pub disruptions_allowed: i32,
    selector: Option<Selector>,
}

impl PodFacts {
    /// Reads a pod.
    pub fn from_object(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            owner: controller.map(|owner| Owner { kind: owner.kind.clone(), name: owner.name.clone() }),
            mirror: metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR)),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            terminating: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        }
    }

    pub fn is_of_daemon_set(&self) -> bool {
        self.daemon_set().is_some()
    }

    /// `namespace/name` of the DaemonSet that controls the pod.
    pub fn daemon_set(&self) -> Option<String> {
        let owner = self.owner.as_ref().filter(|owner| owner.kind == "DaemonSet")?;
        Some(format!("{}/{}", self.namespace, owner.name))
    }

    /// `namespace/name`, as people write it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl DisruptionBudget {
    /// Reads a budget. One whose selector cannot be read protects nothing here; the API server decides anyway.
    pub fn from_object(budget: &PodDisruptionBudget) -> Self {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        Self {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            name: budget.metadata.name.clone().unwrap_or_default(),
            disruptions_allowed: budget.status.as_ref().map_or(0, |status| status.disruptions_allowed),
            selector: selector.and_then(|selector| Selector::parse(selector).ok()),
        }
    }

    /// Whether the budget protects this pod. An empty selector protects every pod of the namespace.
    pub fn protects(&self, pod: &PodFacts) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}
