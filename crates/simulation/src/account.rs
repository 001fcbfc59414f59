//! An independent account of the nodes that we take away from their pods.
//!
//! It is computed from machines, cordons and pods only. It never reads the ledger or calls a predicate of the planner, so
//! it does not share the planner's mistakes. The rules it checks:
//!
//! - We never take away more nodes at one time than the pool's `maxUnavailable`, whether those nodes were serving,
//!   cordoned, unreachable or without a first config before. A node counts from the first cordon or eviction of our drain,
//!   or from the first write of an update that needs no drain, until pods may return and no update is in progress.
//! - A serving node is not targeted while `maxUnavailable` other nodes have unfinished targets, even if those are dead.
//! - A dead node does not block the fix for a node whose update failed, so the failed node may be taken in addition. A
//!   node that comes back in the middle of its update continues; that is not a new taking.
//! - The control plane moves one node at a time, and never if that costs etcd its quorum.
//!
//! Targets that a person sets by hand do not count. While watches lag, a violation is only reported if the ledger could
//! have prevented it. In `strict` mode the watches are current, and everything visible in the API is taken into account.

use std::collections::BTreeMap;

use api::known::FRESH_FOR;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::PoolFacts;
use rollout::node::State;

use crate::violation::{Before, Kind, clock};
use crate::world::{Node, World, is_ready};

/// The targets that planners have set, and the nodes that were taken away because of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    given: BTreeMap<String, Given>,
    away: BTreeMap<String, Away>,
}

/// A target that landed on a node.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The node limit according to the snapshot the target was planned from.
    pub(crate) limit: usize,
    pub(crate) planned: Timestamp,
    /// Why the planning controller's list of etcd members was unreliable.
    pub(crate) blind: Option<&'static str>,
    /// When that controller last heard of etcd members.
    heard: Timestamp,
    /// The node was unreachable when the target landed, or has been since.
    lost: bool,
}

/// A node that we have taken away.
#[derive(Clone, Debug)]
struct Away {
    since: Timestamp,
    before: Before,
    pods: usize,
    limit: usize,
    /// The node was lost to a fault when it was taken, or has been since.
    lost: bool,
    /// A planner set the target, not a person.
    by_us: bool,
}

impl Given {
    pub(crate) fn new(limit: usize, planned: Timestamp, blind: Option<&'static str>, heard: Timestamp) -> Self {
        Self { limit, planned, blind, heard, lost: false }
    }

    /// Until when the planning controller could have known that a member is down. A list that failed or is too old is not
    /// believed, so nothing may be planned on it; but a watch that broke without a word cannot be told from a quiet one
    /// before its silence has lasted too long.
    fn could_know_until(&self) -> Timestamp {
        let is_fresh = self.planned.duration_since(self.heard) <= FRESH_FOR;
        if is_fresh { self.planned.min(self.heard) } else { self.planned }
    }
}

/// The number of nodes that may be down at once, computed without the planner.
pub(crate) fn limit(pool: &PoolFacts, nodes: usize) -> usize {
    if rollout::control_plane::is_control_plane(&pool.name) {
        return 1;
    }
    let limit = match &pool.max_unavailable {
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(1),
        Some(IntOrString::String(text)) => {
            let percent: usize = text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
            nodes * percent / 100
        }
        None => 1,
    };
    limit.max(1)
}

impl World {
    /// Updates the account after a step and checks every node that the step took away. `seen` is the node limit in the
    /// snapshot of the controller that made the step.
    pub(crate) fn look(&mut self, seen: Option<usize>) {
        let mut account = std::mem::take(&mut self.account);
        account.given.retain(|name, _| self.nodes.contains_key(name));
        account.away.retain(|name, _| self.nodes.contains_key(name));
        let mut taken = Vec::new();
        for (name, node) in &self.nodes {
            let is_lost = node.host.is_lost();
            if let Some(given) = account.given.get_mut(name) {
                given.lost |= is_lost;
                if is_through(node) {
                    account.given.remove(name);
                }
            }
            match (account.away.get_mut(name), node.is_taken()) {
                (None, true) => taken.push(name.clone()),
                (Some(away), true) => away.lost |= is_lost,
                (Some(_), false) => {
                    account.away.remove(name);
                }
                (None, false) => {}
            }
        }
        self.account = account;
        for name in taken {
            self.take(&name, seen);
        }
    }

