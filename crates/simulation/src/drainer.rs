//! The drain controller of a replica. The real `drain` crate decides on cordons, evictions and uncordons, from what this
//! replica's watches have received.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::known::Reading;
use drain::eviction::{Cause, Refusal};
use drain::{DisruptionBudget, Next, PodFacts, Waiting};
use jiff::SignedDuration;
use rollout::{NodeFacts, ResourceVersion, Snapshot};

use crate::pods::{self, Evicted};
use crate::random::Random;
use crate::sight::{Sight, State};
use crate::violation::Kind;
use crate::world::{Refused, World, set_unschedulable};
use crate::{Parties, protocol};

#[derive(Default)]
pub(crate) struct Drainer {
    daemon_sets: Sight<BTreeSet<String>>,
    budgets: Sight<Vec<DisruptionBudget>>,
    /// A watch of the pods of each node that is being drained.
    pods: BTreeMap<String, Sight<Vec<PodFacts>>>,
    /// The version of each of these nodes that was known before its pods were listed.
    listed: BTreeMap<String, ResourceVersion>,
    refusals: BTreeMap<String, Refusal>,
    queue: VecDeque<Write>,
}

/// A planned write to a version of a node.
struct Write {
    node: String,
    version: ResourceVersion,
    /// The node limit according to the snapshot it was planned from.
    limit: usize,
    /// Why the list of DaemonSets was unreliable at that time.
    doubt: Option<&'static str>,
    action: drain::Action,
}

impl Drainer {
    pub(crate) fn start(daemon_sets: State, budgets: State) -> Self {
        let (daemon_sets, budgets) = (Sight::start(daemon_sets), Sight::start(budgets));
        Self { daemon_sets, budgets, ..Self::default() }
    }

    /// Breaks one of its watches.
    pub(crate) fn lose(&mut self, random: &mut Random) {
        let drained: Vec<String> = self.pods.keys().cloned().collect();
        match random.below(3) {
            0 => self.daemon_sets.lose(),
            1 => self.budgets.lose(),
            _ => {
                if let Some(pods) = random.pick(&drained).and_then(|node| self.pods.get_mut(node)) {
                    pods.lose();
                }
            }
        }
    }

