//! What each node gets besides its target: the labels and taints of where it belongs, and its MachineConfigNode.
//!
//! Nothing here costs budget, and nothing waits for it. Of a MachineConfigNode it writes the spec and the condition
//! `MultipleCustomPools`, and makes the object where the daemon was not faster.

mod birth;

use std::collections::BTreeMap;
use std::time::Duration;

use api::known::Unread;
use api::machineconfiguration::{GROUP, MachineConfigNode, VERSION};
use api::names::{NOT_YET_SET, node_condition, status};
use cluster::error::if_found;
use cluster::{Outcome, Problem, problem, write};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use rollout::{Marks, Membership, NodeFacts};
use serde_json::{Value, json};

use super::index::Placed;
use super::{MANAGER, Rollout};

/// Nodes at once; targets come first.
pub(super) const WORKERS: usize = 4;

/// A target that moves on is worth one write, not two.
const QUIET: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write labels and taints of node {node}")]
    Mark {
        node: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write MachineConfigNode {node}")]
    Write {
        node: String,
        #[source]
        source: kube::Error,
    },
}

impl Rollout {
    /// Queues a node whose object or MachineConfigNode changed, if there is anything to do about it.
    pub(super) fn look_at(&self, name: &str) {
        let Some(placed) = self.index.lock().node(name, self.masters_schedulable()) else {
            if self.context.world.reports.named(name).is_some() {
                self.nodes.add(name.to_owned());
            }
            return;
        };
        if placed.marks.is_some() {
            self.nodes.add(name.to_owned());
        } else if self.spec(&placed).is_some() || self.was_contested(&placed) {
            self.nodes.add_quiet(name.to_owned(), QUIET, LONGEST);
        }
    }

    /// Looks at every node, because the pools or the Scheduler changed.
    pub(super) fn look_at_all(&self) {
        let unmarked = self.index.lock().unmarked(self.masters_schedulable());
        unmarked.into_iter().for_each(|node| self.nodes.add(node));
    }

    fn masters_schedulable(&self) -> Option<bool> {
        let present = self.context.world.schedulers.named(api::names::CLUSTER).map(|schedulable| *schedulable);
        let mut known = self.schedulable.lock();
        // Once there was a Scheduler, its end means what it says by default.
        *known = present.or(known.map(|_| false));
        *known
    }