    fn take(&mut self, name: &str, seen: Option<usize>) {
        let Some(node) = self.nodes.get(name) else { return };
        let given = self.account.given.get(name).cloned();
        let now_allowed = limit(&self.pool, self.nodes.len());
        let away = Away {
            since: self.now,
            before: before(node, given.as_ref()),
            pods: node.serving_pods(&self.workloads).count(),
            limit: now_allowed.max(seen.unwrap_or(0)).max(given.as_ref().map_or(0, |given| given.limit)),
            lost: node.host.is_lost(),
            by_us: given.is_some(),
        };
        let drains = node.host.emptied;
        let comes_back_by_itself = !drains && given.as_ref().is_some_and(|given| given.lost);
        let (before, by_us) = (away.before, away.by_us);
        self.account.away.insert(name.to_owned(), away);
        if !by_us {
            return;
        }
        let counted: Vec<(&String, &Away)> = self
            .account
            .away
            .iter()
            .filter(|(other, away)| {
                let is_fixed = comes_back_by_itself && away.before == Before::Broken;
                *other == name || (away.by_us && !is_fixed && self.is_present(other, away))
            })
            .collect();
        let allowed = counted.iter().map(|(_, away)| away.limit).max().unwrap_or(1);
        if counted.len() > allowed {
            let all: Vec<String> = counted.iter().map(|(name, away)| format!("{name} ({away})")).collect();
            let sentence = format!(
                "node {name} is taken away as number {}, and the budget is {allowed}: {}",
                counted.len(),
                all.join(", ")
            );
            self.violate(self.budget_kind(before), sentence);
        }
        // An update without a drain does not reboot, so the etcd member keeps running.
        if let Some(given) = given.filter(|_| drains) {
            self.check_quorum(name, &given);
        }
    }

    /// Whether a taken node counts when the next one is taken. One that a fault has hit may look dead to a lagging watch.
    fn is_present(&self, name: &str, away: &Away) -> bool {
        if self.strict { self.nodes.get(name).is_some_and(|node| !node.host.is_lost()) } else { !away.lost }
    }

    fn budget_kind(&self, before: Before) -> Kind {
        let is_control_plane = rollout::control_plane::is_control_plane(&self.pool.name);
        if is_control_plane { Kind::ControlPlane(before) } else { Kind::Budget(before) }
    }

    /// Counts only members that were already down when the target was planned, as far as the planner could know, and still
    /// are.
    fn check_quorum(&mut self, name: &str, given: &Given) {
        let members: Vec<&Node> = self.nodes.values().filter(|node| node.host.etcd.is_some()).collect();
        let is_known_down = |node: &Node| {
            node.host.etcd.and_then(|member| member.down_since).is_some_and(|since| since <= given.could_know_until())
        };
        let serves = self.nodes.get(name).is_some_and(|node| node.host.has_member_up());
        let left = members.iter().filter(|node| node.facts.name != name && !is_known_down(node)).count();
        // With one or two members every reboot loses the quorum. A quorum that is already lost is not lost by this node.
        if members.len() < 3 || !serves || left != members.len() / 2 {
            return;
        }
        let down = members.iter().filter(|node| is_known_down(node)).map(|node| node.facts.name.as_str());
        let sentence = format!(
            "node {name} is taken away, which leaves {left} of {} members of etcd, with {:?} down{}",
            members.len(),
            down.collect::<Vec<_>>(),
            given.blind.map(|why| format!("; {why}")).unwrap_or_default(),
        );
        self.violate(if given.blind.is_some() { Kind::QuorumUnseen } else { Kind::Quorum }, sentence);
    }

