//! One process of the machine controllers: what it sees, what it remembers, what it has to do, and the jobs it is at.
//!
//! A job does one write or one call at a time. A process that dies loses its jobs and its memory; one that is stopped goes on
//! with both when it wakes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::machine::{Machine, MachineSet};
use jiff::{SignedDuration, Timestamp};
use machine::link;
use machine::provider::{Error, Instance};
use machine::set::Readiness;

use super::Parties;
use super::api::{Guard, Kept, Refused};
use super::pass::Pass;
use super::view::{News, View};
use super::world::World;
use super::write::Write;
use crate::random::Random;

/// What a job is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Machine,
    Set,
    Deployment,
    Check,
    ControlPlane,
    Node,
    Orphans,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) what: What,
    pub(crate) name: String,
}

/// What was asked of the API and does not show yet.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    since: Timestamp,
    /// The uid of the Machine that is to go; otherwise one is to come.
    deletion: Option<String>,
}

/// What a lookup saw of a Machine, until its next pass.
pub(crate) struct Seen {
    pub(crate) at: Timestamp,
    /// The same by the clock of the process.
    pub(crate) wall: Timestamp,
    /// When the provider was asked, by a sweep.
    pub(crate) swept: Option<Timestamp>,
    pub(crate) version: Asked,
    pub(crate) sighting: Result<Vec<Instance>, Error>,
}

/// What a Machine was looked for by.
pub(crate) type Asked = (String, Option<String>, Option<(String, Timestamp)>);

/// Writes in their order.
pub(crate) struct Writes {
    pub(crate) left: VecDeque<Write>,
    pub(crate) own: Guard,
    /// When this was planned.
    pub(crate) planned: Option<Timestamp>,
    pub(crate) claimed: Option<Timestamp>,
    /// One that fails does not stop the others.
    pub(crate) tolerant: bool,
    pub(crate) has_failed: bool,
    pub(crate) then: Option<SignedDuration>,
}

pub(crate) enum Job {
    Pass(Box<Pass>),
    Writes(Writes),
}

/// What became of one step of a job.
pub(crate) enum Progress {
    /// There is more to do, from this time on.
    Going(Timestamp),
    /// Look again after this time, or when something changes.
    Done(Option<SignedDuration>),
    /// Something was refused: look again soon.
    Retry,
}

pub(crate) struct Replica {
    pub(crate) name: &'static str,
    pub(crate) view: View,
    /// Offset of its wall clock.
    pub(crate) clock: SignedDuration,
    /// It stands still until then.
    pub(crate) frozen: Option<Timestamp>,
    pub(crate) due: BTreeMap<Key, Timestamp>,
    pub(crate) jobs: BTreeMap<Key, (Job, Timestamp)>,
    pub(crate) written: BTreeMap<String, Arc<Machine>>,
    pub(crate) sightings: BTreeMap<String, Seen>,
    expected: BTreeMap<Key, BTreeMap<String, Expected>>,
    /// Sets as deployments last wrote them, until the watch shows as much.
    pub(crate) resized: BTreeMap<String, Arc<MachineSet>>,
    /// Since when machines of each check have been unwell, by a clock that nobody sets.
    pub(crate) suspected: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// In how many places of their sets machines of each check were seen.
    pub(crate) strength: BTreeMap<String, BTreeMap<String, usize>>,
    /// Claims of others and when they were first seen.
    pub(crate) met: BTreeMap<Key, (String, Timestamp)>,
    /// Since when this process has known how often the provider was asked for each Machine, by a clock that nobody sets.
    pub(crate) records: BTreeMap<String, (String, Timestamp)>,
    /// Orphans that were told of.
    pub(crate) reported: BTreeSet<String>,
    pub(crate) heard: Timestamp,
    swept: Timestamp,
}

/// How often instances of Machines at rest, and orphans, are looked for.
const RESYNC: SignedDuration = SignedDuration::from_mins(10);

/// What was asked for and has not shown so long after the watch told something else will not show.
const LONGEST: SignedDuration = SignedDuration::from_secs(10);

/// A claim is acted on for so long, and respected by others for so long.
const CLAIM_GOOD_FOR: SignedDuration = SignedDuration::from_secs(10);
const CLAIM_RESPECTED_FOR: SignedDuration = SignedDuration::from_secs(60);

