//! One planning snapshot per pool, kept up to date change by change.
//!
//! A node's change touches that node's entry and its pool's place in the queue, whatever the size of the fleet. Only a
//! pool whose selector changed makes every node be looked at again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use api::machineconfiguration::{
    CertExpiry, ControllerConfig, MachineConfig, MachineConfigPool, MachineConfigPoolCondition, MachineConfigPoolStatus,
};
use api::machinist::{PoolLedger, PoolPolicy};
use api::names;
use cluster::Change;
use jiff::{SignedDuration, Timestamp};
use rollout::control_plane::is_control_plane;
use rollout::{
    Ledger, Marks, Membership, NodeFacts, Peer, PoolFacts, Pools, Report, ResourceVersion, Settings, Snapshot,
};

use super::Pools as Queue;
use crate::context::Context;
use crate::metrics::{self, Metrics, PoolState};
use crate::world::Sight;

pub(super) struct Index {
    context_settings: Settings,
    default_settle: SignedDuration,
    objects: BTreeMap<String, MachineConfigPool>,
    pools: Pools,
    snapshots: HashMap<String, Snapshot>,
    ledgers: HashMap<String, Ledger>,
    settles: HashMap<String, SignedDuration>,
    /// Pools whose policy lets the config server serve anyone.
    opened: HashSet<String>,
    certificates: Vec<CertExpiry>,
    metrics: Arc<Metrics>,
    nodes: HashMap<String, Entry>,
    remarks: HashMap<String, Remark>,
}

struct Entry {
    facts: Arc<NodeFacts>,
    membership: Membership,
    /// The version that the watch last told. The answer to a write of our own may be newer.
    seen: u64,
}

/// What is known of a node besides its own object.
#[derive(Default)]
struct Remark {
    report: Option<Report>,
    /// What blocks its drain, as the drain controller of this process saw it. The report says the same, later.
    blocked: Option<String>,
}

/// A node and where it belongs.
pub(super) struct Placed {
    pub(super) facts: Arc<NodeFacts>,
    pub(super) membership: Membership,
    pub(super) marks: Option<Marks>,
}

impl Index {
    pub(super) fn new(context: &Context) -> Self {
        let settle = SignedDuration::try_from(context.settings.settle).unwrap_or(rollout::snapshot::SETTLE);
        Self {
            context_settings: Settings {
                settle,
                holder: context.settings.identity.clone(),
                leader_node: context.settings.node.clone(),
                ..Settings::default()
            },
            default_settle: settle,
            objects: BTreeMap::new(),
            pools: Pools::default(),
            snapshots: HashMap::new(),
            ledgers: HashMap::new(),
            settles: HashMap::new(),
            opened: HashSet::new(),
            certificates: Vec::new(),
            metrics: context.metrics.clone(),
            nodes: HashMap::new(),
            remarks: HashMap::new(),
        }
    }

    /// The pool's snapshot as of `now`, with what its rendering came to and how far the watches can be believed.
    pub(super) fn snapshot(
        &mut self,
        pool: &str,
        now: Timestamp,
        rendering: Option<MachineConfigPoolCondition>,
        sight: Sight,
        config: impl Fn(&str) -> Option<Arc<MachineConfig>>,
    ) -> Option<&Snapshot> {
        let settle = self.settles.get(pool).copied().unwrap_or(self.default_settle);
        let peer = self.peer(pool);
        let snapshot = self.snapshots.get_mut(pool)?;
        snapshot.now = now;
        snapshot.settings.settle = settle;
        snapshot.is_open = self.opened.contains(pool);
        if is_control_plane(pool) {
            snapshot.peer = peer;
            snapshot.etcd = sight.etcd;
        }
        snapshot.unread = sight.unread;
        snapshot.observe_configs(|name| config(name).is_some());
        observe_hosts(snapshot, &config);
        if let Some(rendering) = rendering {
            put_condition(&mut snapshot.pool.status, rendering, now);
        }
        Some(snapshot)
    }

