//! One replica of the controller: it watches at its own pace, plans with the real planners, and writes one action at
//! a time, so that anything can happen between any two writes.
//!
//! Targets and fences are sent and not waited for: they are on their way while the next plans are made, and each lands at
//! any later moment, in any order, also when the process that sent it is dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::known::Reading;
use drain::eviction::{Cause, Refusal};
use drain::pod::PodFacts;
use rollout::{Action, Settings, Snapshot};

use crate::Planner;
use crate::checks;
use crate::random::Random;
use crate::world::{Disruption, Refused, World, set_unschedulable};

pub(crate) struct Controller {
    pub(crate) name: &'static str,
    settings: Settings,
    snapshot: Snapshot,
    nodes_seen: usize,
    pool_seen: usize,
    ledger_seen: usize,
    queue: VecDeque<Write>,
    /// What is on its way to nodes.
    flying: Vec<Flight>,
    /// The version of each node that was last sent to, while that is under way or met a newer one.
    sent: BTreeMap<String, rollout::ResourceVersion>,
    refusals: BTreeMap<String, Refusal>,
}

/// A target or a fence that was sent.
struct Flight {
    action: Action,
    limit: usize,
    paused: bool,
}

/// A write that was planned and is still to be done.
enum Write {
    Rollout { action: Action, limit: usize, paused: bool },
    Status(Box<api::machineconfiguration::MachineConfigPoolStatus>),
    Drain { node: String, version: rollout::ResourceVersion, action: drain::Action },
}

impl Write {
    fn words(&self) -> String {
        match self {
            Self::Rollout { action: Action::WriteLedger { .. }, .. } => "the ledger".to_owned(),
            Self::Rollout { action, limit, .. } => format!("{action:?} with limit {limit}"),
            Self::Status(_) => "the status".to_owned(),
            Self::Drain { node, version, action } => format!("to {node}@{version} {action:?}"),
        }
    }
}

