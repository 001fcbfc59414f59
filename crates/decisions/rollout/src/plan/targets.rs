//! Decides which nodes get the pool's target now, and writes the claims for them.
//!
//! A target is a place: no node is asked for anything before the ledger claims it, and open claims are never more than
//! the limit, whether the node served before, was cordoned, reported a fault or never had a config. Who gets a place is
//! decided in [`places`].

mod places;
mod requests;
mod silence;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::machinist::{Claim, HeldConfig, PoolLedgerSpec, Target as LedgerTarget};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{About, Action, Event, Probe, Target, Waiting};
use crate::control_plane;
use crate::ledger::{OpenClaim, Stand};
use crate::node::NodeFacts;
use crate::quote::cut;
use crate::snapshot::Snapshot;
use crate::status;

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
    pub(super) probes: Vec<Probe>,
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
        waiting = snapshot.unread.clone().map(Waiting::Unread);
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
        draft.retarget_taken();
        draft.let_drain();
        draft.place_moving();
        draft.place_others();
        draft.target_next();
        draft.target_waiting();
        draft.line_up();
        draft.probe();
        after = draft.take_back();
    } else if !is_blind(waiting.as_ref()) {
        draft.let_drain();
        draft.claim_moving();
    }
    // While a new target settles, claims for the previous one stay as they are; so do all while we do not see enough.
    let settles = matches!(waiting, Some(Waiting::Settling { .. }));
    if !settles && !is_blind(waiting.as_ref()) {
        draft.fence_unwanted(waiting.is_some());
    }
    if !is_blind(waiting.as_ref()) {
        draft.answer_people();
    }
    let waiting = waiting.unwrap_or_else(|| draft.waiting());
    let spending = draft.spending;
    let probes = std::mem::take(&mut draft.probes);
    let (actions, events) = draft.finish();
    Moves { actions, probes, events, spending, waiting, after, gate_allows_taints }
}

/// Whether we see too little to touch even the ledger.
fn is_blind(waiting: Option<&Waiting>) -> bool {
    matches!(waiting, Some(Waiting::NewerPool | Waiting::Unread(_)))
}

