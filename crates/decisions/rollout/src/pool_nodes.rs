//! The nodes of one pool, indexed for planning.
//!
//! A node's change is taken in by [`PoolNodes::observe`] at a cost that does not grow with the pool; counts and queues
//! are kept up to date, never computed again. Only a new goal looks at every node once. Reading an index never changes
//! what is decided: a property test holds it against an index that was built from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::goal::Goal;
use crate::node::NodeFacts;
use crate::order::Place;
use crate::report::Report;

/// The nodes of a pool, and where each of them stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolNodes {
    rules: Rules,
    nodes: BTreeMap<String, Entry>,
    index: Index,
    newest: u64,
}

/// What nodes are judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub goal: Goal,
    /// Upstream's gate `ImageModeStatusReporting`: counts come from MachineConfigNodes instead of annotations.
    pub image_mode_status_reporting: bool,
    /// The value that the nodes' annotation `controlPlaneTopology` shall have.
    pub topology: Option<String>,
    pub refusals: Refusals,
}

/// Why hosts cannot take the goal, by what a node runs and how its host updates its operating system.
pub type Refusals = BTreeMap<(String, String), String>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    /// Absent while only the report of the node has been seen. Shared with whoever else holds all nodes in memory.
    facts: Option<Arc<NodeFacts>>,
    report: Report,
    standing: Standing,
}

/// How many nodes stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub machines: usize,
    pub updated: usize,
    pub ready: usize,
    pub unavailable: usize,
    pub images_pinned: usize,
    /// Nodes that do not serve.
    pub away: usize,
}

/// Counts and queues over all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    pub counts: Counts,
    /// Available nodes that want the goal, in the order of their turn.
    pub waiting: BTreeSet<Place>,
    /// Nodes that want the goal and serve, but do not rest at a config: they report a fault, they were asked for something
    /// else, or they never had a config.
    pub impaired: BTreeSet<Place>,
    /// Nodes that want the goal and do not serve, as far as they can be reached.
    pub away: BTreeSet<Place>,
    /// Nodes that want the goal and cannot be reached.
    pub silent: BTreeSet<String>,
    /// Nodes that are being changed or may be at any moment, as far as they can be reached.
    pub moving: BTreeSet<String>,
    /// Nodes that want the goal while a daemon that is not ours works on another.
    pub busy: BTreeSet<String>,
    /// Nodes that want the goal and were pinned by a person.
    pub held: BTreeSet<String>,
    /// Nodes that want the goal and whose hosts cannot take it.
    pub unfit: BTreeSet<String>,
    /// Nodes whose target a person has set, which was not answered yet.
    pub hand_set: BTreeSet<String>,
    /// Nodes that hold a share of the budget by their own state.
    pub consuming: BTreeSet<String>,
    pub degraded: BTreeSet<String>,
    /// Nodes that lack the taint of updates.
    pub taint_missing: BTreeSet<String>,
    /// Nodes that have the taint of updates and are through.
    pub taint_left: BTreeSet<String>,
    pub topology_differs: BTreeSet<String>,
    /// Nodes that reverted a trial of the goal.
    pub reverted: BTreeSet<String>,
    pub drain_blocked: BTreeSet<String>,
    /// Nodes that cannot pull or pin an image that they shall hold.
    pub images_failed: BTreeSet<String>,
}

/// Where one node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    updated: bool,
    ready: bool,
    unavailable: bool,
    images_pinned: bool,
    away: bool,
    moving: bool,
    consuming: bool,
    degraded: bool,
    turn: Turn,
    hand_set: bool,
    taint: TaintWork,
    topology_differs: bool,
    reverted: bool,
    drain_blocked: bool,
    images_failed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    None,
    Waiting,
    Impaired,
    Away,
    Silent,
    Busy,
    Held,
    Unfit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TaintWork {
    #[default]
    None,
    Missing,
    Left,
}

impl Rules {
    /// Why a node's host cannot take the goal. A daemon that says nothing of its host is asked by trying.
    pub fn refusal(&self, facts: &NodeFacts) -> Option<&str> {
        if self.refusals.is_empty() {
            return None;
        }
        let host = (facts.current.clone()?, facts.os_updates.clone()?);
        self.refusals.get(&host).map(String::as_str)
    }
}

