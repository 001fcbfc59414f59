//! Which nodes that are not well, or are on their way already, get a place.
//!
//! A node that holds a place keeps it until it is through, and always gets the newest target, so that reverting a bad
//! config heals the nodes it broke. Every other node needs a free place. One that does not serve needs nothing more:
//! unavailable nodes hold up those that are well, never each other. One that serves is taken only while fewer nodes are
//! away than the limit, whatever its annotations say.

use std::borrow::Cow;

use api::machinist::Claim;

use super::{Draft, Waiting};
use crate::control_plane;
use crate::ledger::{OpenClaim, Stand};
use crate::node::{NodeFacts, ResourceVersion, State};
use crate::order::Place;
use crate::snapshot::Snapshot;

/// Whether there is room for more nodes than the one that was just looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    None,
}

impl<'a> Draft<'a> {
    /// Nodes that were claimed and whose patch has not been seen to land: it is sent again. When the limit has become
    /// smaller meanwhile, others have become unavailable or etcd needs the node by now, some are let go instead.
    pub(super) fn retarget_claimed(&mut self) {
        let limit = self.spending.limit;
        let mut crowd = self.claims.len().saturating_sub(limit);
        let mut excess = self.spending.used.saturating_sub(limit);
        let mut missing = self.away.saturating_sub(limit);
        // Our view may be too old to tell which of them have landed, so none is sent before the others are let go.
        let (is_crowded, is_over, is_short) = (crowd > 0, excess > 0, missing > 0);
        for facts in self.claimed(Stand::Pending) {
            if !self.wants(facts) {
                continue;
            }
            let is_well = !facts.consumes_budget();
            // One that is not well may serve all the same, for example before its first config.
            let is_spared = !is_well && self.is_spared(facts);
            let is_one_too_many = is_crowded || (is_over && is_well) || (is_short && is_spared);
            if !is_one_too_many {
                if self.keeps_quorum(facts) {
                    self.target(facts);
                } else {
                    self.unwanted.insert(facts.name.clone());
                }
            } else if crowd > 0 || (is_well && excess > 0) || (is_spared && missing > 0) {
                crowd = crowd.saturating_sub(1);
                excess = excess.saturating_sub(usize::from(is_well));
                missing = missing.saturating_sub(usize::from(facts.is_serving()));
                self.unwanted.insert(facts.name.clone());
            }
        }
    }

    /// Whether taking a node away costs its pool a node that serves. What it runs already takes nothing away from it, and
    /// one that fails at its target is healed by the newest: it does not wait for nodes that are dead.
    fn is_spared(&self, facts: &NodeFacts) -> bool {
        let goes_home = facts.current.as_deref() == Some(self.snapshot.pool.target());
        facts.is_serving() && !facts.is_at_work() && !goes_home && !facts.waits_for_a_fix()
    }

    /// Nodes that were asked and have not finished: the newest target costs nothing more. When the limit has become smaller
    /// meanwhile, there may be too many of them, or too many others may have become unavailable. Then one that works and was
    /// not emptied goes on with the target that it has, as does one that has not begun. Those that failed are taken again
    /// only while fewer than the limit are at it. Those that try again by themselves do not wait for nodes that were led
    /// astray and still serve, which wait for them.
    pub(super) fn retarget_taken(&mut self) {
        let limit = self.spending.limit;
        let is_crowded = self.claims.len() > limit;
        let is_failing = |facts: &&NodeFacts| is_crowded && self.waits_for_a_fix(facts);
        let (failing, taken): (Vec<_>, Vec<_>) = self.claimed(Stand::Taken).into_iter().partition(is_failing);
        let (mut given_up, mut retrying): (Vec<_>, Vec<_>) =
            failing.into_iter().partition(|facts: &&NodeFacts| facts.has_given_up());
        // One that tries again from time to time is away while it does.
        let busy = self.claims.len() - given_up.len();
        for facts in taken {
            if !self.wants(facts) {
                continue;
            }
            // Overwriting the state of a working daemon does not make it rest.
            let works = matches!(facts.state, State::Working | State::Unknown(_));
            let is_away = facts.is_at_work() || facts.drain_started.is_some();
            // One that reports a fault and has nothing to do was given back already: it serves, like any other.
            let is_idle = !facts.is_in_motion();
            let is_needed = self.away > limit && facts.is_serving();
            let is_early = (works && ((busy > limit && !is_away) || is_needed)) || (is_idle && is_needed);
            let begins = is_early || (is_crowded && facts.is_unanswered());
            if !begins && self.keeps_quorum(facts) {
                self.target(facts);
            }
        }
        // What the one that was claimed last reports may still be about its target before that. So it comes last of those
        // that go on by themselves, and first of those that do not.
        retrying.sort_by_key(|facts| self.claimed_at(&facts.name));
        given_up.sort_by_key(|facts| std::cmp::Reverse(self.claimed_at(&facts.name)));
        let astray = self.claimed(Stand::Loose).iter().filter(|facts| !facts.is_kept_empty()).count();
        self.retarget_failed(&retrying, busy - retrying.len() - astray);
        self.retarget_failed(&given_up, busy);
    }