    pub(crate) fn mend(&mut self) {
        self.daemon_sets.mend();
        self.budgets.mend();
        self.pods.values_mut().for_each(Sight::mend);
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn follow(&mut self, world: &World) {
        self.daemon_sets.follow(world.now, || pods::daemon_sets(world));
        self.budgets.follow(world.now, || pods::budgets(world));
        for (node, pods) in &mut self.pods {
            pods.follow(world.now, || {
                world.nodes.get(node).map(|node| pods::facts(&world.workloads, node)).unwrap_or_default()
            });
        }
    }

    /// Plans all nodes that wait for an answer or carry one of our annotations.
    pub(crate) fn plan(&mut self, snapshot: &Snapshot, limit: usize, world: &World, parties: &dyn Parties) {
        let waiting: Vec<&NodeFacts> = snapshot.nodes.iter().filter(|facts| waits(facts)).collect();
        self.pods.retain(|node, _| waiting.iter().any(|facts| facts.name == *node));
        for facts in waiting {
            if !self.pods.contains_key(&facts.name) {
                // The real controller plans a node only after its pods were listed.
                self.pods.insert(facts.name.clone(), Sight::default());
                self.listed.insert(facts.name.clone(), facts.resource_version.clone());
                self.follow(world);
            }
            let plan = parties.drain(&self.snapshot(facts, snapshot));
            if matches!(plan.next, Next::OnChange(Waiting::List)) {
                self.list(facts, world);
            }
            let (version, doubt) = (facts.resource_version.clone(), self.daemon_sets.doubt());
            let writes = plan.actions.into_iter().map(|action| Write {
                node: facts.name.clone(),
                version: version.clone(),
                limit,
                doubt,
                action,
            });
            self.queue.extend(writes);
        }
    }

    /// Lists the pods of a node again. Where the watch is broken, the list fails as well.
    fn list(&mut self, facts: &NodeFacts, world: &World) {
        let is_read = self.pods.get(&facts.name).is_some_and(|pods| pods.doubt().is_none());
        if is_read && !world.outage {
            self.listed.insert(facts.name.clone(), facts.resource_version.clone());
            self.follow(world);
        }
    }

    fn snapshot(&self, facts: &NodeFacts, snapshot: &Snapshot) -> drain::Snapshot {
        drain::Snapshot {
            node: facts.name.clone(),
            resource_version: facts.resource_version.text.clone(),
            unschedulable: facts.unschedulable,
            desired_drain: facts.desired_drain.clone(),
            last_applied_drain: facts.last_applied_drain.clone(),
            cordoned_by: facts.cordoned_by.clone(),
            started: facts.drain_started,
            pods: self.pods.get(&facts.name).map(Sight::reading).unwrap_or_default(),
            listed_for: self.listed.get(&facts.name).map(|version| version.text.clone()),
            budgets: self.budgets.records().clone(),
            refusals: self.refusals.clone(),
            daemon_sets: self.daemon_sets.reading(),
            withheld: withheld(facts, snapshot),
            settings: drain::Settings::default(),
            now: snapshot.now,
        }
    }

    /// Performs the next queued write. A conflicting write is dropped; the next plan considers the newer node.
    pub(crate) fn write(&mut self, name: &str, clock: SignedDuration, world: &mut World) {
        let Some(write) = self.queue.pop_front() else { return };
        let limit = write.limit;
        world.tell(|| format!("{name} writes to {}@{} {}", write.node, write.version, words(&write.action)));
        match self.carry_out(world, clock, write) {
            Ok(()) => {}
            Err(Refused::Outage) => self.queue.clear(),
            Err(refused @ (Refused::Conflict | Refused::NotFound)) => world.tell(|| format!("{name}: {refused:?}")),
        }
        world.look(Some(limit));
    }

    fn carry_out(&mut self, world: &mut World, clock: SignedDuration, write: Write) -> Result<(), Refused> {
        let Write { node, version, limit: _, doubt, action } = write;
        let (node, version) = (node.as_str(), &version);
        match action {
            drain::Action::Cordon { owner, started } => {
                world.write_node(node, Some(version), |facts| {
                    set_unschedulable(facts, true);
                    facts.cordoned_by = Some(owner.to_owned());
                    facts.drain_started = Some(started);
                })?;
                empty(world, node);
            }
            drain::Action::Adopt { owner, started } => {
                world.write_node(node, Some(version), |facts| {
                    facts.cordoned_by = Some(owner.to_owned());
                    facts.drain_started = Some(started);
                })?;
                empty(world, node);
            }
            drain::Action::Disown { owner } => world.write_node(node, Some(version), |facts| {
                facts.cordoned_by = owner.map(str::to_owned);
                facts.drain_started = None;
            })?,
            drain::Action::Evict(pod) => return self.evict(world, clock, node, &pod, doubt),
            drain::Action::Confirm { value, uncordon, forget_owner } => {
                let drained = value.starts_with("drain-");
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
                if let Some(node) = world.nodes.get_mut(node) {
                    node.host.emptied = drained;
                    node.host.opened = false;
                }
                protocol::uncordoned(world, node, uncordon);
            }
        }
        Ok(())
    }

    fn evict(
        &mut self,
        world: &mut World,
        clock: SignedDuration,
        node: &str,
        pod: &PodFacts,
        doubt: Option<&'static str>,
    ) -> Result<(), Refused> {
        if world.outage {
            return Err(Refused::Outage);
        }
        match pods::evict(world, node, &pod.uid) {
            None => {}
            Some(Evicted::Refused) => {
                let cause = Cause::Budget { message: "Cannot evict pod".to_owned() };
                self.refusals.insert(pod.uid.clone(), Refusal { at: world.now + clock, cause });
                return Ok(());
            }
            Some(Evicted::Leaving) => begin_to_empty(world, node),
            Some(Evicted::OfDaemonSet(set)) => {
                let why = doubt.map(|why| format!("; {why}")).unwrap_or_default();
                world.violate(
                    Kind::DaemonSet,
                    format!("pod {} of DaemonSet {set}, which exists, was evicted from node {node}{why}", pod.name),
                );
            }
        }
        self.refusals.remove(&pod.uid);
        Ok(())
    }
}

/// Marks the node as emptied by our drain.
fn empty(world: &mut World, node: &str) {
    if let Some(node) = world.nodes.get_mut(node) {
        node.host.emptied = true;
    }
}

/// Marks the node as emptied by an eviction. One that arrives after its drain was called off costs a pod. It does not take the
/// node away.
fn begin_to_empty(world: &mut World, node: &str) {
    let asked = world.nodes.get(node).and_then(|node| node.facts.desired_drain.as_deref());
    if asked.is_some_and(|asked| asked.starts_with("drain-")) {
        empty(world, node);
    }
}

/// Whether the daemon waits for an answer, or one of our annotations may have outlived its request.
fn waits(facts: &NodeFacts) -> bool {
    let is_noted = facts.cordoned_by.is_some() || facts.drain_started.is_some();
    (facts.desired_drain.is_some() && facts.desired_drain != facts.last_applied_drain) || is_noted
}

fn words(action: &drain::Action) -> String {
    match action {
        drain::Action::Evict(pod) => format!("the eviction of {}", pod.name),
        other => format!("{other:?}"),
    }
}

/// Why the ledger does not let the node be emptied yet, as the drain controller reads it.
fn withheld(facts: &NodeFacts, snapshot: &Snapshot) -> Reading<Option<String>> {
    let has_place = rollout::ledger::lets_drain(&snapshot.ledger.spec, facts);
    Reading::known((facts.is_draining() && !has_place).then(|| "no place in the ledger".to_owned()), snapshot.now)
}