impl PoolNodes {
    /// An index without nodes.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Takes in a node as the watch told it: whatever happened before it has been told as well.
    pub fn observe(&mut self, facts: impl Into<Arc<NodeFacts>>) {
        let facts = facts.into();
        self.seen_until(facts.resource_version.number);
        self.observe_answer(facts);
    }

    /// Takes in a node as the answer to a write told it. That runs ahead of the watch and says nothing of other nodes.
    pub fn observe_answer(&mut self, facts: impl Into<Arc<NodeFacts>>) {
        let facts = facts.into();
        let name = facts.name.clone();
        self.change(&name, |entry| entry.facts = Some(facts));
    }

    /// Takes in what a node's MachineConfigNode says now.
    pub fn observe_report(&mut self, node: &str, report: Report) {
        self.change(node, |entry| entry.report = report);
    }

    /// Forgets a node that was deleted or left the pool. That happened after the version that is known of it, so a claim of
    /// that version is over even if no other node ever changes again.
    pub fn forget(&mut self, node: &str) {
        if let Some(version) = self.get(node).map(|facts| facts.resource_version.number) {
            self.seen_until(version + 1);
        }
        self.change(node, |entry| entry.facts = None);
    }

    /// Forgets a MachineConfigNode.
    pub fn forget_report(&mut self, node: &str) {
        self.change(node, |entry| entry.report = Report::default());
    }

    /// Notes that nodes were seen as of this version, so that a node that is missing here is known to be gone.
    pub fn seen_until(&mut self, resource_version: u64) {
        self.newest = self.newest.max(resource_version);
    }

    /// The version up to which all nodes were seen.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Judges by other rules from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        if self.rules == rules {
            return;
        }
        self.rules = rules;
        self.index = Index::default();
        for (name, entry) in &mut self.nodes {
            let Some(facts) = &entry.facts else { continue };
            entry.standing = Standing::of(&self.rules, facts, &entry.report);
            self.index.add(name, facts, &entry.standing);
        }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn goal(&self) -> &Goal {
        &self.rules.goal
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn counts(&self) -> Counts {
        self.index.counts
    }

    pub fn get(&self, node: &str) -> Option<&NodeFacts> {
        self.nodes.get(node)?.facts.as_deref()
    }

    pub fn report(&self, node: &str) -> Option<&Report> {
        self.nodes.get(node).map(|entry| &entry.report)
    }

    /// All nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values().filter_map(|entry| entry.facts.as_deref())
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Entry)) {
        let entry = self.nodes.entry(name.to_owned()).or_default();
        if let Some(facts) = &entry.facts {
            self.index.remove(name, facts, &entry.standing);
        }
        change(entry);
        match &entry.facts {
            Some(facts) => {
                entry.standing = Standing::of(&self.rules, facts, &entry.report);
                self.index.add(name, facts, &entry.standing);
            }
            None if entry.report == Report::default() => {
                self.nodes.remove(name);
            }
            None => entry.standing = Standing::default(),
        }
    }
}

impl Standing {
    fn of(rules: &Rules, facts: &NodeFacts, report: &Report) -> Self {
        let goal = &rules.goal;
        let reached = goal.is_reached_by(facts);
        let wants = !goal.config.is_empty() && !goal.is_desired_by(facts);
        let reports = rules.image_mode_status_reporting;
        let degraded = if reports { report.degraded.is_some() } else { facts.is_degraded() };
        Self {
            updated: if reports { !degraded && report.reaches(goal) } else { reached },
            ready: reached && facts.is_serving(),
            unavailable: facts.is_unavailable(),
            images_pinned: report.has_conditions && report.images_pinned,
            away: !facts.is_serving(),
            moving: facts.is_running() && facts.is_in_motion(),
            consuming: facts.consumes_budget(),
            degraded,
            turn: Turn::of(facts, wants, rules),
            hand_set: facts.is_hand_set(),
            taint: TaintWork::of(facts, wants, reached),
            topology_differs: rules.topology.is_some() && rules.topology != facts.topology,
            reverted: facts.reverted.as_deref() == Some(&goal.config),
            drain_blocked: report.drain_blocked.is_some() && facts.is_draining(),
            images_failed: report.images_failed.is_some(),
        }
    }
}

