//! The daemon's part of its MachineConfigNode: one condition for each phase of an update.
//!
//! It is news for people and dashboards. Nothing waits for it; a write that fails is written again until it arrives.
//! What the drain controller reports (cordoned, drained, uncordoned) and what the rollout controller reports (several pools
//! want the node) is not touched here: each condition has one writer. The spec is the controller's; where there is no object
//! yet, it is made here with what the Node says.

use std::collections::BTreeMap;
use std::time::Duration;

use ::node::words::Words;
use api::machineconfiguration::MachineConfigNode;
use api::names::{NOT_YET_SET, node_condition, status};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::node::MANAGER;

/// Longer messages are cut; upstream's are short sentences.
const MESSAGE_LIMIT: usize = 1024;

/// How long one write may take.
const REQUEST: Duration = Duration::from_secs(15);

/// Pauses before a failed write is tried again; they double. A cluster without this kind is not asked more often than the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The phases the daemon goes through, in order.
const OURS: [&str; 8] = [
    node_condition::UPDATED,
    node_condition::UPDATE_PREPARED,
    node_condition::UPDATE_EXECUTED,
    node_condition::APPLIED_FILES_AND_OS,
    node_condition::REBOOTED_NODE,
    node_condition::UPDATE_POST_ACTION_COMPLETE,
    node_condition::RESUMED,
    node_condition::NODE_DEGRADED,
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    status: &'static str,
    reason: String,
    message: String,
    since: String,
}

/// What the object names besides its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: String,
    pub pool: String,
    pub current: String,
    pub desired: String,
}

pub struct Conditions {
    api: Api<MachineConfigNode>,
    name: String,
    entries: BTreeMap<&'static str, Entry>,
    sent: Option<Value>,
    /// When the last write is tried again that failed, and the pause before that.
    retry: Option<(Instant, Duration)>,
}

impl Conditions {
    pub fn new(client: Client, name: &str) -> Self {
        let mut conditions =
            Self { api: Api::all(client), name: name.to_owned(), entries: BTreeMap::new(), sent: None, retry: None };
        for type_ in OURS {
            let message = format!("This node has not yet entered the {type_} phase");
            conditions.set(type_, status::FALSE, node_condition::NOT_YET_OCCURRED, &message);
        }
        conditions
    }

    pub fn set(&mut self, type_: &'static str, status: &'static str, reason: &str, message: &str) {
        let old = self.entries.get(type_);
        let since = match old {
            Some(entry) if entry.status == status => entry.since.clone(),
            _ => now(),
        };
        let message = message.chars().take(MESSAGE_LIMIT).collect();
        self.entries.insert(type_, Entry { status, reason: reason.to_owned(), message, since });
    }

    pub fn tell(&mut self, words: impl IntoIterator<Item = Words>) {
        for Words { type_, status, reason, message } in words {
            self.set(type_, status, reason, &message);
        }
    }

    /// An update begins: every phase of the last one is over.
    pub fn begin(&mut self, to: &str) {
        let name = self.name.clone();
        for type_ in OURS {
            let message = format!("Action during update to {to}: this node has not yet entered the {type_} phase");
            self.set(type_, status::FALSE, node_condition::NOT_YET_OCCURRED, &message);
        }
        self.set(node_condition::UPDATED, status::FALSE, "UpdateNeeded", &format!("Node {name} needs an update"));
    }

    /// Returns when a write that failed shall be tried again; never, if the last one arrived.
    pub async fn due(&self) {
        match self.retry {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Writes what is new. What does not arrive is due again later.
    pub async fn publish(&mut self, identity: &Identity) {
        let body = self.body(identity);
        if self.sent.as_ref() == Some(&body) || identity.uid.is_empty() {
            self.retry = None;
            return;
        }
        let written = tokio::time::timeout(REQUEST, self.write(identity, &body)).await;
        match written {
            Ok(Ok(())) => {
                self.sent = Some(body);
                self.retry = None;
                return;
            }
            Ok(Err(error)) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "the MachineConfigNode could not be written");
            }
            Err(_) => tracing::debug!("the MachineConfigNode could not be written: the API did not answer"),
        }
        let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        self.retry = Some((Instant::now() + pause, pause));
    }

    async fn write(&self, identity: &Identity, body: &Value) -> Result<(), kube::Error> {
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(body);
        let write = || self.api.patch_status(&self.name, &parameters, &patch);
        match write().await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.create(identity).await?;
                write().await.map(drop)
            }
            written => written.map(drop),
        }
    }

    async fn create(&self, identity: &Identity) -> Result<(), kube::Error> {
        let or_unset = |text: &str| if text.is_empty() { NOT_YET_SET.to_owned() } else { text.to_owned() };
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigNode",
            "metadata": {
                "name": self.name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": identity.uid}],
            },
            "spec": {
                "node": {"name": self.name},
                "pool": {"name": or_unset(&identity.pool)},
                "configVersion": {"desired": or_unset(&identity.desired)},
            },
        });
        let Ok(object) = serde_json::from_value(object) else { return Ok(()) };
        match self.api.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn body(&self, identity: &Identity) -> Value {
        let conditions: Vec<Value> = self
            .entries
            .iter()
            .map(|(type_, entry)| {
                json!({
                    "type": type_, "status": entry.status, "reason": entry.reason,
                    "message": entry.message, "lastTransitionTime": entry.since,
                })
            })
            .collect();
        let desired = if identity.desired.is_empty() { NOT_YET_SET } else { &identity.desired };
        let mut version = json!({ "desired": desired });
        if !identity.current.is_empty() {
            version["current"] = json!(identity.current);
        }
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigNode",
            "metadata": { "name": self.name },
            "status": { "conditions": conditions, "configVersion": version },
        })
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_other_writers_are_not_among_ours() {
        let of_drains = [node_condition::CORDONED, node_condition::DRAINED, node_condition::UNCORDONED];
        assert!(of_drains.iter().all(|type_| !OURS.contains(type_)));
        assert!(!OURS.contains(&node_condition::MULTIPLE_CUSTOM_POOLS));
    }
}
