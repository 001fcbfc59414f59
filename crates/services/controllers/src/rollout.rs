//! Carries out rollouts: keeps one snapshot per pool, has it planned, applies the plan and reports.
//!
//! Which nodes go next, what counts as done and what a status says is decided in the crate `rollout`. Here it is only
//! gathered and written: the ledger first, then the nodes with the versions that the ledger names, then the status.

mod apply;
mod background;
mod index;
mod leisure;
mod nodes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{Events, Outcome, Queue};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rollout::{Ledger, Next, Plan};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;
use crate::drain::Blocked;
use crate::metrics;
use crate::world::RolloutChanges;
use background::Background;
use index::Index;
use leisure::Leisure;

/// Pools are few and each is planned alone; a few workers keep a slow one from holding up the others.
const WORKERS: usize = 4;

/// Node writes at once, over all pools. The API server is the limit; more only makes it queue.
const AT_ONCE: usize = 32;

pub(crate) const MANAGER: &str = "machinist-rollout";
const COMPONENT: &str = "machineconfigcontroller-nodecontroller";

/// The least time from one write of a ledger to the next one that nodes wait for. Nodes that come through meanwhile share
/// it: a ledger is long, and written for each node of its own it would cost more than the nodes themselves.
const GATHER: Duration = Duration::from_millis(10);

/// Names of pools that wait to be planned.
pub(crate) type Pools = Queue<String>;

pub(crate) struct Rollout {
    context: Arc<Context>,
    index: Mutex<Index>,
    pools: Pools,
    /// Nodes that lack a mark or whose MachineConfigNode does not say what it should.
    nodes: Queue<String>,
    /// What the cluster's Scheduler last said about the control plane.
    schedulable: Mutex<Option<bool>>,
    events: Events,
    /// The version of each node that a target or fence was last sent to and that is under way or met a newer one.
    sent: Mutex<HashMap<String, String>>,
    /// The version of each node that a probe was last sent to.
    asked: Mutex<HashMap<String, String>>,
    places: Semaphore,
    background: Background,
    leisure: Leisure,
    /// Before when no node of a pool waits for its ledger, because that was just written.
    gathering: Mutex<HashMap<String, Instant>>,
    /// Pools whose ledger is being written beside the planning.
    writing: Mutex<HashSet<String>>,
    /// Pools whose taints are being written now.
    tainting: Mutex<HashSet<String>>,
    /// When each pool's status was last written.
    written: Mutex<HashMap<String, Instant>>,
    /// What the last plan of each pool told.
    said: Mutex<HashMap<String, BTreeSet<String>>>,
    /// What was last said about nodes that no pool looks after.
    contested: Mutex<HashMap<String, String>>,
}

