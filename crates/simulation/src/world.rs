//! The true state: one pool with its nodes, machines, pods and ledger, behind a simulated API server.
//!
//! Objects have resource versions, writes can conflict, and changes are kept in logs that watches read at their own pace.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::machinist::PoolLedgerSpec;
use api::names::{cordon, state};
use jiff::{SignedDuration, Timestamp};
use rollout::node::{State, Unready};
use rollout::{Ledger, NodeFacts, PoolFacts, ResourceVersion};

use crate::account::Account;
use crate::host::{Host, Member};
use crate::pods::{Pod, Workload};
use crate::violation::{Kind, Violation, clock};

/// A node: its object, its machine and its pods.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) facts: NodeFacts,
    pub(crate) host: Host,
    pub(crate) pods: Vec<Pod>,
    /// Its cordon was made by a person.
    pub(crate) cordoned_by_person: bool,
    /// Its target was set by a person.
    pub(crate) hand_set: bool,
}

impl Node {
    /// Whether we keep the node from its pods: it is being updated, or cordoned for our drain. Once a person uncordons it, it
    /// serves again.
    pub(crate) fn is_taken(&self) -> bool {
        let is_changed = self.host.disk.journal.as_ref().is_some_and(|work| !work.idle);
        is_changed || (self.host.emptied && self.facts.unschedulable)
    }
}

/// A watch event: the node at that time, or nothing if it was deleted.
#[derive(Clone, Debug)]
pub(crate) struct NodeEvent {
    pub(crate) name: String,
    pub(crate) facts: Option<Arc<NodeFacts>>,
}

/// The effect of a rendered config. The default is a good one that needs a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) fault: Option<BadConfig>,
    /// It needs neither drain nor reboot.
    pub(crate) live: bool,
}

/// How a bad config fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadConfig {
    /// The daemon refuses it before the drain.
    Refused,
    /// Writing it fails, after the drain.
    Unwritable,
    /// It fails its trial.
    FailsTrial,
    /// The machine does not come back from the reboot.
    Kills,
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    NotFound,
    Outage,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) version: u64,
    /// The last uid of a pod.
    pub(crate) uids: u64,
    pub(crate) pool: Arc<PoolFacts>,
    pub(crate) pool_log: Vec<Arc<PoolFacts>>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) node_log: Vec<NodeEvent>,
    pub(crate) ledger: Ledger,
    pub(crate) ledger_log: Vec<Arc<Ledger>>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) outage: bool,
    /// Disruption budgets allow evictions.
    pub(crate) budget_open: bool,
    pub(crate) configs: BTreeMap<String, Config>,
    /// How long a kubelet may be silent before its node becomes NotReady.
    pub(crate) patience: SignedDuration,
    pub(crate) account: Account,
    pub(crate) violations: Vec<Violation>,
    /// Watches are current and plans are carried out at once, so plans can be checked against the true state.
    pub(crate) strict: bool,
    /// The trace, if one is wanted.
    pub(crate) trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(pool: &str) -> Self {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let pool = Arc::new(PoolFacts { name: pool.to_owned(), generation: Some(0), ..PoolFacts::default() });
        Self {
            now,
            version: 1,
            uids: 1,
            pool_log: vec![Arc::clone(&pool)],
            pool,
            nodes: BTreeMap::new(),
            node_log: Vec::new(),
            ledger: Ledger::default(),
            ledger_log: vec![Arc::new(Ledger::default())],
            workloads: Vec::new(),
            outage: false,
            budget_open: true,
            configs: BTreeMap::new(),
            patience: SignedDuration::ZERO,
            account: Account::default(),
            violations: Vec::new(),
            strict: false,
            trace: None,
        }
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let (version, now) = (self.version, self.now);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} @{version}: {}", clock(now), what()));
        }
    }

    pub(crate) fn violate(&mut self, kind: Kind, sentence: String) {
        self.tell(|| format!("VIOLATION {sentence} [{kind}]"));
        self.violations.push(Violation { kind, at: self.now, sentence });
    }

    pub(crate) fn config(&self, name: &str) -> Config {
        self.configs.get(name).copied().unwrap_or_default()
    }

    /// A person edits the pool.
    pub(crate) fn edit_pool(&mut self, edit: impl FnOnce(&mut PoolFacts)) {
        let mut pool = PoolFacts::clone(&self.pool);
        edit(&mut pool);
        pool.generation = pool.generation.map(|generation| generation + 1);
        self.publish_pool(pool);
    }

    pub(crate) fn publish_pool(&mut self, pool: PoolFacts) {
        self.version += 1;
        self.tell(|| format!("pool wants {}, paused {}, limit {:?}", pool.target(), pool.paused, pool.max_unavailable));
        self.pool = Arc::new(pool);
        self.pool_log.push(Arc::clone(&self.pool));
    }

    pub(crate) fn add_node(&mut self, name: &str, config: Option<&str>, ours: bool) {
        let mut facts = NodeFacts {
            name: name.to_owned(),
            uid: Some(format!("{name}-{}", self.version)),
            current: config.map(str::to_owned),
            desired: config.map(str::to_owned),
            state: if config.is_some() { State::Done } else { State::Unreported },
            created: Some(self.now),
            // A daemon of ours reports what it last repeated as soon as it runs.
            answered: ours.then(String::new),
            ours,
            ..NodeFacts::default()
        };
        self.version += 1;
        facts.resource_version = ResourceVersion::parse(&self.version.to_string());
        let mut host = Host::new(config, self.now);
        host.etcd = rollout::control_plane::is_control_plane(&self.pool.name).then(Member::default);
        let node = Node { facts, host, pods: Vec::new(), cordoned_by_person: false, hand_set: false };
        self.nodes.insert(name.to_owned(), node);
        self.publish_node(name);
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        self.version += 1;
        self.nodes.remove(name);
        self.publish_node(name);
    }

    fn publish_node(&mut self, name: &str) {
        let facts = self.nodes.get(name).map(|node| Arc::new(node.facts.clone()));
        self.tell(|| match &facts {
            Some(facts) => format!("{name}: {}", describe(facts)),
            None => format!("{name}: deleted"),
        });
        self.node_log.push(NodeEvent { name: name.to_owned(), facts });
    }

    /// A write to a node through the API, optionally with a version.
    pub(crate) fn write_node(
        &mut self,
        name: &str,
        version: Option<&ResourceVersion>,
        write: impl FnOnce(&mut NodeFacts),
    ) -> Result<(), Refused> {
        if self.outage {
            return Err(Refused::Outage);
        }
        self.change_node(name, version, write)
    }

    /// A write that does not depend on the simulated outage, such as a person's.
    pub(crate) fn change_node(
        &mut self,
        name: &str,
        version: Option<&ResourceVersion>,
        write: impl FnOnce(&mut NodeFacts),
    ) -> Result<(), Refused> {
        let node = self.nodes.get_mut(name).ok_or(Refused::NotFound)?;
        if version.is_some_and(|version| *version != node.facts.resource_version) {
            return Err(Refused::Conflict);
        }
        let before = node.facts.clone();
        write(&mut node.facts);
        if before == node.facts {
            return Ok(());
        }
        self.version += 1;
        node.facts.resource_version = ResourceVersion::parse(&self.version.to_string());
        self.publish_node(name);
        Ok(())
    }

    pub(crate) fn write_ledger(&mut self, version: Option<&String>, spec: PoolLedgerSpec) -> Result<(), Refused> {
        if self.outage {
            return Err(Refused::Outage);
        }
        if version != self.ledger.resource_version.as_ref() {
            return Err(Refused::Conflict);
        }
        self.version += 1;
        self.tell(|| describe_ledger(&spec));
        self.ledger = Ledger { resource_version: Some(self.version.to_string()), spec };
        self.ledger_log.push(Arc::new(self.ledger.clone()));
        Ok(())
    }

    /// Advances the time. The cluster notices kubelets that have become silent or have come back.
    pub(crate) fn pass(&mut self, duration: SignedDuration) {
        self.now += duration;
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.notice_kubelet(&name);
        }
    }

    fn notice_kubelet(&mut self, name: &str) {
        let (now, patience) = (self.now, self.patience);
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.host.watch_member(now);
        node.host.silent_since = if node.host.is_up() { None } else { Some(node.host.silent_since.unwrap_or(now)) };
        let ready = node.host.silent_since.is_none_or(|since| now.duration_since(since) < patience);
        if ready != is_ready(&node.facts) && !self.outage {
            let _gone = self.change_node(name, None, |facts| facts.unready = unready(ready, facts.unschedulable));
        }
    }
}

