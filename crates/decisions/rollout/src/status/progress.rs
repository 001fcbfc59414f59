//! One sentence about how far a rollout is: how many nodes are through, which are in progress, who waits and for what.

use crate::node::{NodeFacts, State};
use crate::plan::Waiting;
use crate::quote::cut;
use crate::snapshot::Snapshot;

/// How many nodes a list names. A status is read by people, and written on every change.
const NAMED: usize = 5;

/// How much is repeated of what people and daemons write, and of what blocks a drain, in characters.
const WORDS: usize = 100;
const BLOCKED: usize = 1_000;

/// The sentence, ready to follow upstream's.
pub(super) fn sentence(snapshot: &Snapshot, waiting: &Waiting) -> String {
    let (nodes, index) = (&snapshot.nodes, snapshot.nodes.index());
    let counts = index.counts;
    let mut parts = vec![format!("{} of {} done", counts.ready, counts.machines)];
    if !index.consuming.is_empty() {
        let named = index.consuming.iter().filter_map(|node| nodes.get(node)).take(NAMED);
        let named: Vec<_> = named.map(|facts| format!("{} ({})", facts.name, doing(facts))).collect();
        parts.push(format!("in progress: {}", list(&named, index.consuming.len())));
    }
    for node in index.drain_blocked.iter().take(NAMED) {
        if let Some(why) = nodes.report(node).and_then(|report| report.drain_blocked.as_ref()) {
            parts.push(format!("drain of {node} blocked: {}", cut(why, BLOCKED)));
        }
    }
    let queue = index.waiting.len();
    if queue > 0 {
        let named: Vec<_> = index.waiting.iter().take(NAMED).map(|place| place.name.clone()).collect();
        parts.push(format!("waiting: {}, because {waiting}", list(&named, queue)));
    } else if let Waiting::Unread(_) = waiting {
        // What is said of the other nodes may be old, so that is said too.
        parts.push(waiting.to_string());
    }
    if !index.held.is_empty() {
        let named = index.held.iter().take(NAMED).filter_map(|node| nodes.get(node));
        let named = named.map(|facts| match facts.hold.as_deref() {
            Some(why) if !why.is_empty() && why != "true" => format!("{} ({})", facts.name, cut(why, WORDS)),
            Some(_) | None => facts.name.clone(),
        });
        parts.push(format!("held: {}", list(&named.collect::<Vec<_>>(), index.held.len())));
    }
    if !index.unfit.is_empty() {
        let named = index.unfit.iter().take(NAMED).filter_map(|node| nodes.get(node));
        let named = named.map(|facts| match nodes.rules().refusal(facts) {
            Some(why) => format!("{} ({})", facts.name, cut(why, WORDS)),
            None => facts.name.clone(),
        });
        parts.push(format!("cannot take it: {}", list(&named.collect::<Vec<_>>(), index.unfit.len())));
    }
    if !index.busy.is_empty() {
        let named: Vec<_> = index.busy.iter().take(NAMED).cloned().collect();
        parts.push(format!("finishing an older target: {}", list(&named, index.busy.len())));
    }
    format!("; {}", parts.join("; "))
}

/// What a node is at, in a word or two.
fn doing(facts: &NodeFacts) -> String {
    let state = match &facts.state {
        State::Unreported => "not reporting",
        State::Done if facts.is_done() => "Done",
        State::Done => "targeted",
        State::Working if facts.is_draining() => "draining",
        State::Working => "Working",
        State::Degraded => "Degraded",
        State::Unreconcilable => "Unreconcilable",
        State::Unknown(word) => &cut(word, WORDS),
    };
    match &facts.unready {
        Some(unready) => format!("{state}, {unready}"),
        None => state.to_owned(),
    }
}

fn list(named: &[String], total: usize) -> String {
    let more = total - named.len().min(total);
    let named = named.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
