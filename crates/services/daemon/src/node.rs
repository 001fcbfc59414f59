//! The daemon's own Node in the cluster: what it asks for, and what is reported there.
//!
//! Only annotations matter, so only metadata is read and watched. Reports are server-side applied with the Node's uid: a Node
//! that was deleted is never made again by a report.

use std::collections::BTreeMap;

use api::annotations;
use api::names::{drain, state};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::{self, watcher};
use serde_json::json;

/// The field manager of everything the daemon writes.
pub const MANAGER: &str = "machinist-daemon";

/// Longer reasons are cut; annotations have one shared limit.
const REASON_LIMIT: usize = 2000;

/// What the Node's annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub uid: String,
    pub current: String,
    pub desired: String,
    pub state: String,
    pub reason: String,
    pub desired_drain: String,
    pub last_applied_drain: String,
    pub post_action: String,
    pub topology: String,
    /// The config that an administrator forces, whatever the checks say.
    pub forced: String,
    pub reverted: String,
    pub daemon: String,
    pub finalize_failure: String,
    /// What the controller asks the daemon to repeat, and what it last repeated.
    pub probe: String,
    pub answered: String,
}

impl View {
    pub fn read(node: &PartialObjectMeta<NodeObject>) -> Self {
        let annotations = node.metadata.annotations.as_ref();
        let get = |key: &str| annotations.and_then(|all| all.get(key)).cloned().unwrap_or_default();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            current: get(annotations::CURRENT_CONFIG),
            desired: get(annotations::DESIRED_CONFIG),
            state: get(annotations::STATE),
            reason: get(annotations::REASON),
            desired_drain: get(annotations::DESIRED_DRAIN),
            last_applied_drain: get(annotations::LAST_APPLIED_DRAIN),
            post_action: get(annotations::POST_CONFIG_ACTION),
            topology: get(annotations::CONTROL_PLANE_TOPOLOGY),
            forced: get(annotations::FORCE),
            reverted: get(annotations::REVERTED),
            daemon: get(annotations::DAEMON),
            finalize_failure: get(annotations::OSTREE_FINALIZE_STAGED_FAILURE),
            probe: get(annotations::PROBE),
            answered: get(annotations::ANSWERED),
        }
    }

    /// The lines that runbooks look for when the Node says something new.
    pub fn transitions(&self, new: &View) -> Vec<String> {
        fn word(text: &str) -> &str {
            if text.is_empty() { "none" } else { text }
        }
        let mut lines = Vec::new();
        if self.state != new.state {
            lines.push(format!("Transitioned from state: {} -> {}", word(&self.state), word(&new.state)));
        }
        if self.reason != new.reason {
            let (old, new) = (word(&self.reason), word(&new.reason));
            lines.push(format!("Transitioned from degraded/unreconcilable reason {old} -> {new}"));
        }
        lines
    }

    /// What this Node is still to be told of a machine's birth.
    ///
    /// A Node that has reported before belongs to a host that was made anew under its name: it keeps the pool it was first
    /// born into, which no node may write any more then.
    pub fn introduction<'a>(&self, birth: &'a BTreeMap<String, String>) -> BTreeMap<&'static str, &'a str> {
        let keys = [
            (annotations::DESIRED_CONFIG, self.desired.is_empty()),
            (annotations::FIRST_PIVOT_CONFIG, self.current.is_empty()),
        ];
        let wanted = keys.into_iter().filter(|(_, is_wanted)| *is_wanted);
        wanted.filter_map(|(key, _)| Some((key, birth.get(key)?.as_str()))).collect()
    }

    pub fn is_failing(&self) -> bool {
        [state::DEGRADED, state::UNRECONCILABLE].contains(&self.state.as_str())
    }

    /// Whether the last thing asked of the drain controller was to empty this node.
    pub fn is_drained_by_us(&self) -> bool {
        self.desired_drain.starts_with(&format!("{}-", drain::DRAIN))
    }

    /// Whether the drain controller still has to answer.
    pub fn waits_for_drain(&self) -> bool {
        !self.desired_drain.is_empty() && self.desired_drain != self.last_applied_drain
    }
}

/// All annotations the daemon owns, as they shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub current: String,
    pub state: String,
    pub reason: String,
    pub desired_drain: String,
    pub post_action: String,
    pub reverted: String,
    /// Why the last reboot did not bring the OS that was staged.
    pub finalize_failure: String,
    /// The last probe that was seen.
    pub answered: String,
}

impl Report {
    /// What was last reported, also by an earlier daemon.
    pub fn of(view: &View) -> Self {
        Self {
            current: view.current.clone(),
            state: view.state.clone(),
            reason: view.reason.clone(),
            desired_drain: view.desired_drain.clone(),
            post_action: view.post_action.clone(),
            reverted: view.reverted.clone(),
            finalize_failure: view.finalize_failure.clone(),
            answered: view.answered.clone(),
        }
    }