fn describe(facts: &NodeFacts) -> String {
    format!(
        "{:?} -> {:?} {} {} drain {:?}/{:?}",
        facts.current.as_deref().unwrap_or_default(),
        facts.desired.as_deref().unwrap_or_default(),
        state_word(&facts.state),
        facts.unready.as_ref().map_or_else(|| "serving".to_owned(), ToString::to_string),
        facts.desired_drain.as_deref().unwrap_or_default(),
        facts.last_applied_drain.as_deref().unwrap_or_default(),
    )
}

fn describe_ledger(spec: &PoolLedgerSpec) -> String {
    let version = |claim: &api::machinist::Claim| claim.node_resource_version.clone().unwrap_or_else(|| "?".to_owned());
    let claims = spec.claims.iter().map(|claim| format!("{}@{} to {}", claim.node, version(claim), claim.config));
    let next = spec.next.iter().map(|claim| format!("{}@{}", claim.node, version(claim)));
    let (claims, next): (Vec<_>, Vec<_>) = (claims.collect(), next.collect());
    format!("ledger: {}; next: {}", claims.join(", "), next.join(", "))
}

/// The word of a state, as a daemon writes it.
pub(crate) fn state_word(state: &State) -> &str {
    match state {
        State::Unreported => "",
        State::Done => state::DONE,
        State::Working => state::WORKING,
        State::Degraded => state::DEGRADED,
        State::Unreconcilable => state::UNRECONCILABLE,
        State::Unknown(word) => word,
    }
}

pub(crate) fn state_of(word: &str) -> State {
    match word {
        "" => State::Unreported,
        state::DONE => State::Done,
        state::WORKING => State::Working,
        state::DEGRADED => State::Degraded,
        state::UNRECONCILABLE => State::Unreconcilable,
        other => State::Unknown(other.to_owned()),
    }
}

/// What a node's readiness looks like with these two facts.
pub(crate) fn unready(ready: bool, unschedulable: bool) -> Option<Unready> {
    if !ready {
        Some(Unready::NotReady("Unknown".to_owned()))
    } else if unschedulable {
        Some(Unready::Unschedulable)
    } else {
        None
    }
}

pub(crate) fn is_ready(facts: &NodeFacts) -> bool {
    !matches!(facts.unready, Some(Unready::NotReady(_) | Unready::OutOfDisk(_) | Unready::NetworkUnavailable(_)))
}

pub(crate) fn set_unschedulable(facts: &mut NodeFacts, unschedulable: bool) {
    facts.unready = unready(is_ready(facts), unschedulable);
    facts.unschedulable = unschedulable;
}

pub(crate) fn is_ours(facts: &NodeFacts) -> bool {
    facts.cordoned_by.as_deref() == Some(cordon::MACHINIST)
}