impl Replica {
    pub(crate) fn new(name: &'static str, world: &World) -> Self {
        let mut replica = Self {
            name,
            view: View::default(),
            clock: SignedDuration::ZERO,
            frozen: None,
            due: BTreeMap::new(),
            jobs: BTreeMap::new(),
            written: BTreeMap::new(),
            sightings: BTreeMap::new(),
            expected: BTreeMap::new(),
            resized: BTreeMap::new(),
            suspected: BTreeMap::new(),
            strength: BTreeMap::new(),
            met: BTreeMap::new(),
            records: BTreeMap::new(),
            reported: BTreeSet::new(),
            heard: world.now(),
            swept: world.now(),
        };
        let news = replica.view.list(&world.api);
        replica.hear(news, world.now());
        replica
    }

    /// The process dies, and another one takes its place.
    pub(crate) fn restart(&mut self, world: &World) {
        *self = Self { clock: self.clock, ..Self::new(self.name, world) };
    }

    /// The time as this process reads it.
    pub(crate) fn wall(&self, world: &World) -> Timestamp {
        world.now() + self.clock
    }

    pub(crate) fn is_frozen(&self, now: Timestamp) -> bool {
        self.frozen.is_some_and(|until| now < until)
    }

    pub(crate) fn add(&mut self, what: What, name: &str, at: Timestamp) {
        let due = self.due.entry(Key { what, name: name.to_owned() }).or_insert(at);
        *due = (*due).min(at);
    }

    /// Takes in what the watches tell.
    pub(crate) fn watch(&mut self, world: &World, most: impl FnMut() -> Option<usize>) {
        let news = self.view.pull(&world.api, most);
        if !news.machines.is_empty() {
            self.heard = world.now();
        }
        self.hear(news, world.now());
        if world.now().duration_since(self.swept) >= RESYNC {
            self.swept = world.now();
            self.add(What::Orphans, "", world.now());
            let running = self.view.machines.objects.values().filter(|machine| {
                let phase = machine.status.as_ref().and_then(|status| status.phase.as_deref());
                phase == Some("Running") && !machine.is_leaving()
            });
            let running: Vec<String> = running.map(|machine| machine.name().to_owned()).collect();
            running.iter().for_each(|name| self.add(What::Machine, name, world.now()));
        }
    }

    /// When this process sweeps next.
    pub(crate) fn next_sweep(&self) -> Timestamp {
        self.swept + RESYNC
    }

    fn hear(&mut self, news: News, now: Timestamp) {
        for change in news.machines {
            self.hear_machine(&change, now);
        }
        for change in news.sets {
            self.add(What::Set, &change.name, now);
            let deployments: Vec<String> = self.view.deployments.objects.keys().cloned().collect();
            deployments.iter().for_each(|name| self.add(What::Deployment, name, now));
            self.disturb_checks(now);
        }
        news.deployments.iter().for_each(|change| self.add(What::Deployment, &change.name, now));
        news.checks.iter().for_each(|change| self.add(What::Check, &change.name, now));
        news.control_planes.iter().for_each(|change| self.add(What::ControlPlane, &change.name, now));
        for change in news.nodes {
            self.add(What::Node, &change.name, now);
            let uid =
                |node: &Option<Arc<k8s_openapi::api::core::v1::Node>>| node.as_ref().map(|it| it.uid().to_owned());
            let ready = |node: &Option<Arc<k8s_openapi::api::core::v1::Node>>| node.as_deref().map(Readiness::of_node);
            let linked: Vec<Arc<Machine>> = self.linked_to(&change.name);
            for machine in &linked {
                if uid(&change.old) != uid(&change.new) {
                    self.add(What::Machine, machine.name(), now);
                }
                if uid(&change.old) != uid(&change.new) || ready(&change.old) != ready(&change.new) {
                    self.disturb_owners(machine, now);
                }
            }
            self.disturb_checks(now);
            self.disturb_control_planes(now);
        }
    }

