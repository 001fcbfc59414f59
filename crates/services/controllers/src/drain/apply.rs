//! Writes what a drain's plan says.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::MachineConfigNode;
use cluster::events::Severity;
use cluster::{Problem, problem, write};
use drain::{Action, Condition, Event, Plan, PodFacts};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use rollout::NodeFacts;
use serde_json::{Value, json};

use super::{COMPONENT, Drain, MANAGER};

#[derive(Debug, thiserror::Error)]
#[error("cannot write node {node}")]
pub(super) struct Error {
    node: String,
    #[source]
    source: kube::Error,
}

impl Drain {
    /// Carries out a plan. False when there is more to learn at once: evictions were answered.
    pub(super) async fn apply(&self, node: &NodeFacts, plan: &Plan) -> Result<bool, Error> {
        let mut evictions = Vec::new();
        for action in &plan.actions {
            match action {
                Action::Evict(pod) => evictions.push(pod.clone()),
                Action::Cordon { owner, started } => {
                    self.patch(node, note(owner, *started, Some(true))).await?;
                }
                Action::Adopt { owner, started } => self.patch(node, note(owner, *started, None)).await?,
                Action::Disown { owner } => {
                    let notes = json!({ annotations::CORDONED_BY: owner, annotations::DRAIN_STARTED: null });
                    self.patch(node, json!({ "metadata": { "annotations": notes } })).await?;
                }
                Action::Confirm { value, uncordon, forget_owner } => {
                    self.patch(node, confirmation(value, *uncordon, *forget_owner)).await?;
                }
            }
        }
        self.write_conditions(&node.name, &plan.conditions).await;
        if evictions.is_empty() {
            return Ok(true);
        }
        self.evict(&node.name, evictions).await;
        Ok(false)
    }

    async fn evict(&self, node: &str, pods: Vec<PodFacts>) {
        let answered = |pod, refusal| {
            if let Some(drain) = self.active.lock().get_mut(node) {
                drain.pods.answered(pod, refusal);
            }
        };
        cluster::pods::evict(&self.context.world.client, pods, answered).await;
    }

    /// A patch that conflicts is dropped: the newer node is on its way here and is looked at again.
    async fn patch(&self, node: &NodeFacts, mut patch: Value) -> Result<(), Error> {
        patch["metadata"]["resourceVersion"] = json!(node.resource_version.text);
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, &node.name, &patch).await {
            Ok(_) => {
                self.context.metrics.wrote("Node");
                self.context.metrics.worked(COMPONENT, "Drain", &node.name);
                Ok(())
            }
            Err(error) if matches!(problem(&error), Problem::Conflict | Problem::NotFound) => Ok(()),
            Err(source) => Err(Error { node: node.name.clone(), source }),
        }
    }

    /// Best effort: the annotations are the protocol, conditions are for people, and not every node has such an object.
    async fn write_conditions(&self, node: &str, conditions: &[Condition]) {
        let known = self.active.lock().get(node).is_none_or(|drain| drain.conditions == conditions);
        if known || conditions.is_empty() || self.context.world.reports.named(node).is_none() {
            return;
        }
        let now = Timestamp::now();
        let conditions_json: Vec<Value> = conditions.iter().map(|condition| condition_json(condition, now)).collect();
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigNode",
            "metadata": { "name": node },
            "status": { "conditions": conditions_json },
        });
        let api: Api<MachineConfigNode> = Api::all(self.context.world.client.clone());
        match write::apply_status(&api, MANAGER, node, &object).await {
            Ok(_) => {
                if let Some(drain) = self.active.lock().get_mut(node) {
                    drain.conditions = conditions.to_vec();
                }
            }
            Err(error) => {
                tracing::debug!(node, error = &error as &dyn std::error::Error, "cannot write conditions");
            }
        }
    }

    pub(super) fn publish(&self, node: &NodeFacts, event: &Event) {
        let uid = node.uid.as_deref();
        self.events.publish::<Node>(&node.name, uid, Severity::Warning, event.reason, &event.message);
    }
}

fn note(owner: &str, started: Timestamp, unschedulable: Option<bool>) -> Value {
    let started = started.to_string();
    let notes = BTreeMap::from([(annotations::CORDONED_BY, owner), (annotations::DRAIN_STARTED, &started)]);
    let mut patch = json!({ "metadata": { "annotations": notes } });
    if let Some(unschedulable) = unschedulable {
        patch["spec"] = json!({ "unschedulable": unschedulable });
    }
    patch
}

fn confirmation(value: &str, uncordon: bool, forget_owner: bool) -> Value {
    let mut notes =
        BTreeMap::from([(annotations::LAST_APPLIED_DRAIN, json!(value)), (annotations::DRAIN_STARTED, Value::Null)]);
    if forget_owner {
        notes.insert(annotations::CORDONED_BY, Value::Null);
    }
    let mut patch = json!({ "metadata": { "annotations": notes } });
    if uncordon {
        patch["spec"] = json!({ "unschedulable": null });
    }
    patch
}

fn condition_json(condition: &Condition, now: Timestamp) -> Value {
    json!({
        "type": condition.type_, "status": condition.status, "reason": condition.reason,
        "message": condition.message, "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