    /// The other pool of the control plane.
    fn peer(&self, pool: &str) -> Option<Peer> {
        let other = match pool {
            names::POOL_MASTER => names::POOL_ARBITER,
            names::POOL_ARBITER => names::POOL_MASTER,
            _ => return None,
        };
        let snapshot = self.snapshots.get(other)?;
        let mut peer = Peer::of(other, snapshot.pool.paused, &snapshot.nodes);
        // A node that was claimed a moment ago does not show it yet.
        peer.unavailable = peer.unavailable.max(snapshot.places_taken());
        Some(peer)
    }

    /// Plans the control plane again, because a member of etcd changed.
    pub(super) fn queue_control_plane(&self, queue: &Queue) {
        for pool in [names::POOL_MASTER, names::POOL_ARBITER] {
            if self.snapshots.contains_key(pool) {
                queue.add(pool.to_owned());
            }
        }
    }

    pub(super) fn pool_changed(&mut self, queue: &Queue, change: &Change<MachineConfigPool>) {
        let name = &change.key.name;
        match &change.new {
            Some(pool) => self.observe_pool(queue, (**pool).clone()),
            None => {
                self.objects.remove(name);
                self.snapshots.remove(name);
                self.sort_all(queue);
                queue.add(name.clone());
            }
        }
    }

    /// Takes in a pool, unless a newer version of it is known already from the answer to one of our own writes.
    pub(super) fn observe_pool(&mut self, queue: &Queue, pool: MachineConfigPool) {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let old = self.objects.get(&name);
        if old.is_some_and(|old| old.metadata.uid == pool.metadata.uid && is_older(&version(&pool), &version(old))) {
            return;
        }
        let same_selector = old.is_some_and(|old| selects_the_same(old, &pool));
        let facts = PoolFacts::from_object(&pool);
        self.objects.insert(name.clone(), pool);
        match self.snapshots.get_mut(&name) {
            Some(snapshot) => snapshot.observe_pool(facts, None),
            None => {
                let mut snapshot = Snapshot::new(facts, self.context_settings.clone(), Timestamp::now());
                snapshot.ledger = self.ledgers.get(&name).cloned().unwrap_or_default();
                snapshot.certificates.clone_from(&self.certificates);
                self.snapshots.insert(name.clone(), snapshot);
            }
        }
        if !same_selector {
            self.sort_all(queue);
        }
        queue.add(name);
    }

    /// Takes in a node's change and returns the pool that it is in afterwards.
    pub(super) fn node_changed(&mut self, queue: &Queue, change: &Change<NodeFacts>) -> Option<String> {
        match &change.new {
            // A list tells nodes by name, so one that it has not told yet must not be taken for gone.
            Some(facts) if change.listed => self.observe_answer(queue, facts.clone()),
            Some(facts) => self.observe(queue, facts.clone()),
            None => self.forget(queue, &change.key.name),
        }
        self.nodes.get(&change.key.name)?.membership.primary().map(str::to_owned)
    }

    /// Takes in a node as the watch told it.
    pub(super) fn observe(&mut self, queue: &Queue, facts: Arc<NodeFacts>) {
        let seen = facts.resource_version.number;
        self.take_in(queue, facts, seen);
    }

    /// Takes in a node as the answer to a write of our own told it, ahead of the watch.
    pub(super) fn observe_answer(&mut self, queue: &Queue, facts: Arc<NodeFacts>) {
        let seen = self.nodes.get(&facts.name).map_or(0, |entry| entry.seen);
        self.take_in(queue, facts, seen);
    }