    fn hear_machine(&mut self, change: &super::view::Change<Machine>, now: Timestamp) {
        let name = &change.name;
        let version =
            |machine: &Machine| machine.metadata.resource_version.as_ref().and_then(|it| it.parse::<u64>().ok());
        let is_own = match (self.written.get(name), &change.new) {
            (Some(own), Some(seen)) if own.uid() == seen.uid() => {
                let is_own = version(own) >= version(seen);
                if version(seen) >= version(own) {
                    self.written.remove(name);
                }
                is_own
            }
            (Some(_), _) => {
                self.written.remove(name);
                false
            }
            (None, _) => false,
        };
        if !is_own {
            self.add(What::Machine, name, now);
        }
        let sides: Vec<Arc<Machine>> = change.old.iter().chain(&change.new).cloned().collect();
        for machine in &sides {
            let found = link::node_of(&link::Identity::of(machine), &self.node_index());
            let nodes: Vec<String> = match found {
                link::Match::None => Vec::new(),
                link::Match::One(key) => vec![key.name],
                link::Match::Several { keys, .. } => keys.into_iter().map(|key| key.name).collect(),
            };
            nodes.iter().for_each(|node| self.add(What::Node, node, now));
            self.disturb_owners(machine, now);
            let rivals =
                self.view.machines.objects.values().filter(|other| {
                    other.spec.provider_id.is_some() && other.spec.provider_id == machine.spec.provider_id
                });
            let rivals: Vec<String> =
                rivals.map(|other| other.name().to_owned()).filter(|other| other != name).collect();
            rivals.iter().for_each(|rival| self.add(What::Machine, rival, now));
        }
        self.disturb_checks(now);
        self.disturb_control_planes(now);
    }

    fn node_index(&self) -> link::Index {
        let mut index = link::Index::default();
        for node in self.view.nodes.objects.values() {
            index.put(link::Key::of_node(node), link::Identity::of_node(node));
        }
        index
    }

    fn linked_to(&self, node: &str) -> Vec<Arc<Machine>> {
        let is_linked = |machine: &&Arc<Machine>| {
            let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            reference.is_some_and(|reference| reference.name.as_deref() == Some(node))
        };
        self.view.machines.objects.values().filter(is_linked).cloned().collect()
    }

    fn disturb_owners(&mut self, machine: &Machine, now: Timestamp) {
        let owner = machine.owner();
        let sets = self.view.sets.objects.values();
        let sets: Vec<String> =
            sets.filter(|set| owner.is_none_or(|owner| owner == set.uid())).map(|set| set.name().to_owned()).collect();
        sets.iter().for_each(|set| self.add(What::Set, set, now));
    }

    fn disturb_checks(&mut self, now: Timestamp) {
        let checks: Vec<String> = self.view.checks.objects.keys().cloned().collect();
        checks.iter().for_each(|check| self.add(What::Check, check, now));
    }

    fn disturb_control_planes(&mut self, now: Timestamp) {
        let sets: Vec<String> = self.view.control_planes.objects.keys().cloned().collect();
        sets.iter().for_each(|set| self.add(What::ControlPlane, set, now));
    }

    /// Whether something that this process asked for does not show yet.
    pub(crate) fn expects(&mut self, by: &Key) -> bool {
        let (machines, heard) = (&self.view.machines.objects, self.heard);
        let Some(open) = self.expected.get_mut(by) else { return false };
        open.retain(|name, expected| {
            let machine = machines.get(name);
            let shows = match &expected.deletion {
                None => machine.is_some(),
                Some(uid) => machine.is_none_or(|machine| machine.uid() != uid || machine.is_leaving()),
            };
            !shows && heard < expected.since + LONGEST
        });
        !open.is_empty()
    }

    fn expect(&mut self, by: &Key, write: &Write, now: Timestamp) -> Option<String> {
        let (name, deletion) = match write {
            Write::CreateMachine(machine) => (machine.name().to_owned(), None),
            Write::DeleteMachine { name, uid, .. } => (name.clone(), Some(uid.clone())),
            _ => return None,
        };
        let expected = Expected { since: now, deletion };
        self.expected.entry(by.clone()).or_default().insert(name.clone(), expected);
        Some(name)
    }

    /// How much longer another process may act for an object.
    pub(crate) fn foreign_claim(
        &mut self,
        key: &Key,
        claim: Option<&String>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let claim = claim?;
        if claim.starts_with(self.name) {
            self.met.remove(key);
            return None;
        }
        if self.met.get(key).is_none_or(|(known, _)| known != claim) {
            self.met.insert(key.clone(), (claim.clone(), now));
        }
        let seen = self.met.get(key).map_or(SignedDuration::ZERO, |(_, since)| now.duration_since(*since));
        Some(CLAIM_RESPECTED_FOR - seen).filter(SignedDuration::is_positive)
    }

