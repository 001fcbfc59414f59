//! Nodes whose target a person sets by hand.
//!
//! The pool's own target is obeyed once: it is noted as answered, so that the node follows its pool's next target. An older
//! config of the pool is obeyed too: the node goes there like any node that is on its way without a claim, within budget and
//! drain, and a recorded hold keeps it there. Only that annotation holds it, so taking it off lets the node go. A config
//! that the pool never rendered is no request; it is put back.

use std::collections::BTreeSet;

use api::machinist::Target;

use super::{About, Action, Draft, Event};
use crate::node::NodeFacts;
use crate::quote::cut;
use crate::snapshot::Snapshot;

/// Nodes that a person has sent to an older config of this pool.
pub(super) fn of(snapshot: &Snapshot) -> BTreeSet<String> {
    let hand_set = snapshot.nodes.index().hand_set.iter();
    let requested = hand_set.filter(|node| snapshot.nodes.get(node).is_some_and(|facts| is_request(snapshot, facts)));
    requested.cloned().collect()
}

/// Whether a person wants something else than the pool does. What was set before the pool had its present target was about
/// an earlier one, and says nothing about this one. Both times are the API server's: the clock of a controller may differ
/// from it by more than lies between the two.
fn is_request(snapshot: &Snapshot, facts: &NodeFacts) -> bool {
    let is_rendered = facts.desired.as_ref().is_some_and(|config| snapshot.rendered.contains(config));
    let is_settled = |target: &Target| target.config == snapshot.pool.target();
    let is_settled = snapshot.ledger.spec.target.as_ref().is_some_and(is_settled);
    let set_at = facts.set_by.as_ref().and_then(|writer| writer.at);
    // The API server writes whole seconds.
    let is_later = set_at.zip(snapshot.pool.configured_at).is_some_and(|(set_at, since)| set_at >= since);
    is_rendered && is_settled && is_later && !snapshot.nodes.goal().is_desired_by(facts)
}

impl Draft<'_> {
    /// Notes on each node whose target a person has set that this was seen, and records a hold where it is an older config.
    pub(super) fn answer_people(&mut self) {
        let nodes = &self.snapshot.nodes;
        for facts in nodes.index().hand_set.iter().filter_map(|node| nodes.get(node)) {
            let (Some(writer), Some(config)) = (&facts.set_by, &facts.desired) else { continue };
            let is_requested = self.requested.contains(&facts.name);
            if !is_requested && !nodes.goal().is_desired_by(facts) {
                continue;
            }
            let (node, manager) = (&facts.name, cut(&writer.manager, 100));
            let when = writer.at.map(|at| format!(" at {at}")).unwrap_or_default();
            self.holds.push(Action::Hold {
                node: node.clone(),
                resource_version: facts.resource_version.clone(),
                value: is_requested.then(|| format!("{manager} set desiredConfig to {config}{when}")),
                config: config.clone(),
            });
            if is_requested {
                self.events.push(held(node, config, &manager));
            }
        }
    }
}

fn held(node: &str, config: &str, manager: &str) -> Event {
    Event {
        about: About::Node(node.to_owned()),
        warning: false,
        reason: "DesiredConfigHeld",
        message: format!(
            "desiredConfig of node {node} was set to {config} by {manager}: the node goes there within the budget of its \
             pool and stays there. Take the annotation machinist.dev/hold off to let it follow its pool again"
        ),
    }
}