    fn take_in(&mut self, queue: &Queue, facts: Arc<NodeFacts>, seen: u64) {
        let name = facts.name.clone();
        let membership = match self.nodes.get_mut(&name) {
            Some(old)
                if old.facts.uid == facts.uid && is_older(&facts.resource_version, &old.facts.resource_version) =>
            {
                // Something newer is known of this node, but only now is it certain that nothing before was missed.
                old.seen = old.seen.max(seen);
                if let Some(snapshot) = old.membership.primary().and_then(|pool| self.snapshots.get_mut(pool)) {
                    snapshot.nodes.seen_until(seen);
                }
                return;
            }
            Some(old) if belongs_by_the_same(&old.facts, &facts) => old.membership.clone(),
            Some(_) | None => self.pools.of(&facts),
        };
        let old = self.nodes.insert(name.clone(), Entry { facts, membership: membership.clone(), seen });
        if let Some(old) = old
            && old.membership != membership
        {
            self.leave(queue, &name, &old.membership);
        }
        self.join(queue, &name, &membership);
    }

    fn forget(&mut self, queue: &Queue, name: &str) {
        if let Some(entry) = self.nodes.remove(name) {
            self.leave(queue, name, &entry.membership);
        }
    }

    pub(super) fn ledger_changed(&mut self, queue: &Queue, change: &Change<PoolLedger>) {
        self.put_ledger(queue, &change.key.name, Ledger::from_object(change.new.as_deref()), change.new.is_none());
    }

    /// Takes in a ledger, unless a newer one is known already.
    pub(super) fn put_ledger(&mut self, queue: &Queue, pool: &str, ledger: Ledger, gone: bool) {
        let version = |ledger: &Ledger| ResourceVersion::parse(ledger.resource_version.as_deref().unwrap_or_default());
        if !gone && self.ledgers.get(pool).is_some_and(|old| is_older(&version(&ledger), &version(old))) {
            return;
        }
        self.ledgers.insert(pool.to_owned(), ledger.clone());
        if let Some(snapshot) = self.snapshots.get_mut(pool)
            && snapshot.ledger != ledger
        {
            snapshot.ledger = ledger;
            queue.add(pool.to_owned());
        }
    }

    pub(super) fn put_policy(&mut self, queue: &Queue, pool: &str, policy: Option<&PoolPolicy>) {
        match policy.and_then(rollout::snapshot::settle) {
            Some(settle) => self.settles.insert(pool.to_owned(), settle),
            None => self.settles.remove(pool),
        };
        if policy.is_some_and(rollout::snapshot::is_open) {
            self.opened.insert(pool.to_owned());
        } else {
            self.opened.remove(pool);
        }
        queue.add(pool.to_owned());
    }

    /// Certificates go into every pool's status, and the topology onto every node.
    pub(super) fn controller_config_changed(&mut self, queue: &Queue, config: Option<&ControllerConfig>) {
        self.certificates = config.map(rollout::snapshot::certificates).unwrap_or_default();
        let topology = config.and_then(topology);
        self.context_settings.topology.clone_from(&topology);
        for (name, snapshot) in &mut self.snapshots {
            snapshot.certificates.clone_from(&self.certificates);
            snapshot.settings.topology.clone_from(&topology);
            snapshot.observe_pool(snapshot.pool.clone(), None);
            queue.add(name.clone());
        }
    }

    pub(super) fn report_changed(&mut self, queue: &Queue, node: &str, report: Option<Report>) {
        // Most nodes have an object that says nothing yet, and nothing is worth no memory.
        self.remarks.entry(node.to_owned()).or_default().report = report.filter(|report| *report != Report::default());
        self.remarked(queue, node);
    }

    pub(super) fn drain_blocked(&mut self, queue: &Queue, node: &str, why: Option<String>) {
        self.remarks.entry(node.to_owned()).or_default().blocked = why;
        self.remarked(queue, node);
    }