    /// Gives nodes that failed the newest target while fewer than the limit are at it.
    fn retarget_failed(&mut self, nodes: &[&'a NodeFacts], mut busy: usize) {
        let limit = self.spending.limit;
        for facts in nodes {
            if !self.wants(facts) || !facts.is_running() {
                continue;
            }
            if busy >= limit {
                self.blocked.get_or_insert(Waiting::Budget { limit, used: busy });
            } else if self.keeps_quorum(facts) {
                busy += 1;
                self.target(facts);
            }
        }
    }

    /// Lets nodes be emptied that hold a place and ask for that with an older target: a daemon that is not ours looks at its
    /// target only when it has finished, so it would wait for ever.
    pub(super) fn let_drain(&mut self) {
        for facts in self.claimed(Stand::Taken) {
            if facts.ours || !facts.is_draining() {
                continue;
            }
            let node = facts.name.as_str();
            let asked = facts.drains_for();
            let is_covered =
                |claim: &Claim| asked == Some(claim.config.as_str()) || asked == claim.instead_of.as_deref();
            let is_known = self.claims.get(node).is_none_or(|open| is_covered(&open.claim));
            if !is_known
                && self.keeps_quorum(facts)
                && let Some(open) = self.claims.get_mut(node)
            {
                open.claim.to_mut().instead_of = asked.map(str::to_owned);
            }
        }
    }

    /// Whether a claimed node has failed at an older target and serves. What it says about the newest one may still be about
    /// the one before.
    fn waits_for_a_fix(&self, facts: &NodeFacts) -> bool {
        self.wants(facts) && facts.waits_for_a_fix()
    }

    /// The version of the node that its claim names.
    fn claimed_at(&self, node: &str) -> u64 {
        let version = self.claims.get(node).and_then(|open| open.claim.node_resource_version.as_deref());
        ResourceVersion::number_of(version.unwrap_or_default())
    }

    /// The nodes whose claims stand like this, by name. A claim of a node that we do not see stands ahead or is over.
    fn claimed(&self, wanted: Stand) -> Vec<&'a NodeFacts> {
        let claims = self.claims.values().filter(|open| open.stand == wanted);
        claims.filter_map(|open| open.facts).collect()
    }

    /// Nodes that are on their way although no claim of ours sent them: a person set their target, or another controller
    /// did before us. They come first, because they may be gone at any moment, and they are emptied only once they have
    /// a place.
    pub(super) fn place_moving(&mut self) {
        for facts in self.moving_without_place() {
            if self.wants(facts) {
                self.place(facts);
            } else {
                self.claim_as_it_is(facts);
            }
        }
    }

    /// The same while nobody is to get a target: they only take their places.
    pub(super) fn claim_moving(&mut self) {
        for facts in self.moving_without_place() {
            self.claim_as_it_is(facts);
        }
    }