    /// Whether a node is updating because a person set its target. If a planner then corrects the target, the update still
    /// counts as the person's.
    pub(crate) fn is_moved_by_hand(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.hand_set && is_moving(node))
    }

    /// Records that a planner's target landed on a node, and checks it if the node was serving.
    pub(crate) fn targeted(&mut self, name: &str, given: Given) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.hand_set = false;
        let Some(node) = self.nodes.get(name) else { return };
        if !is_moving(node) {
            return;
        }
        let known = self.account.given.remove(name);
        // Lowering the limit does not affect targets that were set before.
        let limit = known.as_ref().map_or(0, |known| known.limit).max(given.limit);
        let lost = node.host.is_lost() || known.as_ref().is_some_and(|known| known.lost);
        // For a node that is already updating, the decision was made when it was first targeted or taken.
        let first = known.clone().unwrap_or(given);
        let taken = self.account.away.get(name).map_or(first.planned, |away| away.since);
        let planned = first.planned.min(taken);
        self.account.given.insert(name.to_owned(), Given { limit, lost, planned, ..first });
        let Some(node) = self.nodes.get(name) else { return };
        if known.is_some() || !is_available(node) {
            return;
        }
        let before = before(node, None);
        let others: Vec<&str> = self.open().filter(|other| *other != name).collect();
        if others.len() + 1 > limit {
            let sentence = format!(
                "node {name} ({before}) is targeted as number {}, and the budget is {limit}; {others:?} are not through",
                others.len() + 1
            );
            return self.violate(self.budget_kind(before), sentence);
        }
        // A machine that has just died still looks ready in the API.
        let is_down = |node: &Node| !is_ready(&node.facts) || node.facts.unschedulable;
        let others = self.nodes.values().filter(|other| other.facts.name != name);
        let down = others.filter(|other| is_down(other) || self.open().any(|open| open == other.facts.name));
        let down: Vec<&str> = down.map(|other| other.facts.name.as_str()).collect();
        if self.strict && down.len() + 1 > limit {
            let sentence =
                format!("node {name} ({before}) is taken down, and the budget is {limit}; {down:?} are down");
            self.violate(Kind::Unavailable, sentence);
        }
    }

    /// Records that a planner took a target back. A node that has not begun, and is asked for nothing else now, needs no
    /// permission any more: daemons begin only after they have reported it and read their target again.
    pub(crate) fn taken_back(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| !is_moving(node)) {
            self.account.given.remove(name);
        }
    }

    /// Nodes with an unfinished target or update from a planner.
    fn open(&self) -> impl Iterator<Item = &str> {
        let away = self.account.away.iter().filter(|(_, away)| away.by_us).map(|(name, _)| name);
        let given =
            self.account.given.keys().filter(|name| !self.account.away.get(*name).is_some_and(|away| away.by_us));
        away.chain(given).map(String::as_str)
    }

    /// Machines that died in the middle of an update, as far as anyone can tell. A target that the daemon has not answered
    /// is no update yet: it can be taken back.
    pub(crate) fn begun_and_lost(&self) -> usize {
        self.nodes.values().filter(|node| node.host.is_lost() && has_begun(node)).count()
    }

    /// Nodes that are taken away because of a planner's target.
    pub(crate) fn being_changed(&self) -> Vec<String> {
        self.account.away.iter().filter(|(_, away)| away.by_us).map(|(name, _)| name.clone()).collect()
    }
}

/// The node accepts pods, both in the API and in reality, and its last update did not fail.
pub(crate) fn is_available(node: &Node) -> bool {
    node.host.is_up() && is_ready(&node.facts) && !node.is_taken() && !node.facts.unschedulable && !node.host.failed
}

/// The node is updating, or will start to without further permission: it does not run its target and has not given it up.
fn is_moving(node: &Node) -> bool {
    let disk = &node.host.disk;
    let is_wanted =
        |desired: &String| ![&disk.current, &disk.reverted, &node.host.refused].contains(&&Some(desired.clone()));
    node.is_taken() || node.facts.desired.as_ref().is_some_and(is_wanted)
}

/// Whether a lost machine may be in the middle of an update, as far as the API tells: its daemon has begun, or has shown that
/// it knows its target. What such a machine has undone since then it cannot say. A daemon that is not ours begins with a
/// target that it once read and does not look again, so one that has ever spoken may have begun. And a state that a person
/// has overwritten tells nothing.
fn has_begun(node: &Node) -> bool {
    let facts = &node.facts;
    let asks_for_drain = facts.desired_drain.as_deref().is_some_and(|asked| asked.starts_with("drain-"));
    let is_unfinished = is_moving(node) || (facts.desired.is_some() && facts.desired != facts.current);
    let has_begun = match facts.state {
        State::Working | State::Unknown(_) => true,
        State::Degraded | State::Unreconcilable => is_unfinished,
        State::Done => is_unfinished && (asks_for_drain || !facts.ours),
        State::Unreported => is_unfinished && asks_for_drain,
    };
    node.is_taken() || has_begun
}

/// The node has finished its update and has reported that, or it has given its target up.
fn is_through(node: &Node) -> bool {
    let (facts, disk) = (&node.facts, &node.host.disk);
    let has_said = facts.state == State::Done && facts.current == disk.current;
    !is_moving(node) && (has_said || facts.desired != disk.current)
}

fn before(node: &Node, given: Option<&Given>) -> Before {
    if given.is_some_and(|given| given.lost) || node.host.is_lost() {
        Before::Unreachable
    } else if node.host.disk.current.is_none() {
        Before::Unconfigured
    } else if node.cordoned_by_person {
        Before::Cordoned
    } else if node.host.failed {
        Before::Broken
    } else {
        Before::Serving
    }
}

impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} pods until {}", self.before, self.pods, clock(self.since))
    }
}
