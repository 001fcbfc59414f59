//! Nodes that a person sends to an older config by hand.
//!
//! The request is honoured: the node goes there like any node that is on its way without a claim, within budget and drain,
//! and a recorded hold keeps it there. Only that annotation holds it, so taking it off lets the node go. A config that the
//! pool never rendered is no request; it is put back.

use super::{About, Action, Draft, Event};
use crate::node::NodeFacts;
use crate::quote::cut;

impl Draft<'_> {
    /// Whether a person has set a config as the node's target that this pool once rendered.
    pub(super) fn is_requested(&self, facts: &NodeFacts) -> bool {
        let is_rendered = facts.desired.as_ref().is_some_and(|config| self.snapshot.rendered.contains(config));
        is_rendered && facts.is_hand_set()
    }

    /// Records a hold on each node that a person has set another target for.
    pub(super) fn hold_requested(&mut self) {
        let nodes = &self.snapshot.nodes;
        for facts in nodes.index().hand_set.iter().filter_map(|node| nodes.get(node)) {
            let (Some(writer), Some(config), true) = (&facts.set_by, &facts.desired, self.is_requested(facts)) else {
                continue;
            };
            let (node, manager) = (&facts.name, cut(&writer.manager, 100));
            let when = writer.at.map(|at| format!(" at {at}")).unwrap_or_default();
            self.holds.push(Action::Hold {
                node: node.clone(),
                resource_version: facts.resource_version.clone(),
                value: format!("{manager} set desiredConfig to {config}{when}"),
                config: config.clone(),
            });
            self.events.push(Event {
                about: About::Node(node.clone()),
                warning: false,
                reason: "DesiredConfigHeld",
                message: format!(
                    "desiredConfig of node {node} was set to {config} by {manager}: the node goes there within the budget \
                     of its pool and stays there. Take the annotation machinist.dev/hold off to let it follow its pool \
                     again"
                ),
            });
        }
    }
}