    fn annotations(&self) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::from([
            (annotations::STATE, self.state.clone()),
            (annotations::REASON, self.reason.chars().take(REASON_LIMIT).collect()),
            (annotations::POST_CONFIG_ACTION, self.post_action.clone()),
            (annotations::DAEMON, env!("CARGO_PKG_VERSION").to_owned()),
            // Also while there was no probe: it shows that this daemon answers them.
            (annotations::ANSWERED, self.answered.clone()),
        ]);
        let optional = [
            (annotations::CURRENT_CONFIG, &self.current),
            (annotations::DESIRED_DRAIN, &self.desired_drain),
            (annotations::REVERTED, &self.reverted),
            (annotations::OSTREE_FINALIZE_STAGED_FAILURE, &self.finalize_failure),
        ];
        all.extend(
            optional.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.clone())),
        );
        all
    }
}

#[derive(Clone)]
pub struct Node {
    api: Api<PartialObjectMeta<NodeObject>>,
    name: String,
}

impl Node {
    pub fn new(client: Client, name: &str) -> Self {
        Self { api: Api::all(client), name: name.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes of this one Node, as metadata.
    pub fn watch(
        &self,
    ) -> impl futures::Stream<Item = Result<watcher::Event<PartialObjectMeta<NodeObject>>, watcher::Error>> + Send + use<>
    {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        watcher(self.api.clone(), config)
    }

    /// Asks the API for the Node. A Node that is gone is an answer too.
    pub async fn is_there(&self) -> Result<bool, kube::Error> {
        Ok(self.api.get_opt(&self.name).await?.is_some())
    }

    /// Tells a new Node what its machine was made with. Another manager than the report's: a report must not take it away.
    pub async fn introduce(&self, annotations: &BTreeMap<&str, &str>) -> Result<(), kube::Error> {
        let patch = json!({ "metadata": { "annotations": annotations } });
        let parameters = PatchParams { field_manager: Some(format!("{MANAGER}-birth")), ..PatchParams::default() };
        self.api.patch(&self.name, &parameters, &Patch::Merge(&patch)).await.map(drop)
    }

    /// Takes the administrator's force off: it is for one update, as the force file is.
    pub async fn clear_force(&self) -> Result<(), kube::Error> {
        let patch = json!({ "metadata": { "annotations": { annotations::FORCE: null } } });
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
    }

    /// Writes the report and returns the Node as it is then, and its version.
    pub async fn publish(&self, uid: &str, report: &Report) -> Result<(View, u64), kube::Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.name, "uid": uid, "annotations": report.annotations() },
        });
        let parameters = PatchParams::apply(MANAGER).force();
        self.api
            .patch(&self.name, &parameters, &Patch::Apply(&body))
            .await
            .map(|node| (View::read(&node), version(&node)))
    }
}

/// Servers count versions up; one that is no number is never older than another.
pub(crate) fn version(node: &PartialObjectMeta<NodeObject>) -> u64 {
    node.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_made_anew_does_not_tell_its_node_another_birth() {
        let birth = [annotations::CURRENT_CONFIG, annotations::DESIRED_CONFIG, annotations::FIRST_PIVOT_CONFIG]
            .map(|key| (key.to_owned(), "rendered-worker-2".to_owned()));
        let birth = BTreeMap::from(birth);
        let told = |view: View| view.introduction(&birth).into_keys().collect::<Vec<_>>();
        assert_eq!(told(View::default()), [annotations::DESIRED_CONFIG, annotations::FIRST_PIVOT_CONFIG]);
        let (current, desired) = ("rendered-worker-1".to_owned(), "rendered-worker-1".to_owned());
        assert_eq!(told(View { desired: desired.clone(), ..View::default() }), [annotations::FIRST_PIVOT_CONFIG]);
        assert_eq!(told(View { current: current.clone(), ..View::default() }), [annotations::DESIRED_CONFIG]);
        assert_eq!(told(View { current, desired, ..View::default() }), [""; 0]);
    }

    #[test]
    fn only_what_changed_is_told_and_nothing_is_left_blank() {
        let view = |state: &str, reason: &str| View { state: state.into(), reason: reason.into(), ..View::default() };
        let told = |old: View, new: View| old.transitions(&new).join("\n");
        assert_eq!(told(view("Working", ""), view("Done", "")), "Transitioned from state: Working -> Done");
        assert_eq!(told(view("", ""), view("Working", "")), "Transitioned from state: none -> Working");
        assert_eq!(told(view("Working", ""), view("", "")), "Transitioned from state: Working -> none");
        assert_eq!(
            told(view("Degraded", "no disk"), view("Done", "")),
            "Transitioned from state: Degraded -> Done\nTransitioned from degraded/unreconcilable reason no disk -> none"
        );
        assert_eq!(told(view("Done", ""), view("Done", "")), "");
    }
}
