//! Decides which nodes get the pool's target now.
//!
//! Whoever caused it, a node that is unavailable holds a share of the budget; and because it does, it may itself be
//! given the newest target at no further cost. Reverting a bad config therefore heals the nodes it broke. Nodes that
//! still serve are taken only while the budget lasts.

use std::collections::{BTreeMap, BTreeSet};

use api::machinist::{Claim, HeldConfig, PoolLedgerSpec, Target as LedgerTarget};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{About, Action, Event, Target, Waiting};
use crate::control_plane;
use crate::ledger::Stand;
use crate::node::{NodeFacts, State};
use crate::snapshot::Snapshot;

/// How many nodes stand in line at most. A ledger is written when half of the line has moved up: long enough that a large
/// pool writes it seldom, short enough that it stays cheap.
const LINE: usize = 64;

/// How much of the budget is spent, for metrics and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// What `maxUnavailable` amounts to.
    pub limit: usize,
    /// Nodes that hold a share before this plan.
    pub used: usize,
    /// Shares that this plan takes.
    pub taken: usize,
}

/// What [`choose`] decided.
pub(super) struct Moves {
    pub(super) actions: Vec<Action>,
    pub(super) events: Vec<Event>,
    pub(super) spending: Spending,
    pub(super) waiting: Waiting,
    /// When to look again although nothing changes.
    pub(super) after: Option<SignedDuration>,
    pub(super) gate_allows_taints: bool,
}

/// Chooses targets, and writes down the claims for them.
pub(super) fn choose(snapshot: &Snapshot, limit: usize, gate: Option<&Waiting>) -> Moves {
    let mut draft = Draft::new(snapshot, limit);
    let (mut waiting, mut after) = (gate.cloned(), None);
    let mut gate_allows_taints = false;
    if waiting.is_none() {
        waiting = draft.is_outdated();
    }
    if waiting.is_none() {
        waiting = draft.hold_reverted();
    }
    if waiting.is_none() {
        after = draft.settling();
        waiting = after.map(|_| Waiting::Settling { config: snapshot.pool.target().to_owned() });
    }
    if waiting.is_none() {
        gate_allows_taints = true;
        draft.retarget_claimed();
        draft.retarget_disrupted();
        draft.retarget_impaired();
        draft.target_next();
        draft.target_waiting();
        draft.line_up();
    }
    // While a new target settles, claims for the previous one stay as they are.
    if after.is_none() && waiting != Some(Waiting::NewerPool) {
        draft.fence_unwanted(waiting.is_some());
    }
    let waiting = waiting.unwrap_or_else(|| draft.waiting());
    let spending = draft.spending;
    let (actions, events) = draft.finish();
    Moves { actions, events, spending, waiting, after, gate_allows_taints }
}

