//! What nodes went through, as far as it was seen: the bars of a rollout's picture.
//!
//! It is a record of looks and decides nothing. It is bounded: old rollouts and the nodes of very large ones are let go.

use std::collections::{BTreeMap, VecDeque};

use explain::{Input, Phase, Snapshot};
use jiff::{SignedDuration, Timestamp};

/// Rollouts of one pool that are remembered.
const ROLLOUTS: usize = 5;

/// Nodes of one rollout that get a bar; a screen has no room for more.
const NODES: usize = 500;

/// Phases of one node that are remembered; a node that fails and tries for days has more.
const SEGMENTS: usize = 100;

/// The rollouts of every pool, newest last.
#[derive(Default)]
pub(crate) struct Timeline {
    pools: BTreeMap<String, VecDeque<Rollout>>,
}

/// A pool on its way to one config.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rollout {
    pub(crate) target: String,
    /// The last config that every node of the pool had.
    pub(crate) from: Option<String>,
    pub(crate) began: Timestamp,
    /// When it was first looked at.
    pub(crate) seen: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) nodes: BTreeMap<String, Vec<Segment>>,
    /// Nodes that reached the target while we looked.
    pub(crate) done: usize,
    pub(crate) left: usize,
}

/// A node in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segment {
    pub(crate) phase: Phase,
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
}

impl Timeline {
    /// Notes what a look has seen.
    pub(crate) fn observe(&mut self, snapshot: &Snapshot) {
        // Where nodes or pools were not read, nothing is known to have ended.
        if [Input::Pools, Input::Nodes].into_iter().any(|input| snapshot.unread.why(input).is_some()) {
            return;
        }
        self.pools.retain(|pool, _| snapshot.pools.contains_key(pool));
        for (name, pool) in &snapshot.pools {
            if pool.target.is_empty() {
                continue;
            }
            let rollouts = self.pools.entry(name.clone()).or_default();
            let arrived = |node: &explain::NodeFacts| node.done && node.current.as_deref() == Some(&pool.target);
            let (mut left, mut count) = (0, 0);
            for node in snapshot.nodes_of(name) {
                count += 1;
                left += usize::from(!arrived(node) || Phase::of(node) != Phase::Resting);
            }
            if rollouts.back().is_none_or(|last| last.target != pool.target || last.ended.is_some()) {
                if left == 0 {
                    continue;
                }
                if let Some(last) = rollouts.back_mut().filter(|last| last.ended.is_none()) {
                    last.end(snapshot.now);
                }
                rollouts.push_back(Rollout {
                    target: pool.target.clone(),
                    from: pool.last_good.clone().filter(|last| *last != pool.target),
                    began: pool.target_since.unwrap_or(snapshot.now).min(snapshot.now),
                    seen: snapshot.now,
                    ended: None,
                    nodes: BTreeMap::new(),
                    done: count - left,
                    left,
                });
                while rollouts.len() > ROLLOUTS {
                    rollouts.pop_front();
                }
            }
            let Some(rollout) = rollouts.back_mut() else { continue };
            (rollout.done, rollout.left) = (count - left, left);
            for node in snapshot.nodes_of(name) {
                rollout.note(&node.name, Phase::of(node), snapshot.now);
            }
            if left == 0 {
                rollout.end(snapshot.now);
            }
        }
    }

    /// The rollouts of a pool, newest first.
    pub(crate) fn of(&self, pool: &str) -> Vec<Rollout> {
        self.pools.get(pool).map(|all| all.iter().rev().cloned().collect()).unwrap_or_default()
    }
}

impl Rollout {
    fn note(&mut self, node: &str, phase: Phase, now: Timestamp) {
        if let Some(segments) = self.nodes.get_mut(node) {
            match segments.last_mut() {
                Some(last) if last.phase == phase && last.to.is_none() => return,
                Some(last) => last.to = last.to.or(Some(now)),
                None => {}
            }
            if phase != Phase::Resting && segments.len() < SEGMENTS {
                segments.push(Segment { phase, from: now, to: None });
            }
        } else if !matches!(phase, Phase::Resting | Phase::Waiting) && self.nodes.len() < NODES {
            self.nodes.insert(node.to_owned(), vec![Segment { phase, from: now, to: None }]);
        }
    }