    /// Begins a job that is due. Says whether there was one.
    pub(crate) fn begin(&mut self, world: &mut World, parties: &dyn Parties, random: &mut Random) -> bool {
        let now = world.now();
        let is_due = |(key, at): &(&Key, &Timestamp)| **at <= now && !self.jobs.contains_key(*key);
        let due: Vec<Key> = self.due.iter().filter(is_due).map(|(key, _)| key.clone()).collect();
        let Some(key) = random.pick(&due).cloned() else { return false };
        self.due.remove(&key);
        match self.plan(world, &key, parties, random) {
            Ok(mut job) => {
                if let Job::Writes(writes) = &mut job {
                    writes.planned = Some(now);
                }
                self.jobs.insert(key, (job, now));
            }
            Err(after) => {
                if let Some(after) = after {
                    self.add(key.what, &key.name, now + after);
                }
            }
        }
        true
    }

    /// Goes on with a job by one write or call. Says whether there was one to go on with.
    pub(crate) fn go_on(&mut self, world: &mut World, parties: &dyn Parties, random: &mut Random) -> bool {
        let now = world.now();
        let open: Vec<Key> = self.jobs.iter().filter(|(_, (_, at))| *at <= now).map(|(key, _)| key.clone()).collect();
        let Some(key) = random.pick(&open).cloned() else { return false };
        let Some((mut job, _)) = self.jobs.remove(&key) else { return false };
        let progress = match &mut job {
            Job::Pass(pass) => pass.step(self, world, parties, random),
            Job::Writes(writes) => self.write(&key, writes, world, parties, random),
        };
        match progress {
            Progress::Going(at) => {
                self.jobs.insert(key, (job, at));
            }
            Progress::Done(None) => {}
            Progress::Done(Some(after)) => {
                // The shells round longer waits up and never spin.
                let after = after.max(SignedDuration::from_millis(100));
                self.add(key.what, &key.name, now + after);
            }
            Progress::Retry => {
                let after = SignedDuration::from_secs(1) + random.seconds(4);
                self.add(key.what, &key.name, now + after);
            }
        }
        true
    }

    fn write(
        &mut self,
        key: &Key,
        writes: &mut Writes,
        world: &mut World,
        parties: &dyn Parties,
        random: &mut Random,
    ) -> Progress {
        let now = world.now();
        let Some(write) = writes.left.pop_front() else {
            return if writes.has_failed { Progress::Retry } else { Progress::Done(writes.then) };
        };
        if parties.claims() && writes.claimed.is_some_and(|at| now.duration_since(at) >= CLAIM_GOOD_FOR) {
            // What is left is planned and claimed again.
            return Progress::Done(Some(SignedDuration::ZERO));
        }
        let expected = self.expect(key, &write, now);
        let is_guarded = matches!(write, Write::Claim(_) | Write::Status(_));
        if matches!(write, Write::Claim(_)) {
            // A claim is no younger than its plan: what stood still in between must not act on it.
            writes.claimed = writes.planned.or(Some(now));
            if !parties.claims() {
                return Progress::Going(now);
            }
        }
        let resized = match &write {
            Write::UpdateSet { name, .. } => Some(name.clone()),
            _ => None,
        };
        let result = match world.whim(random) {
            Some(false) => Err(Refused::Unanswered),
            Some(true) => write.perform(world, &key.name, &mut writes.own, random).and(Err(Refused::Unanswered)),
            None => write.perform(world, &key.name, &mut writes.own, random),
        };
        if let Some(set) = resized
            && result.is_ok()
            && let Some(written) = world.api.get::<MachineSet>(&set)
        {
            self.resized.insert(set, written.clone());
        }
        match result {
            Ok(()) => Progress::Going(now),
            Err(refused) => {
                if refused != Refused::Unanswered
                    && let Some(name) = expected
                    && let Some(open) = self.expected.get_mut(key)
                {
                    open.remove(&name);
                }
                if writes.tolerant && !is_guarded {
                    writes.has_failed = true;
                    return Progress::Going(now);
                }
                Progress::Retry
            }
        }
    }
}
