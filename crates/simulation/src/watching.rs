//! A controller's watches of nodes, pool and ledger, which can lag, break and list again.
//!
//! Events change the snapshot as the service's index does. After a new list, changed nodes arrive in the order of their names,
//! whatever their versions, and deletions come last; the controller may plan at any point in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::known::{FRESH_FOR, Unread};
use jiff::Timestamp;
use rollout::{NodeFacts, Snapshot};

use crate::random::Random;
use crate::world::{NodeEvent, World};

#[derive(Debug, Default)]
pub(crate) struct Watching {
    nodes: Watch,
    pool: Watch,
    ledger: Watch,
    /// Nodes as last received from the watch. The snapshot may know newer ones from answers to writes.
    store: BTreeMap<String, Arc<NodeFacts>>,
    /// Changes from a new list that have not been delivered yet.
    listed: VecDeque<NodeEvent>,
    /// The version of that list. Only when all of it is delivered is a node that is missing known to be gone.
    listed_at: u64,
    /// Since when one of them is broken.
    broken_since: Option<Timestamp>,
}

/// One watch of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    seen: usize,
    broken: bool,
}

impl Watch {
    /// The position in a log of this length after the next delivery.
    fn end(&self, length: usize, lag: &mut Option<(&mut Random, usize)>) -> usize {
        if self.broken {
            return self.seen;
        }
        let at_most = lag.as_mut().map_or(usize::MAX, |(random, lag)| random.below(*lag + 1));
        length.min(self.seen.saturating_add(at_most))
    }
}

impl Watching {
    /// Breaks one of the watches. The store does not show it before its silence has lasted too long.
    pub(crate) fn lose(&mut self, random: &mut Random, now: Timestamp) {
        self.broken_since = self.broken_since.or(Some(now));
        match random.below(4) {
            0 | 1 => self.nodes.broken = true,
            2 => self.pool.broken = true,
            _ => self.ledger.broken = true,
        }
    }

    /// Repairs the watches. With `lists`, a broken watch of nodes lists again instead of continuing.
    pub(crate) fn mend(&mut self, world: &World, lists: bool) {
        if self.nodes.broken && lists {
            self.list(world);
        }
        for watch in [&mut self.nodes, &mut self.pool, &mut self.ledger] {
            watch.broken = false;
        }
        self.broken_since = None;
    }

    /// What is not believed any more. Silence is measured by a clock that nobody can set, as in the service.
    pub(crate) fn unread(&self, now: Timestamp) -> Option<Unread> {
        let since = self.broken_since.filter(|since| now.duration_since(*since) > FRESH_FOR)?;
        Some(Unread::new("nodes, pools or ledgers", api::known::last_heard(since)))
    }

    fn list(&mut self, world: &World) {
        let there =
            world.nodes.iter().filter(|(name, node)| self.store.get(*name).is_none_or(|known| **known != node.facts));
        let told = |(name, node): (&String, &crate::world::Node)| NodeEvent {
            name: name.clone(),
            facts: Some(Arc::new(node.facts.clone())),
        };
        let gone = self.store.keys().filter(|name| !world.nodes.contains_key(*name));
        let gone = gone.map(|name| NodeEvent { name: name.clone(), facts: None });
        self.listed = there.map(told).chain(gone).collect();
        self.listed_at = world.version;
        self.nodes.seen = world.node_log.len();
    }

    /// The first lists, each complete but, coming from a cache, possibly a little old.
    pub(crate) fn start(&mut self, snapshot: &mut Snapshot, world: &World, random: &mut Random) {
        let mut old = |length: usize| length - random.below(length.min(6) + 1);
        for event in &world.node_log[..old(world.node_log.len())] {
            self.take_in(snapshot, event, true);
            self.nodes.seen += 1;
        }
        self.pool.seen = old(world.pool_log.len() - 1);
        snapshot.observe_pool(rollout::PoolFacts::clone(&world.pool_log[self.pool.seen]), None);
        self.ledger.seen = old(world.ledger_log.len() - 1);
        snapshot.ledger = rollout::Ledger::clone(&world.ledger_log[self.ledger.seen]);
    }

    /// Delivers events: a random number up to the lag, or all.
    pub(crate) fn follow(&mut self, snapshot: &mut Snapshot, world: &World, mut lag: Option<(&mut Random, usize)>) {
        while let Some(event) = self.listed.pop_front() {
            self.take_in(snapshot, &event, false);
            if lag.as_mut().is_some_and(|(random, _)| random.once_in(3)) {
                // The rest of the list is delivered later.
                return;
            }
        }
        snapshot.nodes.seen_until(self.listed_at);
        let end = self.nodes.end(world.node_log.len(), &mut lag);
        for event in &world.node_log[self.nodes.seen..end] {
            self.take_in(snapshot, event, true);
        }
        self.nodes.seen = end;
        let end = self.pool.end(world.pool_log.len() - 1, &mut lag);
        if end != self.pool.seen {
            self.pool.seen = end;
            snapshot.observe_pool(rollout::PoolFacts::clone(&world.pool_log[end]), None);
        }
        let end = self.ledger.end(world.ledger_log.len() - 1, &mut lag);
        if end != self.ledger.seen {
            self.ledger.seen = end;
            snapshot.ledger = rollout::Ledger::clone(&world.ledger_log[end]);
        }
    }

    /// Takes in one node. In a watch, whatever happened before it has been delivered as well.
    fn take_in(&mut self, snapshot: &mut Snapshot, event: &NodeEvent, in_order: bool) {
        let Some(facts) = &event.facts else {
            self.store.remove(&event.name);
            snapshot.nodes.forget(&event.name);
            return;
        };
        self.store.insert(event.name.clone(), Arc::clone(facts));
        if in_order {
            snapshot.nodes.seen_until(facts.resource_version.number);
        }
        if !knows_newer(snapshot, facts) {
            snapshot.nodes.observe_answer(Arc::clone(facts));
        }
    }

    /// Takes a node from the answer to a write, ahead of the watch.
    pub(crate) fn answered(&self, snapshot: &mut Snapshot, facts: &NodeFacts) {
        if snapshot.nodes.get(&facts.name).is_some() && !knows_newer(snapshot, facts) {
            snapshot.nodes.observe_answer(facts.clone());
        }
    }
}

fn knows_newer(snapshot: &Snapshot, facts: &NodeFacts) -> bool {
    let known = snapshot.nodes.get(&facts.name);
    known.is_some_and(|known| known.uid == facts.uid && known.resource_version.number > facts.resource_version.number)
}
