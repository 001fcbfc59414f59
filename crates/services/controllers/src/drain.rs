//! Empties nodes for daemons that ask for it, and lets pods return afterwards.
//!
//! The rules are in the crate `drain`. Here the pods of a node are watched while it is being drained, what was decided is
//! carried out, and the API's answers to evictions are remembered until the next look. Everything that must survive a
//! restart is on the Node itself.

mod active;
mod apply;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::known::Reading;
use api::labels;
use api::machinist::PoolLedger;
use cluster::{Change, Events, Outcome, Queue};
use drain::{DisruptionBudget, Next, Options, Ours, Plan, Settings, Snapshot, Waiting};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use parking_lot::Mutex;
use rollout::NodeFacts;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::context::Context;
use crate::metrics;
use crate::world::DrainChanges;
use active::Active;

pub(crate) const MANAGER: &str = "machinist-drain";
const COMPONENT: &str = "machineconfigcontroller-draincontroller";

/// Drains wait for pods most of the time; many of them fit side by side.
const WORKERS: usize = 16;

/// The Deployments that have to run for a drain to go on, by their label `k8s-app`.
const OURS: [&str; 2] = ["machine-config-controller", "machine-config-operator"];

/// Why the drain of a node does not get on, or that it does again.
pub(crate) struct Blocked {
    pub(crate) node: String,
    pub(crate) why: Option<String>,
}

pub(crate) struct Drain {
    context: Arc<Context>,
    nodes: Queue<String>,
    /// Nodes that are being drained now.
    active: Mutex<HashMap<String, Active>>,
    /// Tells the rollout controller what blocks a drain, for the pool's status.
    blocked: UnboundedSender<Blocked>,
    events: Events,
}

impl Drain {
    pub(crate) fn new(context: Arc<Context>, blocked: UnboundedSender<Blocked>) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        Self { context, nodes: Queue::default(), active: Mutex::default(), blocked, events }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let nodes = self.nodes.clone();
        nodes.run(WORKERS, |node| self.clone().reconcile(node)).await;
    }

    /// Queues nodes whose daemon waits for an answer, and all drains when a budget changes.
    pub(crate) async fn follow(self: Arc<Self>, changes: DrainChanges) {
        let DrainChanges { nodes, ledgers, budgets } = changes;
        tokio::join!(self.follow_nodes(nodes), self.follow_ledgers(ledgers), self.follow_budgets(budgets));
    }

    async fn follow_nodes(&self, mut changes: UnboundedReceiver<Change<NodeFacts>>) {
        while let Some(change) = changes.recv().await {
            let is_active = self.active.lock().contains_key(&change.key.name);
            if is_active || change.new.as_ref().is_some_and(|node| waits(node)) {
                self.nodes.add(change.key.name);
            }
        }
    }

    /// A node that waits for its place may have it now.
    async fn follow_ledgers(&self, mut changes: UnboundedReceiver<Change<PoolLedger>>) {
        while changes.recv().await.is_some() {
            let active = self.active.lock();
            active.iter().filter(|(_, drain)| drain.is_withheld).for_each(|(node, _)| self.nodes.add(node.clone()));
        }
    }

    async fn follow_budgets(&self, mut changes: UnboundedReceiver<Change<DisruptionBudget>>) {
        while changes.recv().await.is_some() {
            // Few nodes are drained at a time, and each looks only at its own pods.
            self.active.lock().keys().for_each(|node| self.nodes.add(node.clone()));
        }
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Outcome {
        let Some(node) = self.context.world.nodes.named(&name).filter(|node| waits(node)) else {
            self.finish(&name);
            return Outcome::Done;
        };
        let Some(snapshot) = self.snapshot(&node) else {
            // The pods are being listed, and bring the node back when they are there.
            return Outcome::Done;
        };
        let plan = drain::plan(&snapshot);
        tracing::debug!(node = name, actions = ?plan.actions, next = ?plan.next, "planned");
        self.report(&node, &plan);
        if matches!(plan.next, Next::OnChange(Waiting::List)) {
            self.list_again(&node);
        }
        match self.apply(&node, &plan).await {
            Ok(true) => outcome(&plan.next),
            Ok(false) => Outcome::Again(Duration::ZERO),
            Err(error) => {
                tracing::warn!(node = name, error = &error as &dyn std::error::Error, "cannot drain");
                Outcome::Retry
            }
        }
    }

    fn snapshot(&self, node: &NodeFacts) -> Option<Snapshot> {
        let mut active = self.active.lock();
        let drain = active
            .entry(node.name.clone())
            .or_insert_with(|| Active::start(&self.context.world.client, node, &self.nodes));
        let pods = drain.pods.reading()?;
        let world = &self.context.world;
        let withheld = withheld(&world.ledgers, node);
        drain.is_withheld = !matches!(withheld, Reading::Known { value: None, .. });
        Some(Snapshot {
            withheld,
            node: node.name.clone(),
            resource_version: node.resource_version.text.clone(),
            unschedulable: node.unschedulable,
            desired_drain: node.desired_drain.clone(),
            last_applied_drain: node.last_applied_drain.clone(),
            cordoned_by: node.cordoned_by.clone(),
            started: node.drain_started,
            pods,
            listed_for: Some(drain.listed_for.clone()),
            budgets: world.budgets.all().iter().map(|budget| (**budget).clone()).collect(),
            refusals: drain.pods.refusals().clone(),
            daemon_sets: daemon_sets(&world.daemon_sets),
            settings: Settings {
                options: Options { ours: Some(self.ours(node)), ..Options::default() },
                ..Settings::default()
            },
            now: Timestamp::now(),
        })
    }

    fn list_again(&self, node: &NodeFacts) {
        if let Some(drain) = self.active.lock().get_mut(&node.name) {
            drain.list_again(&self.context.world.client, node, &self.nodes);
        }
    }

    /// The pods that this controller needs itself: evicted with nowhere to go, it could not bring the node back.
    fn ours(&self, node: &NodeFacts) -> Ours {
        let may_leave = self
            .context
            .world
            .nodes
            .reading()
            .map(|nodes| nodes.iter().any(|other| other.name != node.name && takes_control_plane_pods(other)));
        Ours { namespace: self.context.settings.namespace.clone(), apps: OURS.map(str::to_owned).to_vec(), may_leave }
    }

    /// What people see of a drain: log lines, the alarm and, through the pool's status, what blocks it.
    fn report(&self, node: &NodeFacts, plan: &Plan) {
        let mut active = self.active.lock();
        let Some(drain) = active.get_mut(&node.name) else { return };
        for line in plan.log.iter().filter(|line| !drain.said.contains(*line)) {
            tracing::info!("{line}");
        }
        for event in plan.events.iter().filter(|event| !drain.said.contains(&event.message)) {
            self.publish(node, event);
        }
        drain.said = plan.log.iter().chain(plan.events.iter().map(|event| &event.message)).cloned().collect();
        let labels = metrics::Node { node: node.name.clone() };
        if plan.alarm {
            self.context.metrics.drain_failing.get_or_create(&labels).set(1);
        }
        let why = plan.obstacle();
        if drain.blocked != why {
            drain.blocked.clone_from(&why);
            let _ = self.blocked.send(Blocked { node: node.name.clone(), why });
        }
    }

    fn finish(&self, node: &str) {
        if self.active.lock().remove(node).is_some() {
            self.context.metrics.drain_failing.remove(&metrics::Node { node: node.to_owned() });
            let _ = self.blocked.send(Blocked { node: node.to_owned(), why: None });
        }
    }
}

