//! What the installation says of itself: its ClusterOperators, the pods of its daemon, what it refused, and who waits for a
//! certificate.

use std::collections::BTreeMap;

use api::config::{ClusterImagePolicy, ClusterOperator, ImagePolicy};
use api::machineconfiguration::MachineConfig;
use api::names::status;
use api::{annotations, labels};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// A ClusterOperator of ours that is not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFacts {
    pub name: String,
    /// What is wrong with it, as a word: `degraded` or `not available`.
    pub what: &'static str,
    pub since: Option<Timestamp>,
    pub message: String,
}

/// The DaemonSet of the node daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonFacts {
    pub name: String,
    pub namespace: String,
    /// How many nodes shall run it, and on how many the newest one runs.
    pub wanted: i32,
    pub newest: i32,
    /// Its pods, whatever they do.
    pub pods: Vec<DaemonPod>,
}

/// A pod of the node daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonPod {
    pub name: String,
    pub node: String,
    /// Why it is not ready; nothing while it is.
    pub unready: Option<String>,
    pub since: Option<Timestamp>,
}

/// A kubelet's request for a certificate that nobody has decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    pub name: String,
    /// Who asks, such as `system:node:worker-1`.
    pub user: String,
    pub since: Option<Timestamp>,
}

/// An object that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind in small letters, as kubectl takes it.
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub why: String,
}

impl OperatorFacts {
    /// What a ClusterOperator says is wrong. Those of others are not ours to judge.
    pub(super) fn from_object(operator: &ClusterOperator) -> Option<Self> {
        let name = operator.name_any();
        if !["machine-config", "machine-api"].contains(&name.as_str()) {
            return None;
        }
        let conditions = operator.status.iter().flat_map(|status| &status.conditions);
        let wrong = conditions.filter_map(|condition| {
            let what = match (condition.type_.as_str(), condition.status.as_str()) {
                ("Available", status::FALSE) => "not available",
                ("Degraded", status::TRUE) => "degraded",
                _ => return None,
            };
            Some((what, condition))
        });
        let (what, condition) = wrong.max_by_key(|(what, _)| *what)?;
        let since = condition.last_transition_time.as_ref().map(|time| time.0);
        Some(Self { name, what, since, message: condition.message.clone().unwrap_or_default() })
    }
}

impl DaemonFacts {
    pub(super) fn from_objects(set: &DaemonSet, pods: &[Pod]) -> Self {
        let name = set.name_any();
        let counts = set.status.as_ref();
        let own = pods.iter().filter(|pod| pod.labels().get(labels::K8S_APP) == Some(&name));
        Self {
            wanted: counts.map_or(0, |status| status.desired_number_scheduled),
            newest: counts.and_then(|status| status.updated_number_scheduled).unwrap_or(0),
            namespace: set.namespace().unwrap_or_default(),
            pods: own.filter_map(DaemonPod::from_object).collect(),
            name,
        }
    }
}

impl DaemonPod {
    fn from_object(pod: &Pod) -> Option<Self> {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let status = pod.status.as_ref();
        let conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.clone().find(|condition| condition.type_ == "Ready");
        let waits = status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let waits = waits.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
        let why = waits.filter_map(|waiting| {
            let reason = waiting.reason.clone()?;
            Some(match &waiting.message {
                Some(message) => format!("{reason}: {message}"),
                None => reason,
            })
        });
        let phase = || status.and_then(|status| status.phase.clone()).unwrap_or_else(|| "Unknown".to_owned());
        let is_ready = ready.is_some_and(|ready| ready.status == status::TRUE);
        Some(Self {
            name: pod.name_any(),
            node,
            unready: (!is_ready).then(|| why.clone().next().unwrap_or_else(phase)),
            since: ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
        })
    }
}

impl RequestFacts {
    /// Reads a request that waits. Those of others than kubelets are not ours to judge.
    pub(super) fn from_object(request: &CertificateSigningRequest) -> Option<Self> {
        const KUBELETS: [&str; 2] = ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"];
        let is_decided = request.status.as_ref().is_some_and(|status| {
            status.certificate.is_some() || status.conditions.as_ref().is_some_and(|all| !all.is_empty())
        });
        if is_decided || !KUBELETS.contains(&request.spec.signer_name.as_str()) {
            return None;
        }
        Some(Self {
            name: request.name_any(),
            user: request.spec.username.clone().unwrap_or_default(),
            since: request.metadata.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}

impl Refused {
    pub(super) fn cluster_policy(policy: &ClusterImagePolicy) -> Option<Self> {
        let why = refusal(policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default())?;
        Some(Self { kind: "clusterimagepolicy".to_owned(), namespace: None, name: policy.name_any(), why })
    }

    pub(super) fn policy(policy: &ImagePolicy) -> Option<Self> {
        let why = refusal(policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default())?;
        Some(Self { kind: "imagepolicy".to_owned(), namespace: policy.namespace(), name: policy.name_any(), why })
    }
}

impl Refused {
    /// What the controller has noted on a config that it generated: mirrors and settings that it left out of it.
    pub(super) fn left_out(config: &MachineConfig) -> Vec<Self> {
        let note = config.annotations().get(annotations::LEFT_OUT);
        let noted: BTreeMap<String, String> = note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default();
        let read = noted.into_iter().filter_map(|(object, why)| {
            // The last entry stands for objects that are not named.
            let (kind, name) = object.split_once(' ')?;
            let (namespace, name) = match name.split_once('/') {
                Some((namespace, name)) => (Some(namespace.to_owned()), name),
                None => (None, name),
            };
            Some(Self { kind: kind.to_lowercase(), namespace, name: name.to_owned(), why })
        });
        read.collect()
    }
}

/// What the controller says about a policy that is not in force, or not wholly.
fn refusal(conditions: &[Condition]) -> Option<String> {
    let pending = conditions.iter().find(|condition| condition.type_ == "Pending")?;
    (pending.reason != "AsExpected").then(|| pending.message.clone())
}