    /// Leaves out what only the pool's ledger says.
    pub(crate) fn forget_ledger(&mut self) {
        self.began = self.seen;
    }

    fn end(&mut self, now: Timestamp) {
        self.ended = Some(now);
        for segment in self.nodes.values_mut().filter_map(|segments| segments.last_mut()) {
            segment.to = segment.to.or(Some(now));
        }
    }

    /// How much longer it takes at the pace of the nodes that were seen to arrive, if any were.
    pub(crate) fn forecast(&self, now: Timestamp) -> Option<SignedDuration> {
        let through = self.nodes.values().filter(|all| all.last().is_some_and(|last| last.to.is_some()));
        let seen = i32::try_from(through.count()).ok().filter(|seen| *seen > 0)?;
        let first = self.nodes.values().filter_map(|all| Some(all.first()?.from)).min()?;
        let left = i32::try_from(self.left).ok()?;
        (self.ended.is_none() && left > 0).then(|| now.duration_since(first) * left / seen)
    }
}

#[cfg(test)]
mod tests {
    use api::names::state;
    use explain::{Member, NodeFacts, PoolFacts};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("it is small")
    }

    fn snapshot(now: i64, target: &str, nodes: &[(&str, &str, &str)]) -> Snapshot {
        let pool = PoolFacts { name: "worker".to_owned(), target: target.to_owned(), ..PoolFacts::default() };
        let nodes = nodes.iter().map(|(name, current, state)| {
            let facts = NodeFacts {
                name: (*name).to_owned(),
                member: Member::Pool("worker".to_owned()),
                current: Some((*current).to_owned()),
                desired: Some(if *state == state::DONE { *current } else { target }.to_owned()),
                state: (*state).to_owned(),
                done: *state == state::DONE,
                ..NodeFacts::default()
            };
            ((*name).to_owned(), facts)
        });
        let nodes = nodes.collect();
        let mut snapshot = Snapshot::from_objects(&explain::Objects::default(), at(now));
        snapshot.pools.insert("worker".to_owned(), pool);
        snapshot.nodes = nodes;
        snapshot
    }

    #[test]
    fn a_rollout_is_remembered_from_its_first_node_to_its_last() {
        let mut timeline = Timeline::default();
        timeline.observe(&snapshot(0, "v1", &[("a", "v1", "Done"), ("b", "v1", "Done")]));
        assert!(timeline.of("worker").is_empty(), "nothing moves");
        timeline.observe(&snapshot(10, "v2", &[("a", "v1", "Working"), ("b", "v1", "Done")]));
        timeline.observe(&snapshot(20, "v2", &[("a", "v2", "Done"), ("b", "v1", "Working")]));
        let [running] = &timeline.of("worker")[..] else { panic!("there is one rollout") };
        assert_eq!((running.done, running.left, running.ended), (1, 1, None));
        assert_eq!(running.nodes["a"], [Segment { phase: Phase::Writing, from: at(10), to: Some(at(20)) }]);
        assert_eq!(running.forecast(at(20)), Some(SignedDuration::from_secs(10)), "one in ten seconds, one is left");
        timeline.observe(&snapshot(30, "v2", &[("a", "v2", "Done"), ("b", "v2", "Done")]));
        let [ended] = &timeline.of("worker")[..] else { panic!("there is one rollout") };
        assert_eq!((ended.ended, ended.forecast(at(40))), (Some(at(30)), None));
        assert_eq!(ended.nodes["b"], [Segment { phase: Phase::Writing, from: at(20), to: Some(at(30)) }]);
    }

    #[test]
    fn a_new_target_ends_the_rollout_before_it_and_old_ones_are_let_go() {
        let mut timeline = Timeline::default();
        for round in 0..8 {
            let target = format!("v{round}");
            timeline.observe(&snapshot(round, &target, &[("a", "v", "Working")]));
        }
        let all = timeline.of("worker");
        assert_eq!(all.iter().map(|it| it.target.as_str()).collect::<Vec<_>>(), ["v7", "v6", "v5", "v4", "v3"]);
        assert!(all[0].ended.is_none() && all[1..].iter().all(|it| it.ended.is_some()));
    }
}