    /// Nodes that do not serve, and then those that serve although something is wrong with them.
    pub(super) fn place_others(&mut self) {
        let nodes = &self.snapshot.nodes;
        let mut astray = self.claimed(Stand::Loose);
        let is_candidate = |facts: &&NodeFacts| {
            let place = Place::of(facts);
            nodes.index().away.contains(&place) || nodes.index().impaired.contains(&place)
        };
        astray.retain(is_candidate);
        for facts in astray {
            self.place(facts);
        }
        for candidates in [&nodes.index().away, &nodes.index().impaired] {
            for facts in candidates.iter().filter_map(|place| nodes.get(&place.name)) {
                // Where one finds no room, neither do the others.
                if !self.claims.contains_key(facts.name.as_str()) && self.place(facts) == Room::None {
                    break;
                }
            }
        }
    }

    fn place(&mut self, facts: &'a NodeFacts) -> Room {
        if !self.lacks_place(&facts.name) || self.requested.contains(&facts.name) {
            return Room::Enough;
        }
        if !self.has_place_for(facts) {
            return Room::None;
        }
        if !self.waits_for_others(facts) {
            self.take(facts);
        }
        Room::Enough
    }

    /// Both are sorted by name, so that nearly all of a large pool's nodes on their way are found without a search.
    fn moving_without_place(&self) -> Vec<&'a NodeFacts> {
        let nodes = &self.snapshot.nodes;
        let mut placed = self.claims.iter().filter(|(_, open)| open.stand != Stand::Loose).map(|(node, _)| *node);
        let mut next = placed.next();
        let mut lacks_place = |node: &&String| {
            while next.is_some_and(|placed| placed < node.as_str()) {
                next = placed.next();
            }
            next != Some(node.as_str())
        };
        let moving = nodes.index().moving.iter().filter(&mut lacks_place);
        moving.filter_map(|node| nodes.get(node)).collect()
    }

    /// Whether a node has no claim that it could be asked on.
    pub(super) fn lacks_place(&self, node: &str) -> bool {
        self.claims.get(node).is_none_or(|open| open.stand == Stand::Loose)
    }

    /// Claims a node for what it is doing already.
    fn claim_as_it_is(&mut self, facts: &'a NodeFacts) {
        let config = facts.desired.clone().unwrap_or_default();
        // A daemon that does not look at its target while it works may ask to be emptied for an older one.
        let asked = facts.drains_for();
        let busy_with = asked.map(str::to_owned).or(facts.desired.clone());
        let is_same = |claim: &Claim| {
            let is_asked = |asked| asked == claim.config && facts.set_by.is_none();
            let lets_drain = |asked| is_asked(asked) || Some(asked) == claim.instead_of.as_deref();
            claim.config == config && asked.is_none_or(lets_drain)
        };
        let is_known = self.claims.get(facts.name.as_str()).is_some_and(|open| is_same(&open.claim));
        if !is_known && self.has_place_for(facts) && self.keeps_quorum(facts) {
            self.count(facts);
            // No patch depends on this claim: the node has moved on from the version before the one that we see. Who sees
            // an older one still learns that its view is too old to judge.
            let before = facts.resource_version.number.saturating_sub(1).to_string();
            let claim =
                Claim { config, node_resource_version: Some(before), instead_of: busy_with, ..self.claim(facts) };
            let open = OpenClaim { claim: Cow::Owned(claim), stand: Stand::Taken, facts: Some(facts) };
            self.claims.insert(&facts.name, open);
        }
    }

    /// Claims a node that has a place, and gives it the target.
    fn take(&mut self, facts: &'a NodeFacts) {
        self.note_hand_set(facts);
        self.count(facts);
        self.target(facts);
    }

    fn count(&mut self, facts: &NodeFacts) {
        let is_new = facts.is_serving() && !self.claims.contains_key(facts.name.as_str());
        self.away += usize::from(is_new);
    }

    /// Whether there is a place for a node that is not simply the next one in its turn.
    fn has_place_for(&mut self, facts: &NodeFacts) -> bool {
        let limit = self.spending.limit;
        let is_claimed = self.claims.contains_key(facts.name.as_str());
        let places = if is_claimed {
            // One that is kept empty costs nothing more: it waits neither for others that were led astray nor for those that
            // failed. One that serves waits for all but those that gave up, which wait for it.
            let others = self.claims.iter().filter(|(node, _)| **node != facts.name).map(|(_, open)| open);
            let is_at_it = |open: &&OpenClaim<'_>| match (open.stand, open.facts) {
                (Stand::Over, _) => false,
                (Stand::Loose, other) => !facts.is_kept_empty() && other.is_none_or(NodeFacts::is_kept_empty),
                (Stand::Taken, Some(other)) if self.waits_for_a_fix(other) => {
                    !facts.is_kept_empty() && !other.has_given_up()
                }
                (Stand::Taken, _) => true,
                (Stand::Pending | Stand::Ahead, _) => true,
            };
            others.filter(is_at_it).count()
        } else {
            self.claims.len() + self.working_without_place(facts)
        };
        // A claimed node that is not on its way serves like any other, though its claim counts it as away.
        let is_spared = (!is_claimed || !facts.is_in_motion()) && self.is_spared(facts);
        let away = if is_spared { self.away - usize::from(is_claimed) } else { 0 };
        // Those in line may be targeted by anyone at any moment, so there is no place before they were fenced off.
        let is_free = self.next.is_empty() && places < limit && away < limit;
        if !is_free {
            self.dissolves = true;
            self.blocked.get_or_insert(Waiting::Budget { limit, used: places.max(away) });
        }
        is_free
    }

    /// Nodes that are being changed without a place, as far as this one has to wait for them. They get none while the limit
    /// is away, because they serve and may ask to be emptied. Nor may others take it, until they have finished or asked.
    fn working_without_place(&self, facts: &NodeFacts) -> usize {
        if facts.works_undrained() {
            return 0;
        }
        let nodes = &self.snapshot.nodes;
        let others =
            nodes.index().moving.iter().filter(|node| **node != facts.name && !self.claims.contains_key(node.as_str()));
        others.filter_map(|node| nodes.get(node)).filter(|other| other.works_undrained()).count()
    }

    pub(super) fn waits_for_others(&mut self, facts: &NodeFacts) -> bool {
        if let Some(peer) = self.snapshot.peer.as_ref().filter(|peer| peer.blocks(&self.snapshot.pool.name)) {
            self.blocked = Some(Waiting::Peer { pool: peer.pool.clone() });
            return true;
        }
        !self.keeps_quorum(facts)
    }

    /// Whether a node of the control plane may be changed now: no other one is, and etcd can spare it. Cordoned or
    /// degraded, it still runs the control plane; only one that is at work already has nothing to lose.
    fn keeps_quorum(&mut self, facts: &NodeFacts) -> bool {
        if facts.is_at_work() || !control_plane::is_control_plane(&self.snapshot.pool.name) {
            return true;
        }
        let others = self.snapshot.nodes.iter().filter(|other| other.name != facts.name && facts.is_running());
        let moving = others.filter(|other| self.is_in_the_way(other, facts)).count();
        let blocked = if moving > 0 {
            Some(Waiting::Budget { limit: self.spending.limit, used: moving })
        } else {
            match self.snapshot.etcd.fresh("pods of etcd", self.snapshot.now) {
                Ok(members) => {
                    let Snapshot { ledger, nodes, .. } = self.snapshot;
                    let keeps = control_plane::keeps_quorum(members, ledger.spec.etcd_members, nodes, &facts.name);
                    (!keeps).then(|| Waiting::Quorum {
                        node: facts.name.clone(),
                        pool: self.snapshot.pool.name.clone(),
                        members: control_plane::members(&members, ledger.spec.etcd_members),
                        seen: members.len(),
                    })
                }
                Err(unread) => Some(Waiting::Unread(unread)),
            }
        };
        let keeps = blocked.is_none();
        self.blocked = blocked.or(self.blocked.take());
        keeps
    }

    /// Whether another node of the control plane is off, or is or will be changed. Of two that are on their way without
    /// a place neither waits for the other: one of them has to get it first. One that reports a fault does not wait for one
    /// that is off, which may be for ever: only the quorum decides whether it can be healed.
    fn is_in_the_way(&self, other: &NodeFacts, facts: &NodeFacts) -> bool {
        let is_moving = other.is_in_motion() && !facts.is_in_motion();
        let is_off = !other.is_running() && !facts.is_degraded();
        self.claims.contains_key(other.name.as_str()) || is_off || is_moving
    }
}
