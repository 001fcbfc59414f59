//! Empties nodes for daemons that ask for it, and lets pods return afterwards.
//!
//! The daemon writes what it wants into `desiredDrain`; this controller carries it out and copies the value to
//! `lastAppliedDrain`. Everything it must remember is on the Node, so a restart continues where the last process was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::annotations;
use api::names::{cordon, drain as verb};
use cluster::{Outcome, Problem, Queue, problem, write};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams};
use rollout::NodeFacts;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;

pub(crate) const MANAGER: &str = "machinist-drain";
const COMPONENT: &str = "machineconfigcontroller-draincontroller";

/// Drains wait for pods most of the time; many of them fit side by side.
const WORKERS: usize = 16;

/// Evictions that were refused are asked for again after this time.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct Drain {
    context: Arc<Context>,
    nodes: Queue<String>,
}

impl Drain {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, nodes: Queue::default() }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let nodes = self.nodes.clone();
        nodes.run(WORKERS, |node| self.clone().reconcile(node)).await;
    }

    /// Queues every node whose daemon waits for an answer.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: UnboundedReceiver<cluster::Change<NodeFacts>>) {
        while let Some(change) = changes.recv().await {
            if change.new.as_ref().is_some_and(|node| waits(node)) {
                self.nodes.add(change.key.name);
            }
        }
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Outcome {
        let Some(node) = self.context.world.nodes.named(&name) else { return Outcome::Done };
        if !waits(&node) {
            return Outcome::Done;
        }
        match self.step(&node).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(node = name, error = &error as &dyn std::error::Error, "cannot drain");
                Outcome::Retry
            }
        }
    }

    async fn step(&self, node: &NodeFacts) -> Result<Outcome, kube::Error> {
        let wanted = node.desired_drain.clone().unwrap_or_default();
        self.context.metrics.worked(COMPONENT, "Drain", &node.name);
        match wanted.split_once('-').map(|(word, _)| word) {
            Some(verb::DRAIN) => self.empty(node, &wanted).await,
            Some(verb::UNCORDON) => self.release(node, &wanted).await,
            _ => {
                tracing::error!("node {}: non-recognized drain verb detected {wanted}", node.name);
                Ok(Outcome::Done)
            }
        }
    }

    async fn empty(&self, node: &NodeFacts, wanted: &str) -> Result<Outcome, kube::Error> {
        if !node.unschedulable || node.cordoned_by.is_none() {
            let by = if node.unschedulable { cordon::PERSON } else { cordon::MACHINIST };
            let started = Timestamp::now().to_string();
            let notes = BTreeMap::from([(annotations::CORDONED_BY, by), (annotations::DRAIN_STARTED, &started)]);
            let patch = json!({
                "metadata": { "resourceVersion": node.resource_version.text, "annotations": notes },
                "spec": { "unschedulable": true },
            });
            return self.patch(node, patch).await;
        }
        let pods: Api<Pod> = Api::all(self.context.world.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
        let left: Vec<Pod> = write::in_time(pods.list(&here)).await?.items.into_iter().filter(must_go).collect();
        if left.is_empty() {
            let done = BTreeMap::from([(annotations::LAST_APPLIED_DRAIN, wanted)]);
            return self.patch(node, json!({ "metadata": { "annotations": done } })).await;
        }
        for pod in &left {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.context.world.client.clone(), namespace);
            match write::in_time(api.evict(name, &EvictParams::default())).await {
                Ok(_) => {}
                Err(error) if matches!(problem(&error), Problem::NotFound | Problem::TooManyRequests) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Again(AGAIN))
    }

    async fn release(&self, node: &NodeFacts, wanted: &str) -> Result<Outcome, kube::Error> {
        let notes = json!({
            annotations::LAST_APPLIED_DRAIN: wanted, annotations::CORDONED_BY: null, annotations::DRAIN_STARTED: null,
        });
        let mut patch = json!({ "metadata": { "resourceVersion": node.resource_version.text, "annotations": notes } });
        if node.cordoned_by.as_deref() != Some(cordon::PERSON) {
            patch["spec"] = json!({ "unschedulable": null });
        }
        self.patch(node, patch).await
    }

    async fn patch(&self, node: &NodeFacts, patch: Value) -> Result<Outcome, kube::Error> {
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, &node.name, &patch).await {
            Ok(_) => {
                self.context.metrics.wrote("Node");
                Ok(Outcome::Done)
            }
            // The newer node is on its way to us and brings this one back.
            Err(error) if matches!(problem(&error), Problem::Conflict | Problem::NotFound) => Ok(Outcome::Done),
            Err(error) => Err(error),
        }
    }
}

fn waits(node: &NodeFacts) -> bool {
    node.desired_drain.is_some() && node.desired_drain != node.last_applied_drain
}

fn must_go(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let by_daemon_set = owners.into_iter().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let is_mirror =
        pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("kubernetes.io/config.mirror"));
    !by_daemon_set && !is_mirror
}