    /// Passes what is known of a node on to the snapshot of its pool.
    fn remarked(&mut self, queue: &Queue, node: &str) {
        let primary = match self.nodes.get(node).map(|entry| &entry.membership) {
            Some(Membership::Member { primary, .. }) => primary,
            Some(Membership::Contested(contested)) => {
                // What no pool could tell its object before can be told now.
                contested.pools.iter().for_each(|pool| queue.add(pool.clone()));
                return;
            }
            Some(Membership::Unmanaged) | None => return,
        };
        let report = self.remarks.get(node).map(Remark::report).unwrap_or_default();
        if let Some(snapshot) = self.snapshots.get_mut(primary)
            && snapshot.nodes.report(node) != Some(&report)
        {
            snapshot.observe_report(node, report);
            queue.add(primary.clone());
        }
        if self.remarks.get(node).is_some_and(|remark| remark.report.is_none() && remark.blocked.is_none()) {
            self.remarks.remove(node);
        }
    }

    /// Where a node belongs, what it shall run, and which marks it lacks.
    pub(super) fn node(&self, name: &str, masters_schedulable: Option<bool>) -> Option<Placed> {
        let entry = self.nodes.get(name)?;
        Some(Placed {
            facts: entry.facts.clone(),
            membership: entry.membership.clone(),
            marks: rollout::marks(&entry.facts, &self.pools, masters_schedulable),
        })
    }

    /// Whether nothing newer than this version of a node is known.
    pub(super) fn is_at(&self, node: &str, version: &ResourceVersion) -> bool {
        self.nodes.get(node).is_some_and(|entry| entry.facts.resource_version == *version)
    }

    /// Nodes that lack a mark.
    pub(super) fn unmarked(&self, masters_schedulable: Option<bool>) -> Vec<String> {
        let lacking = |entry: &&Entry| rollout::marks(&entry.facts, &self.pools, masters_schedulable).is_some();
        self.nodes.values().filter(lacking).map(|entry| entry.facts.name.clone()).collect()
    }

    /// For each pool its latest condition that is true, and the names of its nodes.
    pub(super) fn states(&self) -> Vec<PoolState> {
        let states = self.snapshots.values().filter_map(|snapshot| {
            let conditions = snapshot.pool.status.conditions.iter();
            let since = |it: &&MachineConfigPoolCondition| it.last_transition_time.as_ref().map(|time| time.0);
            let latest = conditions.filter(|it| it.status == names::status::TRUE).max_by_key(since)?;
            Some(PoolState {
                pool: snapshot.pool.name.clone(),
                state: latest.type_.clone(),
                reason: latest.reason.clone(),
                since: since(&latest).map_or(0, Timestamp::as_second),
                nodes: snapshot.nodes.iter().map(|facts| facts.name.clone()).collect(),
            })
        });
        states.collect()
    }

    /// The status as last seen or written; nothing when the pool is gone.
    pub(super) fn status(&self, pool: &str) -> Option<MachineConfigPoolStatus> {
        self.objects.get(pool).map(|pool| pool.status.clone().unwrap_or_default())
    }

