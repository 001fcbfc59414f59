//! Writes what a plan says, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::annotations;
use api::machineconfiguration::{MachineConfigNode, MachineConfigPool, MachineConfigPoolStatus};
use api::machinist::{PoolLedger, PoolLedgerSpec};
use api::names::{node_condition, status};
use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, PostParams};
use rollout::{About, Action, Event, Ledger, NodeFacts, Plan, ResourceVersion, Target};
use serde_json::{Value, json};

use super::{COMPONENT, MANAGER, Rollout, outcome};

/// Node writes at once. The API server is the limit; more only makes it queue.
const AT_ONCE: usize = 32;

/// Taints at once; they must leave room for what matters.
const TAINTS_AT_ONCE: usize = 4;

/// How long taints rest after one could not be written.
const PAUSE: Duration = Duration::from_secs(1);

/// A pool's numbers are written at most this often while nothing else changes: people read them, and each write costs as
/// much as moving a node.
const NUMBERS_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
#[allow(clippy::enum_variant_names, reason = "each variant names the operation that failed")]
pub(super) enum Error {
    #[error("cannot write the ledger of pool {pool}")]
    WriteLedger {
        pool: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write node {node}")]
    WriteNode {
        node: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write the status of pool {pool}")]
    WriteStatus {
        pool: String,
        #[source]
        source: kube::Error,
    },
}

impl Rollout {
    /// Carries out a plan. What met a newer object is left for the next plan, which the newer object brings about.
    pub(super) async fn apply(self: &Arc<Self>, pool: &str, plan: &Plan) -> Result<Outcome, Error> {
        if !self.write_ledger(pool, plan).await? {
            return Ok(Outcome::Retry);
        }
        let (later, now): (Vec<_>, Vec<_>) =
            plan.actions.iter().partition(|action| matches!(action, Action::SetTaints { .. }));
        let failed = self.write_nodes(now).await;
        let tainting = self.set_taints(pool, later);
        let wait = self.write_status(pool, &plan.status).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.publish_news(pool, &plan.events);
        Ok(match (outcome(&plan.next), wait) {
            // The batch that is under way brings the pool back when it is through.
            (Outcome::Again(Duration::ZERO), None) if tainting => Outcome::Done,
            (Outcome::Again(Duration::ZERO) | Outcome::Done, Some(wait)) => Outcome::Again(wait),
            (Outcome::Again(after), Some(wait)) => Outcome::Again(after.min(wait)),
            (outcome, _) => outcome,
        })
    }

    /// Claims first: what is not in the ledger must not be written to a node. False when the ledger is newer than the plan.
    async fn write_ledger(&self, pool: &str, plan: &Plan) -> Result<bool, Error> {
        for action in &plan.actions {
            let Action::WriteLedger { resource_version, spec } = action else { continue };
            match self.put_ledger(pool, resource_version.as_deref(), spec).await {
                Ok(ledger) => {
                    self.context.metrics.wrote("PoolLedger");
                    let ledger = Ledger::from_object(Some(&ledger));
                    self.index.lock().put_ledger(&self.pools, pool, ledger, false);
                }
                Err(error) if problem(&error) == Problem::Conflict => {
                    self.context.metrics.conflicted("PoolLedger");
                    return Ok(false);
                }
                Err(source) => return Err(Error::WriteLedger { pool: pool.to_owned(), source }),
            }
        }
        Ok(true)
    }

    /// Replaces the whole object: nobody else writes ledgers, and only a replace with a version can conflict.
    async fn put_ledger(
        &self,
        pool: &str,
        resource_version: Option<&str>,
        spec: &PoolLedgerSpec,
    ) -> Result<PoolLedger, kube::Error> {
        let api: Api<PoolLedger> = Api::all(self.context.world.client.clone());
        let mut ledger = PoolLedger::new(pool, spec.clone());
        ledger.metadata.resource_version = resource_version.map(str::to_owned);
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match resource_version {
            Some(_) => write::in_time(api.replace(pool, &parameters, &ledger)).await,
            None => write::in_time(api.create(&parameters, &ledger)).await,
        }
    }

    /// Writes nodes side by side; returns one failure that is worth a retry, if there was any.
    async fn write_nodes(&self, actions: Vec<&Action>) -> Option<Error> {
        for action in &actions {
            if let Action::DegradeNode { node, message } = action {
                self.degrade(node, message).await;
            }
        }
        let writes: Vec<(String, Value)> = actions.into_iter().filter_map(node_write).collect();
        self.write_all(writes, AT_ONCE).await
    }

    async fn write_all(&self, writes: Vec<(String, Value)>, at_once: usize) -> Option<Error> {
        let writes = writes.into_iter().map(|(node, patch)| async move { self.write_node(&node, &patch).await });
        let mut answers = futures::stream::iter(writes).buffer_unordered(at_once);
        let mut failure = None;
        while let Some(answer) = answers.next().await {
            failure = failure.or(answer.err());
        }
        failure
    }

    /// Taints only help the scheduler, so targeting never waits for them: one batch per pool goes on beside it. True while
    /// a batch is under way.
    fn set_taints(self: &Arc<Self>, pool: &str, actions: Vec<&Action>) -> bool {
        if self.tainting.lock().contains(pool) {
            return true;
        }
        let writes: Vec<(String, Value)> = actions.into_iter().filter_map(node_write).collect();
        if writes.is_empty() {
            return false;
        }
        self.tainting.lock().insert(pool.to_owned());
        let (this, pool) = (self.clone(), pool.to_owned());
        tokio::spawn(async move {
            if let Some(error) = this.write_all(writes, TAINTS_AT_ONCE).await {
                tracing::warn!(pool, error = &error as &dyn std::error::Error, "cannot set a taint");
                tokio::time::sleep(PAUSE).await;
            }
            this.tainting.lock().remove(&pool);
            this.pools.add(pool);
        });
        true
    }

    /// Says on a node's MachineConfigNode that no pool looks after it, once per message.
    async fn degrade(&self, node: &str, message: &str) {
        let is_known = self.degraded.lock().get(node).is_some_and(|known| known == message);
        if is_known || self.context.world.reports.named(node).is_none() {
            return;
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigNode",
            "metadata": { "name": node },
            "status": { "conditions": [{
                "type": node_condition::NODE_DEGRADED, "status": status::TRUE, "reason": "MultipleCustomPools",
                "message": message, "lastTransitionTime": now,
            }] },
        });
        let api: Api<MachineConfigNode> = Api::all(self.context.world.client.clone());
        match write::apply_status(&api, MANAGER, node, &object).await {
            Ok(_) => {
                self.degraded.lock().insert(node.to_owned(), message.to_owned());
            }
            Err(error) => tracing::debug!(node, error = &error as &dyn std::error::Error, "cannot write conditions"),
        }
    }

    async fn write_node(&self, node: &str, patch: &Value) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, node, patch).await {
            Ok(written) => {
                self.context.metrics.wrote("Node");
                self.index.lock().observe(&self.pools, Arc::new(NodeFacts::from_object(&written)));
                Ok(())
            }
            Err(error) => match problem(&error) {
                Problem::Conflict => {
                    self.context.metrics.conflicted("Node");
                    Ok(())
                }
                Problem::NotFound => Ok(()),
                _ => Err(Error::WriteNode { node: node.to_owned(), source: error }),
            },
        }
    }

    /// Writes the status if it changed. While nothing but numbers changes, it is written a few times a second at most; what
    /// is left to wait is returned.
    async fn write_status(&self, pool: &str, status: &MachineConfigPoolStatus) -> Result<Option<Duration>, Error> {
        let Some(known) = self.index.lock().status(pool) else { return Ok(None) };
        if known == *status {
            return Ok(None);
        }
        let last = self.written.lock().get(pool).copied();
        let since = last.map_or(NUMBERS_EVERY, |last| last.elapsed());
        if since < NUMBERS_EVERY && says_the_same(&known, status) {
            return Ok(Some(NUMBERS_EVERY - since));
        }
        let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigPool",
            "metadata": { "name": pool },
            "status": status,
        });
        match write::apply_status(&api, MANAGER, pool, &object).await {
            Ok(written) => {
                self.context.metrics.wrote("MachineConfigPool.status");
                self.context.metrics.worked(COMPONENT, "Sync Machine Config Pool", pool);
                self.written.lock().insert(pool.to_owned(), Instant::now());
                self.index.lock().observe_pool(&self.pools, written);
                Ok(None)
            }
            // A pool that was deleted meanwhile has no status to write.
            Err(error) if problem(&error) == Problem::NotFound => Ok(None),
            Err(source) => Err(Error::WriteStatus { pool: pool.to_owned(), source }),
        }
    }

    /// Publishes what the previous plan of this pool did not say already.
    fn publish_news(&self, pool: &str, events: &[Event]) {
        let messages: BTreeSet<String> = events.iter().map(|event| event.message.clone()).collect();
        let said = self.said.lock().insert(pool.to_owned(), messages).unwrap_or_default();
        events.iter().filter(|event| !said.contains(&event.message)).for_each(|event| self.publish(pool, event));
    }

    fn publish(&self, pool: &str, event: &Event) {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        match &event.about {
            About::Pool => self.events.publish::<MachineConfigPool>(pool, None, severity, event.reason, &event.message),
            About::Node(node) => self.events.publish::<Node>(node, None, severity, event.reason, &event.message),
        }
    }
}