impl Turn {
    fn of(facts: &NodeFacts, wants: bool, rules: &Rules) -> Self {
        if !wants {
            Self::None
        } else if facts.hold.is_some() {
            Self::Held
        } else if !facts.is_in_motion() && rules.refusal(facts).is_some() {
            // One that is on its way already, or fails there, is not kept from the newest target: it may mend the node, and
            // the daemon refuses what it cannot do before it touches anything.
            Self::Unfit
        } else if facts.is_foreign_and_working() {
            Self::Busy
        } else if facts.is_silent(&rules.goal.config) {
            Self::Silent
        } else if !facts.is_serving() {
            Self::Away
        } else if facts.consumes_budget() {
            Self::Impaired
        } else {
            Self::Waiting
        }
    }
}

impl TaintWork {
    /// The taint stays from the time a node begins to wait until it is through, so that pods which are evicted
    /// meanwhile prefer nodes that need not be emptied again. A held node does not wait for this rollout.
    fn of(facts: &NodeFacts, wants: bool, reached: bool) -> Self {
        let waits = wants && facts.hold.is_none();
        match (waits, facts.has_update_taint()) {
            (true, false) => Self::Missing,
            (false, true) if reached || facts.hold.is_some() => Self::Left,
            (true | false, _) => Self::None,
        }
    }
}

impl Report {
    fn reaches(&self, goal: &Goal) -> bool {
        let config = self.updated && self.desired_config.as_deref() == Some(&goal.config);
        let image = match &goal.layering {
            None => self.desired_image.is_none(),
            Some(layering) => {
                layering.build.as_ref().is_some_and(|build| build.config == goal.config)
                    && layering.image.is_some()
                    && self.desired_image == layering.image
            }
        };
        config && image
    }
}

impl Index {
    fn add(&mut self, name: &str, facts: &NodeFacts, standing: &Standing) {
        self.counts.machines += 1;
        self.counts.updated += usize::from(standing.updated);
        self.counts.ready += usize::from(standing.ready);
        self.counts.unavailable += usize::from(standing.unavailable);
        self.counts.images_pinned += usize::from(standing.images_pinned);
        self.counts.away += usize::from(standing.away);
        match standing.turn {
            Turn::Waiting => {
                self.waiting.insert(Place::of(facts));
            }
            Turn::Impaired => {
                self.impaired.insert(Place::of(facts));
            }
            Turn::Away => {
                self.away.insert(Place::of(facts));
            }
            Turn::None | Turn::Silent | Turn::Busy | Turn::Held | Turn::Unfit => {}
        }
        for (set, member) in self.named_sets(standing) {
            if member {
                set.insert(name.to_owned());
            }
        }
    }

    fn remove(&mut self, name: &str, facts: &NodeFacts, standing: &Standing) {
        self.counts.machines -= 1;
        self.counts.updated -= usize::from(standing.updated);
        self.counts.ready -= usize::from(standing.ready);
        self.counts.unavailable -= usize::from(standing.unavailable);
        self.counts.images_pinned -= usize::from(standing.images_pinned);
        self.counts.away -= usize::from(standing.away);
        match standing.turn {
            Turn::Waiting => {
                self.waiting.remove(&Place::of(facts));
            }
            Turn::Impaired => {
                self.impaired.remove(&Place::of(facts));
            }
            Turn::Away => {
                self.away.remove(&Place::of(facts));
            }
            Turn::None | Turn::Silent | Turn::Busy | Turn::Held | Turn::Unfit => {}
        }
        for (set, member) in self.named_sets(standing) {
            if member {
                set.remove(name);
            }
        }
    }

    fn named_sets(&mut self, standing: &Standing) -> [(&mut BTreeSet<String>, bool); 14] {
        [
            (&mut self.silent, standing.turn == Turn::Silent),
            (&mut self.moving, standing.moving),
            (&mut self.busy, standing.turn == Turn::Busy),
            (&mut self.held, standing.turn == Turn::Held),
            (&mut self.unfit, standing.turn == Turn::Unfit),
            (&mut self.hand_set, standing.hand_set),
            (&mut self.consuming, standing.consuming),
            (&mut self.degraded, standing.degraded),
            (&mut self.taint_missing, standing.taint == TaintWork::Missing),
            (&mut self.taint_left, standing.taint == TaintWork::Left),
            (&mut self.topology_differs, standing.topology_differs),
            (&mut self.reverted, standing.reverted),
            (&mut self.drain_blocked, standing.drain_blocked),
            (&mut self.images_failed, standing.images_failed),
        ]
    }
}