fn waits(node: &NodeFacts) -> bool {
    // A note of ours on the node may outlive its request; see `drain::plan`.
    let is_noted = node.cordoned_by.is_some() || node.drain_started.is_some();
    (node.desired_drain.is_some() && node.desired_drain != node.last_applied_drain) || is_noted
}

/// Why a node must not be emptied yet. It is claimed before it is targeted, so that one that we targeted finds its claim
/// here; any other waits until the rollout controller gives it a place.
fn withheld(ledgers: &cluster::Store<PoolLedger>, node: &NodeFacts) -> Reading<Option<String>> {
    ledgers.reading().map(|ledgers| {
        let has_place = ledgers.iter().any(|ledger| rollout::ledger::lets_drain(&ledger.spec, node));
        (node.is_draining() && !has_place).then(|| {
            let name = &node.name;
            format!(
                "no PoolLedger has a place for node {name}: as many nodes of its pool as maxUnavailable allows are away"
            )
        })
    })
}

/// Whether the scheduler could place the operator and the controller on this node: they tolerate the taints of the control
/// plane and no others.
fn takes_control_plane_pods(node: &NodeFacts) -> bool {
    let tolerated = [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER];
    let keeps_off = |taint: &Taint| {
        taint.effect != "PreferNoSchedule" && !(taint.effect == "NoSchedule" && tolerated.contains(&taint.key.as_str()))
    };
    let is_linux = node.labels.get(labels::OS).is_none_or(|os| os == "linux");
    node.is_serving() && is_linux && !node.taints.iter().any(keeps_off)
}

fn daemon_sets(store: &cluster::Store<()>) -> Reading<BTreeSet<String>> {
    store.contact().map(|()| store.keys().into_iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect())
}

fn outcome(next: &Next) -> Outcome {
    match next {
        Next::OnChange(_) => Outcome::Done,
        Next::After(wait, _) => Outcome::Again(crate::rollout::positive(*wait)),
    }
}