    pub(super) async fn reconcile_node(self: std::sync::Arc<Self>, name: String) -> Outcome {
        match self.look_after(&name).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(node = name, error = &error as &dyn std::error::Error, "will try again");
                Outcome::Retry
            }
        }
    }

    async fn look_after(&self, name: &str) -> Result<Outcome, Error> {
        let Some(mut placed) = self.index.lock().node(name, self.masters_schedulable()) else {
            return self.forget(name).await.map(|()| Outcome::Done);
        };
        let mut outcome = Outcome::Done;
        if let Some(mut marks) = placed.marks.take() {
            outcome = self.judge_birth(&placed.facts, &mut marks).await;
            if marks.is_needed() {
                self.mark(&placed.facts, &marks).await?;
            }
        }
        let fail = |source| Error::Write { node: name.to_owned(), source };
        let api: Api<MachineConfigNode> = Api::all(self.context.world.client.clone());
        if let Some(spec) = self.spec(&placed) {
            let object = json!({
                "apiVersion": format!("{GROUP}/{VERSION}"),
                "kind": "MachineConfigNode",
                "metadata": { "name": name, "ownerReferences": [owner(&placed.facts)] },
                "spec": spec,
            });
            self.leisure.take(write::apply(&api, MANAGER, name, &object)).await.map_err(fail)?;
            self.context.metrics.wrote("MachineConfigNode");
        }
        if self.was_contested(&placed) {
            let object = contested(name, None);
            write::apply_status(&api, MANAGER, name, &object).await.map_err(fail)?;
            self.context.metrics.wrote("MachineConfigNode.status");
            self.contested.lock().remove(name);
        }
        Ok(outcome)
    }

    /// The spec that a node's object shall have, if it has another. Nodes that no pool wants have none.
    fn spec(&self, placed: &Placed) -> Option<Value> {
        let pool = match &placed.membership {
            Membership::Member { primary, .. } => primary.as_str(),
            Membership::Contested(_) => NOT_YET_SET,
            Membership::Unmanaged => return None,
        };
        let desired = placed.facts.desired.as_deref().unwrap_or(NOT_YET_SET);
        let present = self.context.world.reports.named(&placed.facts.name);
        let is_same = present.is_some_and(|it| it.pool == pool && (it.desired == desired || !is_name(desired)));
        // Garbage in the annotation is the rollout's to put back, and the API would refuse it here.
        let desired = if is_name(desired) { desired } else { NOT_YET_SET };
        (!is_same).then(|| {
            json!({
                "node": { "name": placed.facts.name },
                "pool": { "name": pool },
                "configVersion": { "desired": desired },
            })
        })
    }

    /// Whether the node's object still says that two pools want it.
    fn was_contested(&self, placed: &Placed) -> bool {
        let report = self.context.world.reports.named(&placed.facts.name);
        !matches!(placed.membership, Membership::Contested(_)) && report.is_some_and(|it| it.report.contested.is_some())
    }

    async fn mark(&self, facts: &NodeFacts, marks: &Marks) -> Result<(), Error> {
        let mut patch = json!({ "metadata": {
            "resourceVersion": facts.resource_version.text, "labels": marks.labels, "annotations": marks.annotations,
        } });
        if let Some(taints) = &marks.taints {
            patch["spec"] = json!({ "taints": taints });
        }
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, &facts.name, &patch).await {
            Ok(written) => {
                self.context.metrics.wrote("Node");
                let facts = NodeFacts::from_object(&written);
                self.index.lock().observe_answer(&self.pools, std::sync::Arc::new(facts));
                Ok(())
            }
            // The newer node is on its way here and is looked at again.
            Err(error) if matches!(problem(&error), Problem::Conflict | Problem::NotFound) => Ok(()),
            Err(source) => Err(Error::Mark { node: facts.name.clone(), source }),
        }
    }

    /// The object of a node that is gone. Its owner reference usually is quicker.
    async fn forget(&self, name: &str) -> Result<(), Error> {
        if self.context.world.reports.named(name).is_none() {
            return Ok(());
        }
        // The two watches are not in step: a node that is not known here may be a new one.
        let fail = |source| Error::Write { node: name.to_owned(), source };
        let nodes: Api<Node> = Api::all(self.context.world.client.clone());
        if write::in_time(nodes.get_metadata_opt(name)).await.map_err(fail)?.is_some() {
            return Ok(());
        }
        let api: Api<MachineConfigNode> = Api::all(self.context.world.client.clone());
        let deleted = if_found(write::in_time(api.delete(name, &DeleteParams::default())).await);
        deleted.map_err(fail)?;
        Ok(())
    }
}

/// The condition that tells on a node's object whether several pools want it. It is the only one that is written here: the
/// others are the daemon's and the drain controller's.
pub(super) fn contested(node: &str, message: Option<&str>) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let type_ = node_condition::MULTIPLE_CUSTOM_POOLS;
    let (state, reason) = if message.is_some() { (status::TRUE, type_) } else { (status::FALSE, "AsExpected") };
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "MachineConfigNode",
        "metadata": { "name": node },
        "status": { "conditions": [{
            "type": type_, "status": state, "reason": reason,
            "message": message.unwrap_or_default(), "lastTransitionTime": now,
        }] },
    })
}

fn owner(facts: &NodeFacts) -> BTreeMap<&'static str, Option<&str>> {
    BTreeMap::from([
        ("apiVersion", Some("v1")),
        ("kind", Some("Node")),
        ("name", Some(facts.name.as_str())),
        ("uid", facts.uid.as_deref()),
    ])
}

/// Whether the API would take this as the name of a config.
fn is_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|part| {
            part.starts_with(is_end) && part.ends_with(is_end) && part.chars().all(|c| is_end(c) || c == '-')
        })
}
