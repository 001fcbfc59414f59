//! Nodes that do not answer: they are asked whether they are there, and do not keep a place that others need.
//!
//! A node that is down may be dead, or only its kubelet is. Its daemon shows which by repeating what it was asked; then
//! it gets the newest target like any other node that does not serve. Nothing here decides by time whether a node may be
//! taken: a target is taken back only with the version of the Node that shows it unanswered, and a daemon begins with a
//! write to the same object. Time only says when that is worth a try.

use jiff::SignedDuration;

use super::super::{About, Event, Probe, TakenBack};
use super::{Draft, Waiting};
use crate::ledger::Stand;
use crate::node::{NodeFacts, State};

/// How long a target may stay unanswered while others wait for the place. Daemons answer within seconds; longer means
/// that there is none, or that it cannot reach the API.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// How many nodes one plan asks at most.
const AT_ONCE: usize = 25;

impl Draft<'_> {
    /// Asks nodes that are down whether they are there, once for each target.
    pub(super) fn probe(&mut self) {
        let goal = self.snapshot.pool.target();
        let silent = self.snapshot.nodes.index().silent.iter();
        let silent = silent.filter(|node| self.lacks_place(node));
        let silent = silent.filter_map(|node| self.snapshot.nodes.get(node));
        let unasked = silent.filter(|facts| facts.answered.is_some() && !facts.was_asked_for(goal));
        self.probes = unasked.take(AT_ONCE).map(|facts| probe(facts, goal, None)).collect();
    }

    /// Takes targets back that nobody answers, when others wait. Says when to look again.
    pub(super) fn take_back(&mut self) -> Option<SignedDuration> {
        let others_wait = matches!(self.blocked, Some(Waiting::Budget { .. }));
        if !others_wait || self.snapshot.nodes.goal().layering.is_some() {
            return None;
        }
        let goal = self.snapshot.pool.target();
        let mut next: Option<SignedDuration> = None;
        for open in self.claims.values() {
            let Some(facts) = open.facts else { continue };
            if !matches!(open.stand, Stand::Taken | Stand::Loose) || !may_be_taken_back(facts) {
                continue;
            }
            let since = open.claim.since.as_ref().map_or(self.snapshot.now, |since| since.0);
            let passed = self.snapshot.now.duration_since(since);
            // A time that is further ahead was written by a clock that is wrong. It must not stop us until that clock is right.
            let left = if passed < -PATIENCE { SignedDuration::ZERO } else { PATIENCE - passed };
            if left.is_positive() {
                next = Some(next.map_or(left, |next| next.min(left)));
            } else {
                let taken_back = TakenBack { config: facts.current.clone() };
                self.probes.push(probe(facts, goal, Some(taken_back)));
                self.events.push(taken_back_event(&facts.name, goal));
            }
        }
        next
    }
}

/// Whether nothing has begun on a node, and nothing can begin without a write that a newer version of it would show.
fn may_be_taken_back(facts: &NodeFacts) -> bool {
    let is_ours = facts.ours && (facts.answered.is_some() || !facts.is_running());
    let is_unheard = !facts.ours && facts.state == State::Unreported;
    facts.is_unanswered() && (is_ours || is_unheard)
}

fn taken_back_event(node: &str, goal: &str) -> Event {
    Event {
        about: About::Node(node.to_owned()),
        warning: true,
        reason: "TargetUnanswered",
        message: format!(
            "The daemon of node {node} has not begun {goal}, and other nodes wait for their turn: the target is taken \
             back until the daemon answers. See whether it runs on the node and reaches the API"
        ),
    }
}

fn probe(facts: &NodeFacts, goal: &str, takes_back: Option<TakenBack>) -> Probe {
    Probe {
        node: facts.name.clone(),
        resource_version: facts.resource_version.clone(),
        // A daemon that does not know of probes would be waited for in vain.
        question: (facts.answered.is_some() || !facts.ours).then(|| facts.question(goal)),
        takes_back,
    }
}