/// Whether two statuses differ in numbers and sentences only, and not in what is true.
fn says_the_same(one: &MachineConfigPoolStatus, other: &MachineConfigPoolStatus) -> bool {
    let truths = |status: &MachineConfigPoolStatus| {
        let conditions = status.conditions.iter().map(|it| (it.type_.clone(), it.status.clone(), it.reason.clone()));
        conditions.collect::<BTreeSet<_>>()
    };
    one.configuration == other.configuration
        && one.observed_generation == other.observed_generation
        && truths(one) == truths(other)
}

/// The node an action writes, and the patch. A patch with a version lands on that version of the node or not at all.
fn node_write(action: &Action) -> Option<(String, Value)> {
    match action {
        Action::WriteLedger { .. } | Action::DegradeNode { .. } => None,
        Action::Target(target) => Some((target.node.clone(), target_patch(target))),
        Action::Fence { node, resource_version } => {
            let fence = BTreeMap::from([(annotations::FENCE, resource_version.text.clone())]);
            Some((
                node.clone(),
                json!({ "metadata": { "resourceVersion": resource_version.text, "annotations": fence } }),
            ))
        }
        Action::SetTaints { node, resource_version, taints } => {
            Some((node.clone(), taints_patch(resource_version, taints)))
        }
        Action::SetTopology { node, topology } => {
            let annotation = BTreeMap::from([(annotations::CONTROL_PLANE_TOPOLOGY, topology)]);
            Some((node.clone(), json!({ "metadata": { "annotations": annotation } })))
        }
    }
}

fn target_patch(target: &Target) -> Value {
    let mut annotations = BTreeMap::from([(annotations::DESIRED_CONFIG, json!(target.config))]);
    annotations.insert(annotations::DESIRED_IMAGE, json!(target.image));
    json!({ "metadata": { "resourceVersion": target.resource_version.text, "annotations": annotations } })
}

fn taints_patch(resource_version: &ResourceVersion, taints: &[Taint]) -> Value {
    json!({ "metadata": { "resourceVersion": resource_version.text }, "spec": { "taints": taints } })
}