/// A plan in the making.
struct Draft<'a> {
    snapshot: &'a Snapshot,
    spec: PoolLedgerSpec,
    claims: BTreeMap<&'a str, OpenClaim<'a>>,
    /// Nodes in line after the claims.
    next: Vec<OpenClaim<'a>>,
    /// The line has become short, and others have joined it.
    is_refilled: bool,
    targets: Vec<Target>,
    fences: Vec<Action>,
    /// Nodes that a person sends to an older config, and that are to be held there.
    requested: BTreeSet<String>,
    holds: Vec<Action>,
    probes: Vec<Probe>,
    events: Vec<Event>,
    spending: Spending,
    /// Nodes that do not serve, or will not by a claim.
    away: usize,
    /// A node that does not stand in line waits for a place: the line is given up, so that nobody gets one before.
    dissolves: bool,
    blocked: Option<Waiting>,
    /// Claimed nodes that shall not get a target after all.
    unwanted: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    fn new(snapshot: &'a Snapshot, limit: usize) -> Self {
        let nodes = &snapshot.nodes;
        let index = nodes.index();
        let claims = snapshot.ledger.open_claims(nodes);
        let idle = claims.values().filter(|open| !open.facts.is_some_and(NodeFacts::consumes_budget)).count();
        let serving = claims.values().filter(|open| open.facts.is_none_or(NodeFacts::is_serving)).count();
        let in_line = snapshot.ledger.in_line(nodes);
        let next = in_line.filter(|open| !claims.contains_key(open.claim.node.as_str())).collect();
        Self {
            snapshot,
            // Claims and line are put together when it is written.
            spec: PoolLedgerSpec {
                target: snapshot.ledger.spec.target.clone(),
                held: snapshot.ledger.spec.held.clone(),
                etcd_members: etcd_members(snapshot),
                ..PoolLedgerSpec::default()
            },
            targets: Vec::new(),
            fences: Vec::new(),
            requested: requests::of(snapshot),
            holds: Vec::new(),
            probes: Vec::new(),
            events: Vec::new(),
            spending: Spending { limit, used: index.consuming.len() + idle, taken: 0 },
            away: index.counts.away + serving,
            dissolves: false,
            blocked: None,
            unwanted: BTreeSet::new(),
            next,
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
        let settle = self.snapshot.settings.settle;
        // A time that is further ahead than that was written by a clock that is wrong, and nobody knows when.
        let is_ahead = |since: &Time| since.0.duration_since(now) > settle;
        let is_known = |target: &LedgerTarget| target.config == config && !target.since.as_ref().is_some_and(is_ahead);
        if !self.spec.target.as_ref().is_some_and(is_known) {
            self.spec.target = Some(LedgerTarget {
                config: config.to_owned(),
                generation: self.snapshot.pool.generation,
                pool_uid: self.snapshot.pool.uid.clone(),
                since: Some(Time(now)),
            });
        }
        let since = self.spec.target.as_ref().and_then(|target| target.since.as_ref());
        let left = settle - since.map_or(SignedDuration::ZERO, |since| now.duration_since(since.0));
        left.is_positive().then_some(left)
    }

    /// Nodes in line, while the budget lasts. One that must not have the target after all still holds a share, until a
    /// fence keeps others from acting on what the ledger says.
    fn target_next(&mut self) {
        if self.dissolves {
            return;
        }
        let mut line = std::mem::take(&mut self.next).into_iter();
        while !line.as_slice().is_empty() {
            let used = self.spending.used + self.spending.taken;
            if used >= self.spending.limit {
                self.blocked.get_or_insert(Waiting::Budget { limit: self.spending.limit, used });
                break;
            }
            // Nodes in line are known, or they would not be there.
            let Some(open) = line.next() else { break };
            let Some(facts) = open.facts else { continue };
            self.spending.taken += 1;
            self.claims.insert(&facts.name, open);
            if self.wants(facts) {
                self.target(facts);
            }
        }
        self.next = line.collect();
    }

    /// Nodes that are well, in the order of their turn, while the budget lasts.
    fn target_waiting(&mut self) {
        // Those in line may be targeted by anyone at any moment, so nobody else gets a place before they were fenced off.
        if self.dissolves && !self.next.is_empty() {
            return;
        }
        let snapshot = self.snapshot;
        let waiting = &snapshot.nodes.index().waiting;
        let is_leader = |name: &str| snapshot.settings.leader_node.as_deref() == Some(name);
        let last_is_leader = waiting.len() == 1;
        let in_line: BTreeSet<&str> = self.in_line().collect();
        for place in waiting {
            let is_taken = self.claims.contains_key(place.name.as_str()) || in_line.contains(place.name.as_str());
            if is_taken || self.requested.contains(&place.name) {
                continue;
            }
            let used = self.spending.used + self.spending.taken;
            if used >= self.spending.limit {
                self.blocked.get_or_insert(Waiting::Budget { limit: self.spending.limit, used });
                return;
            }
            let Some(facts) = snapshot.nodes.get(&place.name) else { continue };
            if is_leader(&place.name) && !last_is_leader {
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
        if self.dissolves || self.next.len() * 2 >= room {
            return;
        }
        let before: BTreeSet<&str> = self.in_line().collect();
        let leader = self.snapshot.settings.leader_node.as_ref();
        let waiting = self.snapshot.nodes.index().waiting.iter().map(|place| &place.name);
        let waiting = waiting.filter(|name| Some(*name) != leader && !self.requested.contains(*name));
        let others = waiting.filter(|name| !self.claims.contains_key(name.as_str()) && !before.contains(name.as_str()));
        let others = others.filter_map(|name| self.snapshot.nodes.get(name)).take(room - self.next.len());
        let joining: Vec<_> = others.map(|facts| self.pending(facts)).collect();
        self.is_refilled = !joining.is_empty();
        self.next.extend(joining);
    }

    /// The names of those in line.
    fn in_line(&self) -> impl Iterator<Item = &'a str> {
        self.next.iter().filter_map(|open| open.facts).map(|facts| facts.name.as_str())
    }

    /// A new claim for a node, whose patch has not been sent yet.
    fn pending(&self, facts: &'a NodeFacts) -> OpenClaim<'a> {
        OpenClaim { claim: Cow::Owned(self.claim(facts)), stand: Stand::Pending, facts: Some(facts) }
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
            |facts: &NodeFacts| !nothing_is_wanted && !self.unwanted.contains(&facts.name) && self.wants(facts);
        let pending = self.claims.values().filter(|open| open.stand == Stand::Pending).filter_map(|open| open.facts);
        let pending = pending.filter(|facts| !is_wanted(facts));
        let in_line = self.next.iter().filter_map(|open| open.facts);
        let in_line = in_line.filter(|facts| self.dissolves || !is_wanted(facts));
        let fences = pending
            .chain(in_line)
            .map(|facts| Action::Fence { node: facts.name.clone(), resource_version: facts.resource_version.clone() });
        self.fences = fences.collect();
    }

    /// Whether a node wants the target and may have it.
    fn wants(&self, facts: &NodeFacts) -> bool {
        let is_unfit = || self.snapshot.nodes.index().unfit.contains(&facts.name);
        let is_held = || facts.hold.is_some() || self.requested.contains(&facts.name) || is_unfit();
        !self.snapshot.nodes.goal().is_desired_by(facts) && !is_held() && !facts.is_foreign_and_working()
    }

    /// Tells a person that their choice of a node's config is being put back.
    fn note_hand_set(&mut self, facts: &NodeFacts) {
        let Some(desired) = &facts.desired else { return };
        let claimed = self.claims.get(facts.name.as_str()).is_some_and(|open| open.claim.config == *desired);
        let earlier = |config: Option<&String>| config == Some(desired);
        let status = self.snapshot.pool.status.configuration.as_ref().and_then(|status| status.name.as_ref());
        let ledger = self.snapshot.ledger.spec.target.as_ref().map(|target| &target.config);
        if claimed || earlier(facts.current.as_ref()) || earlier(status) || earlier(ledger) {
            return;
        }
        let (node, target, desired) = (&facts.name, self.snapshot.pool.target(), cut(desired, 100));
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
    fn target(&mut self, facts: &'a NodeFacts) {
        let config = self.snapshot.pool.target();
        let version = &facts.resource_version;
        let is_same = |claim: &Claim| {
            claim.config == config && claim.node_resource_version.as_deref() == Some(version.text.as_str())
        };
        if !self.claims.get(facts.name.as_str()).is_some_and(|open| is_same(&open.claim)) {
            self.claims.insert(&facts.name, self.pending(facts));
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
            instead_of: self.busy_with(facts),
            since: Some(Time(self.snapshot.now)),
        }
    }

    /// What keeps a node busy before it is asked. One that runs the target already, and not well, is busy with that.
    fn busy_with(&self, facts: &NodeFacts) -> Option<String> {
        let runs_it = facts.current.as_deref() == Some(self.snapshot.pool.target());
        let asked = facts.desired.as_ref().filter(|_| facts.is_in_motion());
        asked.or(facts.current.as_ref().filter(|_| runs_it)).cloned()
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
        } else if let Some(why) = status::unfit(self.snapshot) {
            Waiting::Unfit { nodes: index.unfit.len(), why }
        } else if !index.held.is_empty() {
            Waiting::Held { nodes: index.held.len() }
        } else {
            Waiting::Settled
        }
    }

    fn finish(mut self) -> (Vec<Action>, Vec<Event>) {
        let ledger = &self.snapshot.ledger;
        let is_new = |open: &OpenClaim<'_>| matches!(open.claim, Cow::Owned(_));
        let said = if self.claims.values().any(is_new) { ledger.by_node() } else { HashMap::new() };
        let says = |open: &OpenClaim<'_>| match &open.claim {
            Cow::Borrowed(_) => true,
            Cow::Owned(claim) => said.get(claim.node.as_str()) == Some(&claim),
        };
        // What the ledger says already is not kept waiting for the next write of it.
        let is_known = |target: &Target| self.claims.get(target.node.as_str()).is_some_and(says);
        let (known, new): (Vec<_>, Vec<_>) = std::mem::take(&mut self.targets).into_iter().partition(is_known);
        let targeted_nodes: Vec<String> = known.iter().chain(&new).map(|target| target.node.clone()).collect();
        let mut actions: Vec<_> = known.into_iter().map(Action::Target).collect();
        if self.is_worth_a_write(says) {
            self.spec.claims = self.claims.into_values().map(|open| open.claim.into_owned()).collect();
            self.spec.next = self.next.into_iter().map(|open| open.claim.into_owned()).collect();
            // Those in line get what the pool wants when their turn comes.
            self.spec.next.iter_mut().for_each(|one| self.snapshot.pool.target().clone_into(&mut one.config));
            self.spec.budget = i32::try_from(self.spending.limit).ok();
            self.spec.holder = Some(self.snapshot.settings.holder.clone()).filter(|holder| !holder.is_empty());
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
        actions.extend(self.holds);
        (actions, self.events)
    }

    /// A ledger is long, so it is written for what others must know, and not to strike out each share that is given back:
    /// anyone can see that on the node. The budget alone is no reason either: it follows the number of nodes.
    fn is_worth_a_write(&self, says: impl Fn(&OpenClaim<'_>) -> bool) -> bool {
        let old = &self.snapshot.ledger.spec;
        let is_over = self.claims.is_empty() && self.next.is_empty();
        // Of a node that was busy when it was claimed nobody could tell later that it had been through.
        let must_go = |claim: &Claim| claim.instead_of.is_some() && !self.claims.contains_key(claim.node.as_str());
        (&old.target, &old.held, old.etcd_members) != (&self.spec.target, &self.spec.held, self.spec.etcd_members)
            || self.claims.values().any(|open| !says(open))
            || self.is_refilled
            || old.claims.iter().any(must_go)
            || (is_over && !(old.claims.is_empty() && old.next.is_empty()))
    }
}

/// What the ledger shall record of etcd: no fewer members than before, unless somebody else counts them.
fn etcd_members(snapshot: &Snapshot) -> Option<i32> {
    let recorded = snapshot.ledger.spec.etcd_members;
    if !control_plane::is_control_plane(&snapshot.pool.name) {
        return recorded;
    }
    let Ok(seen) = snapshot.etcd.fresh("pods of etcd", snapshot.now) else { return recorded };
    let members = i32::try_from(control_plane::members(&seen, recorded)).unwrap_or(i32::MAX);
    // A number that somebody has set to none stays.
    if members == 0 { recorded } else { Some(members) }
}

fn targeted(message: String) -> Event {
    Event { about: About::Pool, warning: false, reason: "SetDesiredConfig", message }
}
