//! What a provider is told about a Machine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One Machine as a provider sees it.
#[derive(Clone, Debug)]
pub struct Request {
    pub mark: Mark,
    /// Labels of the Machine.
    pub labels: BTreeMap<String, String>,
    /// The Machine is part of the control plane, which decides about load balancers.
    pub control_plane: bool,
    /// `spec.providerSpec.value`, or what [`super::SpecRules::place`] kept of it when the Machine has lost its spec.
    pub spec: Arc<Value>,
    /// `spec.providerID`, once known.
    pub provider_id: Option<String>,
    /// `status.providerStatus` as the provider last gave it.
    pub provider_status: Option<Value>,
    /// What was written down before the first creation. `None` means that we never asked the cloud for this Machine.
    pub intent: Option<Intent>,
    /// The secrets that [`super::SpecRules::secrets`] asked for, as far as they exist.
    pub secrets: Arc<Secrets>,
}

/// Whose something in the cloud is. Providers write all of it on everything they make, as tags or as parts of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// The cluster's id in the cloud: the Machine's label `machine.openshift.io/cluster-api-cluster`.
    pub cluster: String,
    pub namespace: String,
    pub machine: String,
    /// The Machine's uid, so that a Machine made anew under an old name does not inherit the old one's instance.
    pub uid: String,
}

/// What was decided about a creation before the cloud was asked, kept on the Machine.
///
/// It is written before the first call and only replaced when an attempt is known to have left nothing behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Identifies the attempt. Clouds that accept a client token get it; equal tokens never make two instances.
    pub token: String,
    /// Counts the attempts of a Machine from 1. An attempt that failed for good in the cloud is followed by another token.
    pub attempt: u32,
    /// Names of the child resources by what they are (`nic`, `disk-0`, `port-1`), from [`super::SpecRules::children`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, String>,
    /// Where the instance is and how it is reached, from [`super::SpecRules::place`]: enough to find and delete it if the
    /// Machine loses its spec.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub place: Value,
    /// When the intent was written.
    pub recorded: Timestamp,
}

/// Where to look for things that carry a cluster's mark.
#[derive(Clone, Debug)]
pub struct Search {
    pub cluster: String,
    /// A place as [`super::SpecRules::place`] gives it. The controllers search each place once.
    pub place: Arc<Value>,
    pub secrets: Arc<Secrets>,
}

/// Something in the cloud that carries a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    pub mark: Mark,
    /// What it is: `instance`, or a child resource such as `port`, `volume`, `nic`.
    pub kind: String,
    /// The cloud's id, which [`super::Provider::remove`] needs.
    pub id: String,
    /// The provider id, for an instance that has one.
    pub provider_id: Option<String>,
    pub created: Option<Timestamp>,
}

/// A Secret that a spec names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretNeed {
    pub purpose: SecretPurpose,
    /// `None` means the Machine's own namespace.
    pub namespace: Option<String>,
    pub name: String,
    /// Path of the field that names it, for messages: `providerSpec.userDataSecret.name`.
    pub field: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPurpose {
    /// How to log in to the cloud. Needed by every call.
    Credentials,
    /// What the instance reads at its first boot. Needed by creation only.
    UserData,
}

/// The contents of the Secrets that a spec names. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Data of the credentials Secret. `None` when the spec names none or the Secret does not exist.
    pub credentials: Option<SecretData>,
    /// Data of the user data Secret.
    pub user_data: Option<SecretData>,
}

/// The data of one Secret. Its `Debug` form shows the keys only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData(pub BTreeMap<String, Vec<u8>>);

impl SecretData {
    /// The bytes under a key.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// The text under a key, if it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.bytes(key).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { credentials, user_data } = self;
        f.debug_struct("Secrets").field("credentials", credentials).field("user_data", user_data).finish()
    }
}
