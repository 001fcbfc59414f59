//! The truth: one pool, its nodes, their pods and the ledger, with the rules of an API server.
//!
//! Every object has a resource version, every write can conflict, and every change is kept in a log that watchers read
//! at their own pace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::machinist::PoolLedgerSpec;
use api::names::{cordon, state};
use jiff::{SignedDuration, Timestamp};
use rollout::node::{State, Unready};
use rollout::{EtcdMember, Ledger, NodeFacts, PoolFacts, ResourceVersion};

use crate::daemon::Journal;

/// A node: its object, and what only the node itself knows.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) facts: NodeFacts,
    /// The daemon's disk.
    pub(crate) journal: Journal,
    /// The node has no power.
    pub(crate) crashed: bool,
    /// A person cordoned it, when it was schedulable.
    pub(crate) cordoned_by_person: bool,
    pub(crate) pods: Vec<Pod>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: u64,
    pub(crate) protected: bool,
    pub(crate) terminating: Option<Timestamp>,
}

/// What a watcher of nodes gets: the node as it was then, or nothing when it was deleted.
#[derive(Clone, Debug)]
pub(crate) struct NodeEvent {
    pub(crate) version: u64,
    pub(crate) name: String,
    pub(crate) facts: Option<Arc<NodeFacts>>,
}

/// A node whose target landed and that is not through yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disruption {
    /// It was available when it was targeted.
    pub(crate) paid: bool,
    /// What the controller that did it took for the limit.
    pub(crate) limit: usize,
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
    pub(crate) pool: Arc<PoolFacts>,
    pub(crate) pool_log: Vec<Arc<PoolFacts>>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) node_log: Vec<NodeEvent>,
    pub(crate) ledger: Ledger,
    pub(crate) ledger_log: Vec<Arc<Ledger>>,
    pub(crate) outage: bool,
    /// The disruption budget of protected pods allows evictions.
    pub(crate) budget_open: bool,
    /// Configs that cannot be applied; those with `true` fail after the node was emptied.
    pub(crate) bad: BTreeMap<String, bool>,
    pub(crate) disruptions: BTreeMap<String, Disruption>,
    pub(crate) violations: Vec<String>,
    /// Plans are made from the truth and carried out at once, so they must hold in truth as well.
    pub(crate) strict: bool,
    /// What happened, in words, when somebody wants to know.
    pub(crate) trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(pool: &str) -> Self {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let pool = Arc::new(PoolFacts { name: pool.to_owned(), generation: Some(0), ..PoolFacts::default() });
        Self {
            now,
            version: 1,
            pool_log: vec![Arc::clone(&pool)],
            pool,
            nodes: BTreeMap::new(),
            node_log: Vec::new(),
            ledger: Ledger::default(),
            ledger_log: vec![Arc::new(Ledger::default())],
            outage: false,
            budget_open: true,
            bad: BTreeMap::new(),
            disruptions: BTreeMap::new(),
            violations: Vec::new(),
            strict: false,
            trace: None,
        }
    }

    pub(crate) fn pass(&mut self, duration: SignedDuration) {
        self.now += duration;
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let (version, now) = (self.version, self.now);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} @{version}: {}", now.strftime("%H:%M:%S%.3f"), what()));
        }
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.tell(|| format!("VIOLATION {what}"));
        self.violations.push(what);
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
            ours,
            ..NodeFacts::default()
        };
        self.version += 1;
        facts.resource_version = ResourceVersion::parse(&self.version.to_string());
        let node =
            Node { facts, journal: Journal::default(), crashed: false, cordoned_by_person: false, pods: Vec::new() };
        self.nodes.insert(name.to_owned(), node);
        self.publish_node(name);
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        self.version += 1;
        self.nodes.remove(name);
        self.disruptions.remove(name);
        self.publish_node(name);
    }

    fn publish_node(&mut self, name: &str) {
        let facts = self.nodes.get(name).map(|node| Arc::new(node.facts.clone()));
        self.tell(|| match &facts {
            Some(facts) => format!(
                "{name}: {:?} -> {:?} {} {} drain {:?}/{:?}",
                facts.current.as_deref().unwrap_or_default(),
                facts.desired.as_deref().unwrap_or_default(),
                state_word(&facts.state),
                facts.unready.as_ref().map_or_else(|| "serving".to_owned(), ToString::to_string),
                facts.desired_drain.as_deref().unwrap_or_default(),
                facts.last_applied_drain.as_deref().unwrap_or_default(),
            ),
            None => format!("{name}: deleted"),
        });
        self.node_log.push(NodeEvent { version: self.version, name: name.to_owned(), facts });
    }

    /// A write to a node by a client of the API, perhaps with a precondition.
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

    /// A change that happens whether or not the API can be reached, such as the node's own readiness.
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
        if node.facts.is_done() && node.facts.is_serving() {
            self.disruptions.remove(name);
        }
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
        self.tell(|| {
            let claims = spec.claims.iter().map(|claim| {
                format!("{}@{} to {}", claim.node, claim.node_resource_version.as_deref().unwrap_or("?"), claim.config)
            });
            let next = spec
                .next
                .iter()
                .map(|claim| format!("{}@{}", claim.node, claim.node_resource_version.as_deref().unwrap_or("?")));
            let (claims, next): (Vec<_>, Vec<_>) = (claims.collect(), next.collect());
            format!("ledger: {}; next: {}", claims.join(", "), next.join(", "))
        });
        self.ledger = Ledger { resource_version: Some(self.version.to_string()), spec };
        self.ledger_log.push(Arc::new(self.ledger.clone()));
        Ok(())
    }

    /// A member of etcd on every node of the control plane.
    pub(crate) fn etcd_members(&self) -> Vec<EtcdMember> {
        let members = self.nodes.values().map(|node| &node.facts);
        members.map(|facts| EtcdMember { node: facts.name.clone(), ready: is_ready(facts) }).collect()
    }

    /// The nodes that still have to come to an end, for the final check.
    pub(crate) fn unfinished(&self) -> BTreeSet<String> {
        let target = self.pool.target();
        let is_through =
            |facts: &NodeFacts| facts.is_done() && facts.is_serving() && facts.current.as_deref() == Some(target);
        self.nodes.values().filter(|node| !is_through(&node.facts)).map(|node| node.facts.name.clone()).collect()
    }
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