    /// Looks at every node again, because a selector changed.
    fn sort_all(&mut self, queue: &Queue) {
        self.pools = Pools::from_objects(self.objects.values());
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            let Some(entry) = self.nodes.get_mut(&name) else { continue };
            let membership = self.pools.of(&entry.facts);
            let old = std::mem::replace(&mut entry.membership, membership.clone());
            if old != membership {
                self.leave(queue, &name, &old);
            }
            self.join(queue, &name, &membership);
        }
    }

    fn join(&mut self, queue: &Queue, name: &str, membership: &Membership) {
        let Some(entry) = self.nodes.get(name) else { return };
        self.alert(name, membership);
        match membership {
            Membership::Member { primary, .. } => {
                if let Some(snapshot) = self.snapshots.get_mut(primary) {
                    snapshot.nodes.observe_answer(entry.facts.clone());
                    snapshot.nodes.seen_until(entry.seen);
                    if let Some(remark) = self.remarks.get(name) {
                        snapshot.observe_report(name, remark.report());
                    }
                    queue.add(primary.clone());
                }
            }
            Membership::Contested(contested) => {
                for pool in &contested.pools {
                    let Some(snapshot) = self.snapshots.get_mut(pool) else { continue };
                    if !snapshot.contested.contains(contested) {
                        snapshot.contested.push(contested.clone());
                        queue.add(pool.clone());
                    }
                }
            }
            Membership::Unmanaged => {}
        }
    }

    /// A control-plane node that a custom pool wants too does not get there, and somebody should know.
    fn alert(&self, name: &str, membership: &Membership) {
        let labels = metrics::Node { node: name.to_owned() };
        if matches!(membership, Membership::Member { ignored: Some(_), .. }) {
            self.metrics.pool_alert.get_or_create(&labels).set(1);
        } else {
            self.metrics.pool_alert.remove(&labels);
        }
    }

    fn leave(&mut self, queue: &Queue, name: &str, membership: &Membership) {
        match membership {
            Membership::Member { primary, .. } => {
                if let Some(snapshot) = self.snapshots.get_mut(primary) {
                    snapshot.nodes.forget(name);
                    snapshot.nodes.forget_report(name);
                    queue.add(primary.clone());
                }
            }
            Membership::Contested(contested) => {
                for pool in &contested.pools {
                    let Some(snapshot) = self.snapshots.get_mut(pool) else { continue };
                    snapshot.contested.retain(|other| other.node != name);
                    queue.add(pool.clone());
                }
            }
            Membership::Unmanaged => {}
        }
    }
}

impl Remark {
    fn report(&self) -> Report {
        let mut report = self.report.clone().unwrap_or_default();
        if self.blocked.is_some() {
            report.drain_blocked.clone_from(&self.blocked);
        }
        report
    }
}

/// The topology that daemons have to know: on a single replica they do not ask for drains.
fn topology(config: &ControllerConfig) -> Option<String> {
    config.spec.infra.as_ref()?.status.as_ref()?.control_plane_topology.clone()
}

/// Which hosts cannot take the pool's target. Few targets ask for anything that not every host can do.
fn observe_hosts(snapshot: &mut Snapshot, config: impl Fn(&str) -> Option<Arc<MachineConfig>>) {
    // What is known stands while the target itself cannot be seen, such as between its deletion and its return.
    let Some(target) = config(snapshot.pool.target()) else { return };
    let target = Some(target).filter(|target| change::backend::asks(&target.spec));
    if target.is_none() && snapshot.nodes.rules().refusals.is_empty() {
        return;
    }
    snapshot
        .observe_hosts(|current, word| change::backend::refusal(word, &config(current)?.spec, &target.as_ref()?.spec));
}

/// Whether nothing changed that decides where a node belongs.
fn belongs_by_the_same(one: &NodeFacts, other: &NodeFacts) -> bool {
    one.labels == other.labels && one.first_pivot == other.first_pivot && one.labels_applied == other.labels_applied
}

/// Both numbers known and the first smaller: an event that was overtaken by the answer to a write.
fn is_older(one: &ResourceVersion, other: &ResourceVersion) -> bool {
    one.number != 0 && one.number < other.number
}

fn version(pool: &MachineConfigPool) -> ResourceVersion {
    ResourceVersion::parse(pool.metadata.resource_version.as_deref().unwrap_or_default())
}

pub(super) fn selects_the_same(one: &MachineConfigPool, other: &MachineConfigPool) -> bool {
    one.spec.node_selector == other.spec.node_selector && one.spec.machine_selector == other.spec.machine_selector
}

/// Replaces a condition; its time moves only with its status.
fn put_condition(status: &mut MachineConfigPoolStatus, mut condition: MachineConfigPoolCondition, now: Timestamp) {
    let old = status.conditions.iter_mut().find(|old| old.type_ == condition.type_);
    match old {
        Some(old) => {
            condition.last_transition_time = if old.status == condition.status {
                old.last_transition_time.clone()
            } else {
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now))
            };
            *old = condition;
        }
        None => {
            condition.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            status.conditions.push(condition);
        }
    }
}