impl Rollout {
    pub(crate) fn new(context: Arc<Context>, pools: Pools) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        Self {
            index: Mutex::new(Index::new(&context)),
            pools,
            nodes: Queue::default(),
            schedulable: Mutex::default(),
            events,
            sent: Mutex::default(),
            asked: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
            background: Background::default(),
            leisure: Leisure::default(),
            gathering: Mutex::default(),
            writing: Mutex::default(),
            tainting: Mutex::default(),
            written: Mutex::default(),
            said: Mutex::default(),
            contested: Mutex::default(),
            context,
        }
    }

    /// The latest condition of each pool, for `mco_state`.
    pub(crate) fn states(&self) -> Vec<metrics::PoolState> {
        self.index.lock().states()
    }

    /// Plans pools for ever. To be called once everything was listed.
    pub(crate) async fn run(self: Arc<Self>) {
        let _end = self.background.until_dropped();
        self.prime();
        let (pools, nodes) = (self.pools.clone(), self.nodes.clone());
        tokio::join!(
            pools.run(WORKERS, |pool| self.clone().reconcile(pool)),
            nodes.run(nodes::WORKERS, |node| self.clone().reconcile_node(node)),
        );
    }

    /// Takes in everything at once, so that the first plan cannot see half a pool. The changes that tell the same arrive
    /// later and change nothing.
    fn prime(&self) {
        let world = &self.context.world;
        let mut index = self.index.lock();
        for pool in world.pools.all() {
            index.observe_pool(&self.pools, (*pool).clone());
        }
        for ledger in world.ledgers.all() {
            let name = ledger.metadata.name.clone().unwrap_or_default();
            index.put_ledger(&self.pools, &name, Ledger::from_object(Some(&ledger)), false);
        }
        for policy in world.policies.all() {
            let name = policy.metadata.name.clone().unwrap_or_default();
            index.put_policy(&self.pools, &name, Some(&policy));
        }
        let nodes = world.nodes.all();
        for node in &nodes {
            index.observe(&self.pools, node.clone());
        }
        drop(index);
        nodes.iter().for_each(|node| self.look_at(&node.name));
        world.reports.keys().iter().for_each(|key| self.look_at(&key.name));
    }

    /// Takes in changes for ever and queues the pools they concern.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: RolloutChanges, mut blocked: UnboundedReceiver<Blocked>) {
        loop {
            tokio::select! {
                Some(change) = changes.pools.recv() => {
                    self.index.lock().pool_changed(&self.pools, &change);
                    if !change.old.iter().zip(&change.new).any(|(old, new)| index::selects_the_same(old, new)) {
                        self.look_at_all();
                    }
                }
                Some(_) = changes.schedulers.recv() => self.look_at_all(),
                Some(change) = changes.nodes.recv() => {
                    if change.new.is_none() {
                        self.sent.lock().remove(&change.key.name);
                        self.asked.lock().remove(&change.key.name);
                    }
                    let pool = self.index.lock().node_changed(&self.pools, &change);
                    if let (Some(pool), Some(old), Some(new)) = (pool, &change.old, &change.new) {
                        rollout::progress(&pool, old, new).iter().for_each(|line| tracing::info!("{line}"));
                    }
                    self.look_at(&change.key.name);
                }
                Some(change) = changes.ledgers.recv() => self.index.lock().ledger_changed(&self.pools, &change),
                Some(change) = changes.policies.recv() => {
                    self.index.lock().put_policy(&self.pools, &change.key.name, change.new.as_deref());
                }
                Some(_) = changes.etcd.recv() => self.index.lock().queue_control_plane(&self.pools),
                Some(change) = changes.controller_configs.recv() => {
                    self.index.lock().controller_config_changed(&self.pools, change.new.as_deref());
                }
                Some(change) = changes.reports.recv() => {
                    let report = change.new.as_ref().map(|object| object.report.clone());
                    self.index.lock().report_changed(&self.pools, &change.key.name, report);
                    self.look_at(&change.key.name);
                }
                Some(Blocked { node, why }) = blocked.recv() => self.index.lock().drain_blocked(&self.pools, &node, why),
                else => return,
            }
        }
    }

    async fn reconcile(self: Arc<Self>, pool: String) -> Outcome {
        let Some(plan) = self.plan(&pool) else {
            self.context.metrics.forget_pool(&pool);
            self.written.lock().remove(&pool);
            self.said.lock().remove(&pool);
            self.gathering.lock().remove(&pool);
            return Outcome::Done;
        };
        tracing::debug!(%pool, actions = plan.actions.len(), next = ?plan.next, "planned");
        match self.apply(&pool, &plan).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(%pool, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                Outcome::Retry
            }
        }
    }

    /// How long the pool still waits for more nodes that need its ledger written.
    fn gathers(&self, pool: &str) -> Option<Duration> {
        let until = self.gathering.lock().get(pool).copied()?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// The plan of a pool as it is now, or nothing when the pool is gone.
    fn plan(&self, pool: &str) -> Option<Plan> {
        let mut index = self.index.lock();
        let rendering = self.context.rendering(pool);
        let now = Timestamp::now();
        let configs = &self.context.world.configs;
        let config = |name: &str| configs.named(name);
        let snapshot = index.snapshot(pool, now, rendering, self.context.world.sight(now), config)?;
        let plan = rollout::plan(snapshot);
        let metrics = &self.context.metrics;
        let labels = metrics::pool(pool);
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.budget.get_or_create(&labels).set(whole(plan.spending.limit));
        metrics.budget_used.get_or_create(&labels).set(whole(plan.spending.used + plan.spending.taken));
        let count = |number: Option<i32>| i64::from(number.unwrap_or(0));
        metrics.machines.get_or_create(&labels).set(count(plan.status.machine_count));
        metrics.updated.get_or_create(&labels).set(count(plan.status.updated_machine_count));
        metrics.degraded.get_or_create(&labels).set(count(plan.status.degraded_machine_count));
        metrics.unavailable.get_or_create(&labels).set(count(plan.status.unavailable_machine_count));
        Some(plan)
    }
}

fn outcome(next: &Next) -> Outcome {
    match next {
        Next::OnChange(_) => Outcome::Done,
        Next::After(wait, _) => Outcome::Again(positive(*wait)),
    }
}

pub(crate) fn positive(wait: SignedDuration) -> Duration {
    Duration::try_from(wait).unwrap_or(Duration::ZERO)
}