/// A plan in the making.
struct Draft<'a> {
    snapshot: &'a Snapshot,
    spec: PoolLedgerSpec,
    claims: BTreeMap<String, (Claim, Stand)>,
    /// Nodes in line after the claims.
    next: Vec<Claim>,
    /// The line has become short, and others have joined it.
    is_refilled: bool,
    targets: Vec<Target>,
    fences: Vec<Action>,
    events: Vec<Event>,
    spending: Spending,
    /// Nodes on which work is off, or will be by a claim.
    disrupted: usize,
    blocked: Option<Waiting>,
    /// Claimed nodes that shall not get a target after all.
    unwanted: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    fn new(snapshot: &'a Snapshot, limit: usize) -> Self {
        let nodes = &snapshot.nodes;
        let index = nodes.index();
        let claims = snapshot.ledger.open_claims(nodes);
        let idle = claims.keys().filter(|node| !index.consuming.contains(*node)).count();
        let undisturbed = claims.keys().filter(|node| !nodes.get(node).is_some_and(NodeFacts::is_disrupted)).count();
        Self {
            snapshot,
            // Claims and line are put together when it is written.
            spec: PoolLedgerSpec {
                target: snapshot.ledger.spec.target.clone(),
                held: snapshot.ledger.spec.held.clone(),
                ..PoolLedgerSpec::default()
            },
            targets: Vec::new(),
            fences: Vec::new(),
            events: Vec::new(),
            spending: Spending { limit, used: index.consuming.len() + idle, taken: 0 },
            disrupted: index.counts.disrupted + undisturbed,
            blocked: None,
            unwanted: BTreeSet::new(),
            next: snapshot.ledger.in_line(nodes).into_iter().filter(|one| !claims.contains_key(&one.node)).collect(),
            is_refilled: false,
            claims,
        }
    }

    /// Whether another controller has acted on a newer version of the pool than we have seen.
    fn is_outdated(&self) -> Option<Waiting> {
        let (pool, target) = (&self.snapshot.pool, self.spec.target.as_ref()?);
        (pool.uid == target.pool_uid && pool.generation? < target.generation?).then_some(Waiting::NewerPool)
    }

    /// Notes trials that were reverted, and says whether one of them holds the pool's target.
    fn hold_reverted(&mut self) -> Option<Waiting> {
        let config = self.snapshot.pool.target();
        let approved = self.snapshot.pool.approved.as_deref() == Some(config);
        self.spec.held.retain(|held| held.config == config && !approved);
        if self.spec.held.is_empty()
            && !approved
            && let Some(node) = self.snapshot.nodes.index().reverted.first()
        {
            let facts = self.snapshot.nodes.get(node);
            self.spec.held.push(HeldConfig {
                config: config.to_owned(),
                node: node.clone(),
                reason: facts.and_then(|facts| facts.reason.clone()),
                since: Some(Time(self.snapshot.now)),
            });
        }
        let held = self.spec.held.first()?;
        Some(Waiting::TrialReverted { config: held.config.clone(), node: held.node.clone() })
    }

    /// How long the target still has to stay the same.
    fn settling(&mut self) -> Option<SignedDuration> {
        let (config, now) = (self.snapshot.pool.target(), self.snapshot.now);
        let since = match &self.spec.target {
            // A time in the future was written by a clock that is ahead of ours; it must not stop us for long.
            Some(target) if target.config == config => target.since.as_ref().map_or(now, |since| since.0.min(now)),
            Some(_) | None => {
                self.spec.target = Some(LedgerTarget {
                    config: config.to_owned(),
                    generation: self.snapshot.pool.generation,
                    pool_uid: self.snapshot.pool.uid.clone(),
                    since: Some(Time(now)),
                });
                now
            }
        };
        let left = self.snapshot.settings.settle - now.duration_since(since);
        left.is_positive().then_some(left)
    }

    /// Nodes that were claimed and whose patch has not been seen to land: it is sent again. When the budget has become
    /// smaller meanwhile, some of those that still serve are let go instead.
    fn retarget_claimed(&mut self) {
        let mut excess = self.spending.used.saturating_sub(self.spending.limit);
        // Our view may be too old to tell which of them have landed, so none is sent before the others are let go.
        let is_over = excess > 0;
        let pending = self.claims.iter().filter(|(_, (_, stand))| *stand == Stand::Pending);
        let pending: Vec<_> = pending.map(|(node, _)| node.clone()).collect();
        for node in pending {
            let Some(facts) = self.wanting(&node) else { continue };
            if !is_over || facts.consumes_budget() {
                self.target(facts);
            } else if excess > 0 {
                excess -= 1;
                self.unwanted.insert(node);
            }
        }
    }

    /// Nodes that are down or at work anyway.
    fn retarget_disrupted(&mut self) {
        let snapshot = self.snapshot;
        for node in &snapshot.nodes.index().disrupted {
            if self.is_untouched(node)
                && let Some(facts) = snapshot.nodes.get(node)
                && self.keeps_quorum(facts)
            {
                self.note_hand_set(facts);
                self.target(facts);
            }
        }
    }

    /// Nodes that serve although something is wrong with them. Each holds a share of the budget already, but giving
    /// it a target takes its work away, so at no time may more of them be down than the budget allows.
    fn retarget_impaired(&mut self) {
        let snapshot = self.snapshot;
        for place in &snapshot.nodes.index().impaired {
            let Some(facts) = snapshot.nodes.get(&place.name) else { continue };
            let claimed = self.claims.contains_key(&place.name);
            if !self.is_untouched(&place.name) || self.waits_for_others(facts) {
                continue;
            }
            if claimed || self.disrupted < self.spending.limit {
                self.disrupted += usize::from(!claimed);
                self.note_hand_set(facts);
                self.target(facts);
            }
        }
    }

    /// Nodes in line, while the budget lasts. One that must not have the target after all still holds a share, until a
    /// fence keeps others from acting on what the ledger says.
    fn target_next(&mut self) {
        let mut line = std::mem::take(&mut self.next).into_iter();
        while !line.as_slice().is_empty() {
            let used = self.spending.used + self.spending.taken;
            if used >= self.spending.limit {
                self.blocked.get_or_insert(Waiting::Budget { limit: self.spending.limit, used });
                break;
            }
            let Some(claim) = line.next() else { break };
            let node = claim.node.clone();
            self.spending.taken += 1;
            self.claims.insert(node.clone(), (claim, Stand::Pending));
            if let Some(facts) = self.wanting(&node) {
                self.target(facts);
            }
        }
        self.next = line.collect();
    }

    /// Nodes that are well, in the order of their turn, while the budget lasts.
    fn target_waiting(&mut self) {
        let snapshot = self.snapshot;
        let waiting = &snapshot.nodes.index().waiting;
        let is_leader = |name: &str| snapshot.settings.leader_node.as_deref() == Some(name);
        let last_is_leader = waiting.len() == 1;
        let in_line: BTreeSet<String> = self.next.iter().map(|one| one.node.clone()).collect();
        for place in waiting {
            if self.claims.contains_key(&place.name) || in_line.contains(&place.name) {
                continue;
            }
            let used = self.spending.used + self.spending.taken;
            if used >= self.spending.limit {
                self.blocked.get_or_insert(Waiting::Budget { limit: self.spending.limit, used });
                return;
            }
            let Some(facts) = snapshot.nodes.get(&place.name) else { continue };
            if is_leader(&place.name) && !last_is_leader && control_plane::is_control_plane(&snapshot.pool.name) {
                self.defer_leader(&place.name);
                continue;
            }
            if !self.waits_for_others(facts) {
                self.spending.taken += 1;
                self.target(facts);
            }
        }
    }

    /// Lets further nodes join the line when it has become short. A pool that moves one node at a time, or whose nodes wait
    /// for each other, has none.
    fn line_up(&mut self) {
        let room = match self.spending.limit {
            limit if limit < 2 || control_plane::is_control_plane(&self.snapshot.pool.name) => 0,
            limit => limit.min(LINE),
        };
        if self.next.len() * 2 >= room {
            return;
        }
        let before: BTreeSet<String> = self.next.iter().map(|one| one.node.clone()).collect();
        let waiting = self.snapshot.nodes.index().waiting.iter().map(|place| &place.name);
        let mut others = waiting.filter(|name| !self.claims.contains_key(*name) && !before.contains(*name));
        while self.next.len() < room
            && let Some(facts) = others.next().and_then(|name| self.snapshot.nodes.get(name))
        {
            self.next.push(self.claim(facts));
            self.is_refilled = true;
        }
    }

    fn defer_leader(&mut self, node: &str) {
        self.events.push(Event {
            about: About::Pool,
            warning: false,
            reason: "DeferringOperatorNodeUpdate",
            message: format!("Deferring update of machine config operator node {node}"),
        });
    }

    /// Patches that may still land but must not: the node gets a harmless write, so that they conflict.
    fn fence_unwanted(&mut self, nothing_is_wanted: bool) {
        let is_wanted =
            |node: &String| !nothing_is_wanted && !self.unwanted.contains(node) && self.wanting(node).is_some();
        let pending = self.claims.iter().filter(|(_, (_, stand))| *stand == Stand::Pending).map(|(node, _)| node);
        let unwanted = pending.chain(self.next.iter().map(|one| &one.node)).filter(|node| !is_wanted(node));
        let fences = unwanted.filter_map(|node| {
            let resource_version = self.snapshot.nodes.get(node)?.resource_version.clone();
            Some(Action::Fence { node: node.clone(), resource_version })
        });
        self.fences = fences.collect();
    }

    /// The node, if it wants the target and may have it.
    fn wanting(&self, node: &str) -> Option<&'a NodeFacts> {
        let facts = self.snapshot.nodes.get(node)?;
        let wants = !self.snapshot.nodes.goal().is_desired_by(facts);
        (wants && facts.hold.is_none() && !facts.is_foreign_and_working()).then_some(facts)
    }

    /// Whether this plan may still write to a node that is not available: not when our view of it is old, nor when
    /// its claim was dealt with already.
    fn is_untouched(&self, node: &str) -> bool {
        self.claims.get(node).is_none_or(|(_, stand)| *stand == Stand::Live)
    }

    fn waits_for_others(&mut self, facts: &NodeFacts) -> bool {
        if let Some(peer) = self.snapshot.peer.as_ref().filter(|peer| peer.blocks(&self.snapshot.pool.name)) {
            self.blocked = Some(Waiting::Peer { pool: peer.pool.clone() });
            return true;
        }
        !self.keeps_quorum(facts)
    }

    /// Whether a node of the control plane may be changed now: no other one is, and etcd can spare it. Cordoned or
    /// degraded, it still runs the control plane; only what is off or at work already has nothing to lose.
    fn keeps_quorum(&mut self, facts: &NodeFacts) -> bool {
        let is_off = !facts.is_running() || facts.state == State::Working;
        if is_off || !control_plane::is_control_plane(&self.snapshot.pool.name) {
            return true;
        }
        let others = self.snapshot.nodes.iter().filter(|other| other.name != facts.name);
        let moving = others.filter(|other| self.is_moving(other)).count();
        let blocked = if moving > 0 {
            Some(Waiting::Budget { limit: self.spending.limit, used: moving })
        } else if control_plane::keeps_quorum(&self.snapshot.etcd, &facts.name) {
            None
        } else {
            Some(Waiting::Quorum { node: facts.name.clone() })
        };
        let keeps = blocked.is_none();
        self.blocked = blocked.or(self.blocked.take());
        keeps
    }

    /// Whether a node of the control plane is off, or is or will be changed. One that gave up on a change rests.
    fn is_moving(&self, facts: &NodeFacts) -> bool {
        let claim = self.claims.get(&facts.name);
        let is_claimed = claim.is_some_and(|(_, stand)| matches!(stand, Stand::Pending | Stand::Ahead));
        let is_asked = facts.desired.is_some() && facts.desired != facts.current && !facts.is_degraded();
        is_claimed || is_asked || !facts.is_running() || facts.state == State::Working
    }

    /// Tells a person that their choice of a node's config is being put back.
    fn note_hand_set(&mut self, facts: &NodeFacts) {
        let Some(desired) = &facts.desired else { return };
        let claimed = self.claims.get(&facts.name).is_some_and(|(claim, _)| claim.config == *desired);
        let earlier = |config: Option<&String>| config == Some(desired);
        let status = self.snapshot.pool.status.configuration.as_ref().and_then(|status| status.name.as_ref());
        let ledger = self.snapshot.ledger.spec.target.as_ref().map(|target| &target.config);
        if claimed || earlier(facts.current.as_ref()) || earlier(status) || earlier(ledger) {
            return;
        }
        let (node, target) = (&facts.name, self.snapshot.pool.target());
        self.events.push(Event {
            about: About::Node(node.clone()),
            warning: true,
            reason: "DesiredConfigPutBack",
            message: format!(
                "desiredConfig of node {node} was {desired}, which is neither what its pool wants nor what runs on the \
                 node; it is set to {target}. To keep a node where it is, annotate it with machinist.dev/hold"
            ),
        });
    }

    /// Claims a node and gives it the target.
    fn target(&mut self, facts: &NodeFacts) {
        let config = self.snapshot.pool.target();
        let version = &facts.resource_version;
        let is_same = |claim: &Claim| {
            claim.config == config && claim.node_resource_version.as_deref() == Some(version.text.as_str())
        };
        if !self.claims.get(&facts.name).is_some_and(|(claim, _)| is_same(claim)) {
            self.claims.insert(facts.name.clone(), (self.claim(facts), Stand::Pending));
        }
        let goal = self.snapshot.nodes.goal();
        self.targets.push(Target {
            node: facts.name.clone(),
            uid: facts.uid.clone(),
            resource_version: version.clone(),
            config: config.to_owned(),
            image: goal.image().map(str::to_owned),
        });
    }

    /// A share of the budget for a node as it is now.
    fn claim(&self, facts: &NodeFacts) -> Claim {
        Claim {
            node: facts.name.clone(),
            uid: facts.uid.clone(),
            config: self.snapshot.pool.target().to_owned(),
            node_resource_version: Some(facts.resource_version.text.clone()),
            holder: Some(self.snapshot.settings.holder.clone()).filter(|holder| !holder.is_empty()),
            since: Some(Time(self.snapshot.now)),
        }
    }

    /// What the pool waits for after this plan.
    fn waiting(&self) -> Waiting {
        let index = self.snapshot.nodes.index();
        let counts = index.counts;
        let in_progress = index.consuming.len().max(self.claims.len());
        if let Some(blocked) = &self.blocked {
            blocked.clone()
        } else if in_progress > 0 {
            Waiting::Nodes { in_progress }
        } else if counts.ready == counts.machines {
            Waiting::Settled
        } else if !index.held.is_empty() {
            Waiting::Held { nodes: index.held.len() }
        } else {
            Waiting::Settled
        }
    }

    fn finish(mut self) -> (Vec<Action>, Vec<Event>) {
        let ledger = &self.snapshot.ledger;
        let said = ledger.by_node();
        let says = |claim: &Claim| said.get(claim.node.as_str()) == Some(&claim);
        // What the ledger says already is not kept waiting for the next write of it.
        let is_known = |target: &Target| self.claims.get(&target.node).is_some_and(|(claim, _)| says(claim));
        let (known, new): (Vec<_>, Vec<_>) = std::mem::take(&mut self.targets).into_iter().partition(is_known);
        let targeted_nodes: Vec<String> = known.iter().chain(&new).map(|target| target.node.clone()).collect();
        let mut actions: Vec<_> = known.into_iter().map(Action::Target).collect();
        if self.is_worth_a_write(says) {
            self.spec.claims = self.claims.into_values().map(|(claim, _)| claim).collect();
            self.spec.next = self.next;
            // Those in line get what the pool wants when their turn comes.
            self.spec.next.iter_mut().for_each(|one| self.snapshot.pool.target().clone_into(&mut one.config));
            self.spec.budget = i32::try_from(self.spending.limit).ok();
            let resource_version = ledger.resource_version.clone();
            actions.push(Action::WriteLedger { resource_version, spec: Box::new(self.spec) });
        }
        let config = self.snapshot.pool.target();
        match targeted_nodes.as_slice() {
            [] => {}
            [node] => self.events.push(targeted(format!("Targeted node {node} to MachineConfig: {config}"))),
            nodes => {
                self.events.push(targeted(format!("Set target for {} nodes to MachineConfig: {config}", nodes.len())));
            }
        }
        actions.extend(new.into_iter().map(Action::Target));
        actions.extend(self.fences);
        (actions, self.events)
    }

    /// A ledger is long, so it is written for what others must know, and not to strike out each share that is given back:
    /// anyone can see that on the node. The budget alone is no reason either: it follows the number of nodes.
    fn is_worth_a_write(&self, says: impl Fn(&Claim) -> bool) -> bool {
        let old = &self.snapshot.ledger.spec;
        let is_over = self.claims.is_empty() && self.next.is_empty();
        (&old.target, &old.held) != (&self.spec.target, &self.spec.held)
            || self.claims.values().any(|(claim, _)| !says(claim))
            || self.is_refilled
            || (is_over && !(old.claims.is_empty() && old.next.is_empty()))
    }
}

fn targeted(message: String) -> Event {
    Event { about: About::Pool, warning: false, reason: "SetDesiredConfig", message }
}
