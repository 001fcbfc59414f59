//! Writes what a plan says, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::annotations;
use api::machineconfiguration::{MachineConfigNode, MachineConfigPool, MachineConfigPoolStatus};
use api::machinist::{PoolLedger, PoolLedgerSpec};
use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use rollout::{About, Action, Event, Ledger, NodeFacts, Plan, Probe, ResourceVersion, Target};
use serde_json::{Value, json};

use super::nodes::contested;
use super::{AT_ONCE, COMPONENT, GATHER, MANAGER, Rollout, outcome};

/// The least time of one batch of taints. A rollout that is through in seconds has better use for the API than taints that
/// come off again at once, and one that takes minutes has all its taints long before they matter.
const PACE: Duration = Duration::from_secs(1);

/// How long a node rests after it could not be written.
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

impl Error {
    fn node(&self) -> &str {
        match self {
            Self::WriteNode { node, .. } => node,
            Self::WriteLedger { .. } | Self::WriteStatus { .. } => "",
        }
    }
}

impl Rollout {
    /// Carries out a plan. What met a newer object is left for the next plan, which the newer object brings about.
    ///
    /// Only the status is waited for, and a ledger that names nodes which get their target now. Once a claim is in the
    /// ledger the next plan counts it, so nodes are written beside the planning, and a node that is through makes room at
    /// once instead of after a whole batch.
    pub(super) async fn apply(self: &Arc<Self>, pool: &str, plan: &Plan) -> Result<Outcome, Error> {
        let is_ledger = |action: &Action| matches!(action, Action::WriteLedger { .. });
        let (known, rest) =
            plan.actions.split_at(plan.actions.iter().position(is_ledger).unwrap_or(plan.actions.len()));
        let is_for_nodes =
            |action: &&Action| matches!(action, Action::Target(_) | Action::Fence { .. } | Action::Hold { .. });
        self.send(pool, &known.iter().filter(is_for_nodes).collect::<Vec<_>>());
        let now: Vec<_> = rest.iter().filter(is_for_nodes).collect();
        if let Some(Action::WriteLedger { resource_version, spec }) = rest.first() {
            let version = resource_version.as_deref();
            if self.writing.lock().contains(pool) {
                // Of two writes to one version of the ledger only one can land; the pool is planned again after it.
                return Ok(Outcome::Done);
            }
            if now.is_empty() {
                self.write_ledger_beside(pool, resource_version.clone(), (**spec).clone());
            } else if let Some(wait) = self.gathers(pool) {
                return Ok(Outcome::Again(wait));
            } else if !self.write_ledger(pool, version, spec).await? {
                return Ok(Outcome::Retry);
            }
        }
        self.send(pool, &now);
        let later: Vec<_> = plan.actions.iter().filter(|action| !is_for_nodes(action)).collect();
        self.tell_all_contested(&later).await;
        self.probe(pool, &plan.probes);
        let tainting = self.set_taints(pool, later);
        let wait = self.write_status(pool, &plan.status).await?;
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
    async fn write_ledger(&self, pool: &str, version: Option<&str>, spec: &PoolLedgerSpec) -> Result<bool, Error> {
        let start = Instant::now();
        match self.put_ledger(pool, version, spec).await {
            Ok(ledger) => {
                self.context.metrics.wrote("PoolLedger");
                let ledger = Ledger::from_object(Some(&ledger));
                self.index.lock().put_ledger(&self.pools, pool, ledger, false);
                // A ledger that takes long is left alone for as long.
                let rest = start.elapsed().max(GATHER);
                self.gathering.lock().insert(pool.to_owned(), Instant::now() + rest);
                Ok(true)
            }
            Err(error) if problem(&error) == Problem::Conflict => {
                self.context.metrics.conflicted("PoolLedger");
                Ok(false)
            }
            Err(source) => Err(Error::WriteLedger { pool: pool.to_owned(), source }),
        }
    }

    /// Writes a ledger that no node waits for; the pool goes on by the present one meanwhile.
    fn write_ledger_beside(self: &Arc<Self>, pool: &str, version: Option<String>, spec: PoolLedgerSpec) {
        self.writing.lock().insert(pool.to_owned());
        let (this, pool) = (self.clone(), pool.to_owned());
        self.background.spawn(async move {
            let written = this.write_ledger(&pool, version.as_deref(), &spec).await;
            if let Err(error) = &written {
                tracing::warn!(pool, error = error as &dyn std::error::Error, "will try again");
                tokio::time::sleep(PAUSE).await;
            }
            this.writing.lock().remove(&pool);
            this.pools.add(pool);
        });
    }

    /// Replaces the whole object: nobody else writes ledgers, and only a replace with a version can conflict.
    async fn put_ledger(
        &self,
        pool: &str,
        resource_version: Option<&str>,
        spec: &PoolLedgerSpec,
    ) -> Result<PoolLedger, kube::Error> {
        let api: Api<PoolLedger> = Api::all(self.context.world.client.clone());
        let mut ledger = rollout::ledger::object(pool, spec.clone());
        ledger.metadata.resource_version = resource_version.map(str::to_owned);
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match resource_version {
            Some(_) => write::in_time(api.replace(pool, &parameters, &ledger)).await,
            None => write::in_time(api.create(&parameters, &ledger)).await,
        }
    }

    /// Sends targets and fences on their way, unless a write to the same version of the node is on its way already or has
    /// met a newer one: of two writes to one version at most one can land.
    fn send(self: &Arc<Self>, pool: &str, actions: &[&Action]) {
        let addressed = actions.iter().filter_map(|action| Some((action, addressee(action)?)));
        // The plan is older than the ledger's write: a node that has moved on meanwhile would only answer with a conflict.
        let index = self.index.lock();
        let addressed: Vec<_> = addressed.filter(|(_, (node, version))| index.is_at(node, version)).collect();
        drop(index);
        let mut sent = self.sent.lock();
        let mut fresh: Vec<Write> = Vec::new();
        for (action, (node, version)) in addressed {
            // Most of a plan is under way already, and is looked at once per plan.
            if sent.get(node).is_some_and(|known| *known == version.text) {
                continue;
            }
            sent.insert(node.to_owned(), version.text.clone());
            fresh.extend(node_write(action));
        }
        drop(sent);
        if fresh.is_empty() {
            return;
        }
        let (this, pool) = (self.clone(), pool.to_owned());
        self.background.spawn(async move {
            let sending = fresh.into_iter().map(|write| this.send_one(&pool, write));
            let failures: Vec<Error> =
                futures::stream::iter(sending).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
            let Some(error) = failures.first() else { return };
            tracing::warn!(
                pool,
                failures = failures.len(),
                error = error as &dyn std::error::Error,
                "cannot write nodes"
            );
            tokio::time::sleep(PAUSE).await;
            let mut sent = this.sent.lock();
            failures.iter().for_each(|failure| {
                sent.remove(failure.node());
            });
            drop(sent);
            this.pools.add(pool);
        });
    }

    /// Writes one node, and has the pool planned again when that took effect.
    async fn send_one(&self, pool: &str, write: Write) -> Option<Error> {
        let _place = self.places.acquire().await;
        match self.write_node(&write).await {
            Ok(Landed::Yes) => {
                let mut sent = self.sent.lock();
                if sent.get(&write.node) == Some(&write.version) {
                    sent.remove(&write.node);
                }
                drop(sent);
                self.pools.add(pool.to_owned());
                None
            }
            // The newer node is on its way here.
            Ok(Landed::No) => None,
            Err(error) => Some(error),
        }
    }

    /// Taints only help the scheduler, so targeting never waits for them: one batch per pool goes on beside it. True while
    /// a batch is under way.
    fn set_taints(self: &Arc<Self>, pool: &str, actions: Vec<&Action>) -> bool {
        if self.tainting.lock().contains(pool) {
            return true;
        }
        let writes: Vec<Write> = actions.into_iter().filter_map(node_write).collect();
        if writes.is_empty() {
            return false;
        }
        self.tainting.lock().insert(pool.to_owned());
        let (this, pool) = (self.clone(), pool.to_owned());
        self.background.spawn(async move {
            let writing = writes.iter().map(|write| this.leisure.take(this.write_node(write)));
            let pace = Instant::now() + PACE;
            let answers = futures::future::join_all(writing).await;
            if let Some(error) = answers.into_iter().find_map(Result::err) {
                tracing::warn!(pool, error = &error as &dyn std::error::Error, "cannot set a taint");
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep_until(pace.into()).await;
            this.tainting.lock().remove(&pool);
            this.pools.add(pool);
        });
        true
    }

    /// Asks nodes whether they are there, beside the planning. One that met a newer node is asked by the next plan.
    fn probe(self: &Arc<Self>, pool: &str, probes: &[Probe]) {
        let fresh: Vec<Write> = {
            let mut asked = self.asked.lock();
            let is_new = |probe: &&Probe| {
                let version = probe.resource_version.text.clone();
                asked.insert(probe.node.clone(), version.clone()) != Some(version)
            };
            probes.iter().filter(is_new).map(probe_write).collect()
        };
        if fresh.is_empty() {
            return;
        }
        let (this, pool) = (self.clone(), pool.to_owned());
        self.background.spawn(async move {
            for write in &fresh {
                if let Err(error) = this.leisure.take(this.write_node(write)).await {
                    tracing::warn!(pool, error = &error as &dyn std::error::Error, "cannot ask a node");
                    this.asked.lock().remove(&write.node);
                }
            }
            this.pools.add(pool);
        });
    }

    async fn tell_all_contested(&self, actions: &[&Action]) {
        for action in actions {
            if let Action::TellContested { node, message } = action {
                self.tell_contested(node, message).await;
            }
        }
    }

    /// Says on a node's MachineConfigNode that no pool looks after it, once per message.
    async fn tell_contested(&self, node: &str, message: &str) {
        let is_known = self.contested.lock().get(node).is_some_and(|known| known == message);
        if is_known || self.context.world.reports.named(node).is_none() {
            return;
        }
        let object = contested(node, Some(message));
        let api: Api<MachineConfigNode> = Api::all(self.context.world.client.clone());
        match write::apply_status(&api, MANAGER, node, &object).await {
            Ok(_) => {
                self.contested.lock().insert(node.to_owned(), message.to_owned());
            }
            Err(error) => tracing::debug!(node, error = &error as &dyn std::error::Error, "cannot write conditions"),
        }
    }

    async fn write_node(&self, write: &Write) -> Result<Landed, Error> {
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, &write.node, &write.patch).await {
            Ok(written) => {
                self.context.metrics.wrote("Node");
                self.index.lock().observe_answer(&self.pools, Arc::new(NodeFacts::from_object(&written)));
                Ok(Landed::Yes)
            }
            Err(error) => match problem(&error) {
                Problem::Conflict => {
                    self.context.metrics.conflicted("Node");
                    Ok(Landed::No)
                }
                Problem::NotFound => Ok(Landed::No),
                _ => Err(Error::WriteNode { node: write.node.clone(), source: error }),
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

/// One write to one node. A patch with a version lands on that version of the node or not at all.
struct Write {
    node: String,
    version: String,
    patch: Value,
}

/// What became of a write that was answered.
enum Landed {
    Yes,
    /// It met a newer node, or none.
    No,
}

/// The node and version that a target, fence or hold is for.
fn addressee(action: &Action) -> Option<(&str, &ResourceVersion)> {
    match action {
        Action::Target(target) => Some((&target.node, &target.resource_version)),
        Action::Fence { node, resource_version } | Action::Hold { node, resource_version, .. } => {
            Some((node, resource_version))
        }
        Action::WriteLedger { .. }
        | Action::TellContested { .. }
        | Action::SetTaints { .. }
        | Action::SetTopology { .. } => None,
    }
}

fn node_write(action: &Action) -> Option<Write> {
    match action {
        Action::WriteLedger { .. } | Action::TellContested { .. } => None,
        Action::Target(target) => Some(versioned(&target.node, &target.resource_version, target_patch(target))),
        Action::Fence { node, resource_version } => {
            let fence = BTreeMap::from([(annotations::FENCE, resource_version.text.clone())]);
            Some(versioned(node, resource_version, json!({ "metadata": { "annotations": fence } })))
        }
        Action::Hold { node, resource_version, value, config } => {
            let mut hold = BTreeMap::from([(annotations::HELD_CONFIG, config)]);
            hold.extend(value.as_ref().map(|value| (annotations::HOLD, value)));
            Some(versioned(node, resource_version, json!({ "metadata": { "annotations": hold } })))
        }
        Action::SetTaints { node, resource_version, taints } => {
            Some(versioned(node, resource_version, json!({ "spec": { "taints": taints } })))
        }
        Action::SetTopology { node, topology } => {
            let annotation = BTreeMap::from([(annotations::CONTROL_PLANE_TOPOLOGY, topology)]);
            let patch = json!({ "metadata": { "annotations": annotation } });
            Some(Write { node: node.clone(), version: String::new(), patch })
        }
    }
}

fn probe_write(probe: &Probe) -> Write {
    let mut annotations = BTreeMap::new();
    if let Some(question) = &probe.question {
        annotations.insert(annotations::PROBE, json!(question));
    }
    if let Some(back) = &probe.takes_back {
        annotations.insert(annotations::DESIRED_CONFIG, json!(back.config));
    }
    versioned(&probe.node, &probe.resource_version, json!({ "metadata": { "annotations": annotations } }))
}

fn versioned(node: &str, version: &ResourceVersion, mut patch: Value) -> Write {
    patch["metadata"]["resourceVersion"] = json!(version.text);
    Write { node: node.to_owned(), version: version.text.clone(), patch }
}

fn target_patch(target: &Target) -> Value {
    let mut annotations = BTreeMap::from([(annotations::DESIRED_CONFIG, json!(target.config))]);
    annotations.insert(annotations::DESIRED_IMAGE, json!(target.image));
    annotations.insert(annotations::HELD_CONFIG, Value::Null);
    json!({ "metadata": { "annotations": annotations } })
}
