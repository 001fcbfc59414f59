//! One replica of the controllers. It watches at its own pace, calls the real planners, and performs one write at a time,
//! so that anything can happen between two writes.
//!
//! Targets, fences and probes are sent without waiting for the answer, as in the real service. They land at any later time
//! and in any order, even after the sending process has died.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::SignedDuration;
use rollout::{Action, EtcdMember, Named, Next, Probe, Settings, Snapshot};

use crate::account::{self, Given};
use crate::drainer::Drainer;
use crate::random::Random;
use crate::sight::{Sight, State};
use crate::watching::Watching;
use crate::world::{Refused, World};
use crate::{Parties, protocol};

pub(crate) struct Controller {
    pub(crate) name: &'static str,
    settings: Settings,
    pub(crate) snapshot: Snapshot,
    pub(crate) watching: Watching,
    pub(crate) etcd: Sight<Vec<EtcdMember>>,
    pub(crate) drainer: Drainer,
    /// Offset of this process's clock from the true time.
    pub(crate) clock: SignedDuration,
    queue: VecDeque<Write>,
    /// Writes to nodes that were sent and have not landed.
    flying: Vec<Flight>,
    /// For each node, the version that the last write was sent to, until that write succeeds.
    sent: BTreeMap<String, rollout::ResourceVersion>,
    /// For each node, the version that the last probe was sent to.
    asked: BTreeMap<String, rollout::ResourceVersion>,
    /// What the last plan waits for.
    pub(crate) next: Option<Next>,
}

/// An action together with what its planner saw.
#[derive(Clone, Debug)]
struct Order {
    action: Action,
    given: Given,
    paused: bool,
}

/// A write to a node that was sent.
enum Flight {
    Order(Order),
    Probe(Probe),
}

/// A planned write that has not been sent yet.
enum Write {
    Order(Box<Order>),
    Probe(Probe),
    Status(Box<api::machineconfiguration::MachineConfigPoolStatus>),
}

impl Write {
    fn words(&self) -> String {
        match self {
            Self::Status(_) => "the status".to_owned(),
            Self::Probe(probe) => format!("{probe:?}"),
            Self::Order(order) => match &order.action {
                Action::WriteLedger { .. } => "the ledger".to_owned(),
                action => format!("{action:?} with limit {}", order.given.limit),
            },
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
            watching: Watching::default(),
            etcd: Sight::default(),
            drainer: Drainer::default(),
            clock: SignedDuration::ZERO,
            queue: VecDeque::new(),
            flying: Vec::new(),
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: None,
        }
    }

    /// The process crashes and restarts with empty memory. Writes that it had sent can still land. The first lists of optional
    /// kinds may fail.
    pub(crate) fn restart(&mut self, world: &World, random: &mut Random) {
        let flying = std::mem::take(&mut self.flying);
        let mut state = || if random.once_in(8) { State::Unlisted } else { State::Following };
        let (etcd, drainer) = (Sight::start(state()), Drainer::start(state(), state()));
        *self = Self { flying, etcd, drainer, clock: self.clock, ..Self::new(self.name, self.settings.clone(), world) };
        // The service waits until nodes, pools and ledgers are listed.
        self.watching.start(&mut self.snapshot, world, random);
    }

    /// Broken watches resume. With `lists`, nodes are listed again instead of continuing from the last event.
    pub(crate) fn mend(&mut self, world: &World, lists: bool) {
        self.watching.mend(world, lists);
        self.etcd.mend();
        self.drainer.mend();
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.drainer.has_work()
    }