impl Controller {
    pub(crate) fn new(name: &'static str, settings: Settings, world: &World) -> Self {
        let settings = Settings { holder: name.to_owned(), ..settings };
        let snapshot = Snapshot::new(rollout::PoolFacts::clone(&world.pool_log[0]), settings.clone(), world.now);
        Self {
            name,
            settings,
            snapshot,
            nodes_seen: 0,
            pool_seen: 0,
            ledger_seen: 0,
            queue: VecDeque::new(),
            flying: Vec::new(),
            sent: BTreeMap::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// The process dies and comes back: everything it knew and wanted to do is gone. What it sent may land yet.
    pub(crate) fn restart(&mut self, world: &World) {
        let flying = std::mem::take(&mut self.flying);
        *self = Self { flying, ..Self::new(self.name, self.settings.clone(), world) };
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn has_flights(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Takes in changes, at most so many of each kind.
    pub(crate) fn watch(&mut self, world: &World, at_most: usize) {
        let end = world.node_log.len().min(self.nodes_seen.saturating_add(at_most));
        for event in &world.node_log[self.nodes_seen..end] {
            self.snapshot.nodes.seen_until(event.version);
            match &event.facts {
                // The answer to a write of our own may have told something newer.
                Some(facts) if self.knows_newer(facts) => {}
                Some(facts) => self.snapshot.observe_node(facts.clone()),
                None => self.snapshot.nodes.forget(&event.name),
            }
        }
        self.nodes_seen = end;
        let end = (world.pool_log.len() - 1).min(self.pool_seen.saturating_add(at_most));
        if end != self.pool_seen {
            self.pool_seen = end;
            self.snapshot.observe_pool(rollout::PoolFacts::clone(&world.pool_log[end]), None);
        }
        let end = (world.ledger_log.len() - 1).min(self.ledger_seen.saturating_add(at_most));
        if end != self.ledger_seen {
            self.ledger_seen = end;
            self.snapshot.ledger = rollout::Ledger::clone(&world.ledger_log[end]);
        }
        if rollout::control_plane::is_control_plane(&world.pool.name) {
            self.snapshot.etcd = Reading::known(world.etcd_members(), world.now);
        }
        self.snapshot.now = world.now;
    }

    fn knows_newer(&self, facts: &rollout::NodeFacts) -> bool {
        self.snapshot.nodes.get(&facts.name).is_some_and(|known| {
            known.uid == facts.uid && known.resource_version.number > facts.resource_version.number
        })
    }

    /// Plans, and queues what there is to do. Says whether that is anything.
    pub(crate) fn plan(&mut self, world: &mut World, planner: &dyn Planner) -> bool {
        self.snapshot.now = world.now;
        let plan = planner.plan(&self.snapshot);
        checks::plan(world, &self.snapshot, &plan);
        let (limit, paused) = (checks::limit(&self.snapshot), self.snapshot.pool.paused);
        let actions = plan.actions.into_iter().map(|action| Write::Rollout { action, limit, paused });
        self.queue.extend(actions);
        if plan.status != self.snapshot.pool.status {
            self.queue.push_back(Write::Status(Box::new(plan.status)));
        }
        self.plan_drains(world);
        self.has_work()
    }

    fn plan_drains(&mut self, world: &World) {
        let is_open = |facts: &&rollout::NodeFacts| {
            facts.desired_drain != facts.last_applied_drain || facts.cordoned_by.is_some()
        };
        for facts in self.snapshot.nodes.iter().filter(is_open) {
            let pods = world.nodes.get(&facts.name).map(|node| &node.pods).into_iter().flatten();
            let snapshot = drain::Snapshot {
                node: facts.name.clone(),
                resource_version: facts.resource_version.text.clone(),
                unschedulable: facts.unschedulable,
                desired_drain: facts.desired_drain.clone(),
                last_applied_drain: facts.last_applied_drain.clone(),
                cordoned_by: facts.cordoned_by.clone(),
                started: facts.drain_started,
                pods: Reading::known(pods.map(pod).collect(), world.now),
                daemon_sets: Reading::known(BTreeSet::new(), world.now),
                withheld: Reading::known(None, world.now),
                refusals: self.refusals.clone(),
                now: world.now,
                ..drain::Snapshot::default()
            };
            let version = facts.resource_version.clone();
            let actions = drain::plan(&snapshot).actions.into_iter();
            let writes =
                actions.map(|action| Write::Drain { node: facts.name.clone(), version: version.clone(), action });
            self.queue.extend(writes);
        }
    }

    /// Does the next queued write. When it is refused, the rest of the plan is dropped.
    pub(crate) fn write(&mut self, world: &mut World, fenced: bool) {
        let Some(write) = self.queue.pop_front() else { return };
        world.tell(|| format!("{} writes {}", self.name, write.words()));
        let outcome = match write {
            Write::Rollout { action, limit, paused } => match Flight::version(&action).cloned() {
                Some(version) => {
                    self.send(Flight { action, limit, paused }, version);
                    Ok(())
                }
                None => self.roll_out(world, action, limit, paused, fenced),
            },
            Write::Status(status) => write_status(world, *status),
            Write::Drain { node, version, action } => self.drain(world, &node, &version, action),
        };
        if let Err(refused) = outcome {
            world.tell(|| format!("{}: {refused:?}", self.name));
            self.queue.clear();
        }
    }

    /// Of two writes to one version of a node at most one can land, so the second is never sent.
    fn send(&mut self, flight: Flight, version: rollout::ResourceVersion) {
        let node = flight.action.node().unwrap_or_default().to_owned();
        if self.sent.insert(node, version.clone()) != Some(version) {
            self.flying.push(flight);
        }
    }

    /// Lets one of the writes that are on their way arrive.
    pub(crate) fn land(&mut self, world: &mut World, random: &mut Random, fenced: bool) {
        if self.flying.is_empty() {
            return;
        }
        let flight = self.flying.swap_remove(random.below(self.flying.len()));
        let node = flight.action.node().unwrap_or_default().to_owned();
        world.tell(|| format!("{}: {:?} arrives", self.name, flight.action));
        let outcome = self.roll_out(world, flight.action, flight.limit, flight.paused, fenced);
        match outcome {
            Ok(()) => {
                self.sent.remove(&node);
                if let Some(node) = world.nodes.get(&node)
                    && self.snapshot.nodes.get(&node.facts.name).is_some()
                    && !self.knows_newer(&node.facts)
                {
                    self.snapshot.nodes.observe_answer(node.facts.clone());
                }
            }
            Err(Refused::Outage) => {
                self.sent.remove(&node);
            }
            Err(refused @ (Refused::Conflict | Refused::NotFound)) => {
                world.tell(|| format!("{}: {refused:?}", self.name));
            }
        }
    }

    fn roll_out(
        &mut self,
        world: &mut World,
        action: Action,
        limit: usize,
        paused: bool,
        fenced: bool,
    ) -> Result<(), Refused> {
        match action {
            Action::WriteLedger { resource_version, spec } => {
                let problem = checks::ledger(world, &spec);
                world.write_ledger(resource_version.as_ref(), *spec)?;
                world.violations.extend(problem);
                checks::always(world);
                Ok(())
            }
            Action::Target(target) => {
                let version = fenced.then_some(&target.resource_version);
                let before = world.nodes.get(&target.node).map(|node| node.facts.clone());
                world.write_node(&target.node, version, |facts| facts.desired = Some(target.config.clone()))?;
                let Some(before) = before else { return Ok(()) };
                let paid = before.is_done() && before.is_serving();
                // A target that is what the node runs anyway changes nothing.
                let is_through = |node: &crate::world::Node| node.facts.is_done() && node.facts.is_serving();
                if !world.nodes.get(&target.node).is_some_and(is_through) {
                    // Another target for a node that was taken before keeps what was paid for it then.
                    let earlier = world.disruptions.get(&target.node).copied();
                    let disruption = earlier.filter(|earlier| earlier.paid).unwrap_or(Disruption { paid, limit });
                    world.disruptions.insert(target.node.clone(), disruption);
                }
                checks::target(world, &before, paused, limit);
                Ok(())
            }
            Action::Fence { node, resource_version } => {
                let fence = world.version.to_string();
                // Any harmless change will do; the zone stands for the annotation.
                world.write_node(&node, Some(&resource_version), |facts| facts.zone = Some(fence))
            }
            Action::SetTaints { node, resource_version, taints } => {
                world.write_node(&node, Some(&resource_version), |facts| facts.taints = taints)
            }
            Action::SetTopology { .. } | Action::DegradeNode { .. } => Ok(()),
        }
    }

    fn drain(
        &mut self,
        world: &mut World,
        node: &str,
        version: &rollout::ResourceVersion,
        action: drain::Action,
    ) -> Result<(), Refused> {
        match action {
            drain::Action::Cordon { owner, started } => world.write_node(node, Some(version), |facts| {
                set_unschedulable(facts, true);
                facts.cordoned_by = Some(owner.to_owned());
                facts.drain_started = Some(started);
            }),
            drain::Action::Adopt { owner, started } => world.write_node(node, Some(version), |facts| {
                facts.cordoned_by = Some(owner.to_owned());
                facts.drain_started = Some(started);
            }),
            drain::Action::Disown { owner } => world.write_node(node, Some(version), |facts| {
                facts.cordoned_by = owner.map(str::to_owned);
                facts.drain_started = None;
            }),
            drain::Action::Evict(pod) => self.evict(world, node, &pod),
            drain::Action::Confirm { value, uncordon, forget_owner } => {
                world.write_node(node, Some(version), |facts| {
                    if uncordon {
                        set_unschedulable(facts, false);
                    }
                    if forget_owner {
                        facts.cordoned_by = None;
                    }
                    facts.drain_started = None;
                    facts.last_applied_drain = Some(value);
                })?;
                checks::uncordoned(world, node, uncordon);
                Ok(())
            }
        }
    }

    fn evict(&mut self, world: &mut World, node: &str, pod: &PodFacts) -> Result<(), Refused> {
        if world.outage {
            return Err(Refused::Outage);
        }
        let (now, open) = (world.now, world.budget_open);
        let pods = world.nodes.get_mut(node).map(|node| &mut node.pods).into_iter().flatten();
        let Some(found) = pods.into_iter().find(|other| other.uid.to_string() == pod.uid) else { return Ok(()) };
        if found.protected && !open {
            let cause = Cause::Budget { message: "Cannot evict pod".to_owned() };
            self.refusals.insert(pod.uid.clone(), Refusal { at: now, cause });
        } else {
            self.refusals.remove(&pod.uid);
            found.terminating = Some(now);
        }
        Ok(())
    }
}

impl Flight {
    /// The version of the node that a write which is not waited for carries.
    fn version(action: &Action) -> Option<&rollout::ResourceVersion> {
        match action {
            Action::Target(target) => Some(&target.resource_version),
            Action::Fence { resource_version, .. } => Some(resource_version),
            Action::WriteLedger { .. }
            | Action::SetTaints { .. }
            | Action::SetTopology { .. }
            | Action::DegradeNode { .. } => None,
        }
    }
}

fn pod(pod: &crate::world::Pod) -> PodFacts {
    PodFacts {
        namespace: "shop".to_owned(),
        name: format!("pod-{}", pod.uid),
        uid: pod.uid.to_string(),
        terminating: pod.terminating,
        ..PodFacts::default()
    }
}

fn write_status(world: &mut World, status: api::machineconfiguration::MachineConfigPoolStatus) -> Result<(), Refused> {
    if world.outage {
        return Err(Refused::Outage);
    }
    if world.pool.status != status {
        let pool = rollout::PoolFacts { status, ..rollout::PoolFacts::clone(&Arc::clone(&world.pool)) };
        world.publish_pool(pool);
    }
    Ok(())
}
