//! A node's daemon, as far as the annotations show it.
//!
//! Ours switches to a newer target until its first write; after that it finishes, and goes on to the newest without
//! being uncordoned in between. A foreign one looks at its target only when it rests.

use rollout::node::State;

use crate::random::Random;
use crate::world::{Refused, World, is_ready, unready};

/// What a daemon keeps on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Journal {
    pub(crate) phase: Phase,
    pub(crate) target: String,
    /// The target it gave up on; it does not try that again by itself.
    pub(crate) failed: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// Nothing was written yet.
    Started,
    Draining,
    Writing,
    Rebooting,
    Finishing,
    Uncordoning,
}

/// Lets the daemon of a node take one step. Says whether anything was to be done.
pub(crate) fn step(world: &mut World, name: &str, random: &mut Random) -> bool {
    let Some(node) = world.nodes.get(name) else { return false };
    if node.crashed || (!is_ready(&node.facts) && node.journal.phase != Phase::Rebooting) {
        return false;
    }
    let before = node.journal.clone();
    let version = node.facts.resource_version.clone();
    // A write that is refused leaves the journal as it was, and is tried again.
    if act(world, name, random).is_err()
        && let Some(node) = world.nodes.get_mut(name)
    {
        node.journal = before.clone();
    }
    let Some(node) = world.nodes.get(name) else { return true };
    node.journal != before || node.facts.resource_version != version
}

fn act(world: &mut World, name: &str, random: &mut Random) -> Result<(), Refused> {
    let node = world.nodes.get_mut(name).ok_or(Refused::NotFound)?;
    let facts = node.facts.clone();
    let (Some(current), Some(desired)) = (facts.current.clone(), facts.desired.clone()) else {
        return adopt_first_target(world, name);
    };
    let asked = facts.desired_drain.clone().unwrap_or_default();
    let is_applied = facts.desired_drain == facts.last_applied_drain;
    let target = node.journal.target.clone();
    let switches = facts.ours && desired != target;
    match node.journal.phase {
        Phase::Idle if desired == current => rest(world, name, &current, &asked, is_applied),
        Phase::Idle if node.journal.failed.as_ref() == Some(&desired) => say(world, name, State::Degraded),
        Phase::Idle => {
            node.journal = Journal { phase: Phase::Started, target: desired, failed: None };
            say(world, name, State::Working)
        }
        Phase::Started if switches => {
            node.journal.phase = Phase::Idle;
            Ok(())
        }
        Phase::Started if world.bad.get(&target) == Some(&false) => give_up(world, name, &target),
        Phase::Started if random.once_in(3) && !asked.starts_with("drain-") => {
            node.journal.phase = Phase::Writing;
            Ok(())
        }
        Phase::Started => {
            node.journal.phase = Phase::Draining;
            ask(world, name, format!("drain-{target}"))
        }
        Phase::Draining if switches => {
            node.journal.phase = Phase::Idle;
            Ok(())
        }
        Phase::Draining if is_applied => {
            node.journal.phase = Phase::Writing;
            Ok(())
        }
        Phase::Draining => Ok(()),
        Phase::Writing if world.bad.contains_key(&target) => give_up(world, name, &target),
        Phase::Writing => {
            node.journal.phase = Phase::Rebooting;
            world.change_node(name, None, |facts| facts.unready = unready(false, facts.unschedulable))
        }
        Phase::Rebooting => {
            node.journal.phase = Phase::Finishing;
            world.change_node(name, None, |facts| facts.unready = unready(true, facts.unschedulable))
        }
        Phase::Finishing => finish(world, name, &target, &desired, &asked),
        Phase::Uncordoning if is_applied => {
            node.journal = Journal::default();
            say(world, name, State::Done)
        }
        Phase::Uncordoning => Ok(()),
    }
}

/// A node that never ran anything takes what it was given as what it was born with.
fn adopt_first_target(world: &mut World, name: &str) -> Result<(), Refused> {
    world.write_node(name, None, |facts| {
        if let Some(desired) = facts.desired.clone() {
            facts.current = Some(desired);
            facts.state = State::Done;
        }
    })
}

/// Nothing to change: what is left of an earlier change is put away.
fn rest(world: &mut World, name: &str, current: &str, asked: &str, is_applied: bool) -> Result<(), Refused> {
    if asked.starts_with("drain-") {
        return ask(world, name, format!("uncordon-{current}"));
    }
    if !is_applied {
        return Ok(());
    }
    if let Some(node) = world.nodes.get_mut(name) {
        node.journal = Journal::default();
    }
    say(world, name, State::Done)
}

fn finish(world: &mut World, name: &str, target: &str, desired: &str, asked: &str) -> Result<(), Refused> {
    let drained = asked.starts_with("drain-");
    let goes_on = desired != target;
    if let Some(node) = world.nodes.get_mut(name) {
        node.journal = match (goes_on, drained) {
            (true, _) => Journal { phase: Phase::Started, target: desired.to_owned(), failed: None },
            (false, true) => Journal { phase: Phase::Uncordoning, ..node.journal.clone() },
            (false, false) => Journal::default(),
        };
    }
    let target = target.to_owned();
    world.write_node(name, None, |facts| {
        if !goes_on {
            if drained {
                facts.desired_drain = Some(format!("uncordon-{target}"));
            } else {
                facts.state = State::Done;
            }
        }
        facts.current = Some(target);
    })
}

fn give_up(world: &mut World, name: &str, target: &str) -> Result<(), Refused> {
    if let Some(node) = world.nodes.get_mut(name) {
        node.journal = Journal { phase: Phase::Idle, target: String::new(), failed: Some(target.to_owned()) };
    }
    say(world, name, State::Degraded)
}

fn say(world: &mut World, name: &str, state: State) -> Result<(), Refused> {
    world.write_node(name, None, |facts| facts.state = state)
}

fn ask(world: &mut World, name: &str, request: String) -> Result<(), Refused> {
    world.write_node(name, None, |facts| facts.desired_drain = Some(request))
}
