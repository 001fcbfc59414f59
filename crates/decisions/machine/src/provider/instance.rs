//! An instance as a provider sees it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeAddress;
use serde_json::Value;

use super::Error;

/// One instance in the cloud, with everything that goes into a Machine's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The identity that the instance's node will carry too, such as `aws:///zone/id`. Once known, it never changes. `None`
    /// while the cloud has not given the instance one.
    pub provider_id: Option<String>,
    pub state: State,
    /// The cloud's own word for the state, shown in the annotation `machine.openshift.io/instance-state`.
    pub state_word: String,
    pub power: Power,
    /// In the order that the Machine shows. Empty while the instance has none.
    pub addresses: Vec<NodeAddress>,
    pub region: Option<String>,
    pub zone: Option<String>,
    pub instance_type: Option<String>,
    /// The cloud may take the instance back at any time (spot, preemptible).
    pub interruptible: bool,
    /// Further labels and annotations for the Machine. The keys that core writes itself are ignored here.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// `status.providerStatus` of the Machine, in the provider's own kind. It must not change between two calls that find
    /// the instance unchanged, because every change is a write.
    pub provider_status: Option<Value>,
    /// When the cloud made the instance.
    pub created: Option<Timestamp>,
}

/// Where an instance is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is being made or is booting.
    #[default]
    Pending,
    Running,
    /// It exists and does not run.
    Stopped,
    /// It is being removed.
    Deleting,
    /// The cloud accepted the creation and gave up on it later. The instance, or its child resources, may still be there and
    /// have to be deleted before another try.
    Failed(Error),
}

/// Whether an instance has power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
    #[default]
    Unknown,
}