    pub(crate) fn has_flights(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Receives watch events: a random number of each kind up to `lag`, or all of them.
    pub(crate) fn watch(&mut self, world: &World, lag: Option<(&mut Random, usize)>) {
        self.watching.follow(&mut self.snapshot, world, lag);
        self.etcd.follow(world.now, || members(world));
        self.drainer.follow(world);
    }

    /// Plans and queues the resulting writes. Returns whether there are any.
    pub(crate) fn plan(&mut self, world: &mut World, parties: &dyn Parties) -> bool {
        self.snapshot.now = world.now + self.clock;
        if rollout::control_plane::is_control_plane(&world.pool.name) {
            self.snapshot.etcd = self.etcd.reading_at(world.now, self.clock);
        }
        let unread = self.watching.unread(world.now);
        self.snapshot.unread.clone_from(&unread);
        let plan = parties.plan(&self.snapshot);
        protocol::plan(world, &self.snapshot, unread.as_ref(), &plan);
        let limit = account::limit(&self.snapshot.pool, self.snapshot.nodes.iter().count());
        let given = Given::new(limit, world.now, self.etcd.doubt(), self.etcd.heard());
        let paused = self.snapshot.pool.paused;
        let orders = plan.actions.into_iter().map(|action| Order { action, given: given.clone(), paused });
        self.queue.extend(orders.map(|order| Write::Order(Box::new(order))));
        let unasked =
            plan.probes.into_iter().filter(|probe| self.asked.get(&probe.node) != Some(&probe.resource_version));
        self.queue.extend(unasked.map(Write::Probe));
        if plan.status != self.snapshot.pool.status {
            self.queue.push_back(Write::Status(Box::new(plan.status)));
        }
        self.next = Some(plan.next);
        self.drainer.plan(&self.snapshot, limit, world, parties);
        self.has_work()
    }

    /// Performs one queued write. If it is refused, the rest of the plan is dropped.
    pub(crate) fn write(&mut self, world: &mut World, parties: &dyn Parties, random: &mut Random) {
        if self.queue.is_empty() || (self.drainer.has_work() && random.once_in(2)) {
            return self.drainer.write(self.name, self.clock, world);
        }
        let Some(write) = self.queue.pop_front() else { return };
        world.tell(|| format!("{} writes {}", self.name, write.words()));
        let outcome = match write {
            Write::Order(order) => match version(&order.action).cloned() {
                Some(version) => {
                    self.send(*order, version);
                    Ok(())
                }
                None => roll_out(world, *order, parties),
            },
            Write::Probe(probe) => {
                self.asked.insert(probe.node.clone(), probe.resource_version.clone());
                self.flying.push(Flight::Probe(probe));
                Ok(())
            }
            Write::Status(status) => write_status(world, *status),
        };
        if let Err(refused) = outcome {
            world.tell(|| format!("{}: {refused:?}", self.name));
            self.queue.clear();
        }
    }

    /// At most one write to a given version of a node can land, so a second one is not sent. If it is the same, the one that
    /// was sent is now wanted with the limit of the newer plan.
    fn send(&mut self, order: Order, version: rollout::ResourceVersion) {
        let node = order.action.node().unwrap_or_default().to_owned();
        if self.sent.get(&node) != Some(&version) {
            self.sent.insert(node, version);
            self.flying.push(Flight::Order(order));
            return;
        }
        for flight in &mut self.flying {
            if let Flight::Order(sent) = flight
                && sent.action == order.action
            {
                sent.given.limit = sent.given.limit.max(order.given.limit);
            }
        }
    }

    /// One of the sent writes reaches the API server.
    pub(crate) fn land(&mut self, world: &mut World, parties: &dyn Parties, random: &mut Random) {
        if self.flying.is_empty() {
            return;
        }
        let (node, landed) = match self.flying.swap_remove(random.below(self.flying.len())) {
            Flight::Order(order) => {
                let node = order.action.node().unwrap_or_default().to_owned();
                world.tell(|| format!("{}: {:?} arrives", self.name, order.action));
                let landed = roll_out(world, order, parties);
                if matches!(landed, Ok(()) | Err(Refused::Outage)) {
                    self.sent.remove(&node);
                }
                (node, landed)
            }
            Flight::Probe(probe) => {
                world.tell(|| format!("{}: {probe:?} arrives", self.name));
                let landed = ask(world, &probe);
                if landed == Err(Refused::Outage) {
                    self.asked.remove(&probe.node);
                }
                (probe.node, landed)
            }
        };
        match landed {
            Ok(()) => {
                if let Some(node) = world.nodes.get(&node) {
                    self.watching.answered(&mut self.snapshot, &node.facts);
                }
            }
            Err(Refused::Outage) => {}
            Err(refused @ (Refused::Conflict | Refused::NotFound)) => {
                world.tell(|| format!("{}: {refused:?}", self.name));
            }
        }
    }
}

/// Asks a node whether its daemon is there, and takes its target back if that is planned.
fn ask(world: &mut World, probe: &Probe) -> Result<(), Refused> {
    world.write_node(&probe.node, Some(&probe.resource_version), |facts| {
        if let Some(question) = &probe.question {
            facts.probe = Some(question.clone());
        }
        if let Some(back) = &probe.takes_back {
            facts.desired.clone_from(&back.config);
        }
    })?;
    if probe.takes_back.is_some() {
        world.taken_back(&probe.node);
    }
    Ok(())
}

fn roll_out(world: &mut World, order: Order, parties: &dyn Parties) -> Result<(), Refused> {
    let Order { action, given, paused } = order;
    let seen = Some(given.limit);
    match action {
        Action::WriteLedger { resource_version, spec } => {
            let problem = protocol::ledger(world, &spec);
            world.write_ledger(resource_version.as_ref(), *spec)?;
            if let Some((kind, sentence)) = problem {
                world.violate(kind, sentence);
            }
            Ok(())
        }
        Action::Target(target) => {
            let version = parties.is_fenced().then_some(&target.resource_version);
            let before = world.nodes.get(&target.node).map(|node| node.facts.clone());
            let by_hand = world.is_moved_by_hand(&target.node);
            world.write_node(&target.node, version, |facts| facts.desired = Some(target.config.clone()))?;
            if !by_hand {
                world.targeted(&target.node, given);
            }
            if let Some(before) = before {
                protocol::target(world, &before, paused);
            }
            world.look(seen);
            Ok(())
        }
        Action::Fence { node, resource_version } => {
            let fence = world.version.to_string();
            // The zone stands in for the fence annotation: any harmless change will do.
            world.write_node(&node, Some(&resource_version), |facts| facts.zone = Some(fence))
        }
        Action::Hold { node, resource_version, value, config } => {
            world.write_node(&node, Some(&resource_version), |facts| {
                facts.hold = value.or(facts.hold.take());
                facts.held_config = Some(config);
            })
        }
        Action::SetTaints { node, resource_version, taints } => {
            world.write_node(&node, Some(&resource_version), |facts| facts.taints = taints)
        }
        Action::SetTopology { .. } | Action::TellContested { .. } => Ok(()),
    }
}

/// The node version carried by an action that is sent without waiting.
fn version(action: &Action) -> Option<&rollout::ResourceVersion> {
    match action {
        Action::Target(target) => Some(&target.resource_version),
        Action::Fence { resource_version, .. } | Action::Hold { resource_version, .. } => Some(resource_version),
        Action::WriteLedger { .. }
        | Action::SetTaints { .. }
        | Action::SetTopology { .. }
        | Action::TellContested { .. } => None,
    }
}

fn members(world: &World) -> Vec<EtcdMember> {
    let members = world.nodes.values().filter(|node| node.host.etcd.is_some());
    members
        .map(|node| EtcdMember { node: node.facts.name.clone(), ready: node.host.has_member_up(), named: Named::None })
        .collect()
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
