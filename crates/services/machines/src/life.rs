//! Carries out the life of each Machine: finalizer, intent, instance, phases, drain, removal.
//!
//! What is next is decided by `machine::lifecycle` and `machine::draining`. Both are asked here, one after the other, by the
//! one worker that has the Machine: so there is one writer of what they say. Nothing that has to survive a crash is kept in
//! memory; what is kept saves questions.

mod apply;
mod ask;
mod drain;
mod joining;
mod look;
mod orphans;
mod places;
mod pods;
mod request;
mod secrets;
mod sweep;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::machine::Machine;
use cluster::watch::Key;
use cluster::{Outcome, Problem, Queue, problem};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use machine::draining;
use machine::lifecycle::{self, Answer, Call, Contested, Joining, LinkedNode, Next, Record, Rival, Snapshot, Waiting};
use machine::provider::{Error as ProviderError, Instance};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::context::{Context, UNREAD, positive};
use crate::index::node_name;
use crate::write::is_as_new;
use joining::Traces;
use look::Looks;
use places::Places;
use pods::Drains;
use sweep::{Asked, Sightings, Taken};

pub(crate) use ask::in_time;
pub(crate) use secrets::SecretCache;

pub(crate) const MANAGER: &str = "machinist-machine";

/// Machines wait for the cloud most of the time; those that wait at the same time share a lookup.
const WORKERS: usize = 256;

/// A pass ends after so many plans whatever they say, so that a disagreement with the API server cannot spin.
const ROUNDS: usize = 32;

/// Longer waits end together, so that the Machines that poll share their lookups.
const GRID: Duration = Duration::from_secs(5);

pub(crate) struct Machines {
    context: Arc<Context>,
    pub(crate) queue: Queue<Key>,
    looks: Looks,
    secrets: SecretCache,
    drains: Drains,
    sightings: Sightings,
    /// Lookups that are under way for Machines whose worker does not wait.
    looking: Mutex<HashMap<Key, Asked>>,
    places: Places,
    traces: Traces,
    /// Since when this process has known how often the provider was asked for each Machine. What a record says about the
    /// time is by the clock of whoever wrote it.
    records: Mutex<HashMap<Key, (String, Instant)>>,
    /// Orphans in the cloud that were told of.
    reported: Mutex<BTreeSet<String>>,
    /// Machines as this process last wrote them, until the watch shows as much.
    written: Mutex<HashMap<Key, Machine>>,
    started: Instant,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot write machine {key:?}")]
    Write {
        key: Key,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write node {node}")]
    Node {
        node: String,
        #[source]
        source: kube::Error,
    },
}

/// One pass over one Machine.
struct Pass {
    key: Key,
    machine: Machine,
    sighting: Option<Result<Vec<Instance>, ProviderError>>,
    /// When the sighting was made, if a sweep made it.
    seen: Option<Timestamp>,
    /// When the provider was last asked.
    asked: Option<Timestamp>,
    /// The uid of the node that this pass has cordoned, which the watch may not show yet.
    cordoned: Option<String>,
    answer: Option<Answer>,
    joining: Option<Joining>,
}

impl Pass {
    fn new(key: Key, machine: Machine, sightings: &Sightings) -> Self {
        let (sighting, seen, asked) = match sightings.take(&key, &machine) {
            Some(Taken { sighting, time, swept: true }) => (Some(sighting), Some(time), None),
            Some(Taken { sighting, time, swept: false }) => (Some(sighting), None, Some(time)),
            None => (None, None, None),
        };
        Self { key, machine, sighting, seen, asked, cordoned: None, answer: None, joining: None }
    }

    /// A node as this pass knows it.
    fn known<'a>(&self, node: &'a Node) -> Cow<'a, Node> {
        match &self.cordoned {
            Some(uid) if node.metadata.uid.as_ref() == Some(uid) => Cow::Owned(draining::cordoned(node)),
            _ => Cow::Borrowed(node),
        }
    }

    /// Whether the pass may end here and begin anew with what it asked for. A deletion is judged by what is seen after it.
    fn may_end(&self) -> bool {
        self.answer.is_none() && self.machine.metadata.deletion_timestamp.is_none()
    }
}

/// What follows from one plan.
enum Step {
    /// Plan again.
    On,
    End(Outcome),
}

impl Machines {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let queue = Queue::default();
        Self {
            looks: Looks::start(context.provider.clone()),
            secrets: SecretCache::new(context.world.client.clone()),
            drains: Drains::new(queue.clone()),
            sightings: Sightings::default(),
            looking: Mutex::default(),
            places: Places::new(queue.clone()),
            traces: Traces::default(),
            records: Mutex::default(),
            reported: Mutex::default(),
            written: Mutex::default(),
            started: Instant::now(),
            queue,
            context,
        }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        tokio::join!(queue.run(WORKERS, |key| self.clone().reconcile(key)), self.clone().sweep());
    }

    /// Queues a Machine that changed, unless the change is a write of our own: whoever wrote it goes on by itself.
    pub(crate) fn changed(&self, key: &Key, machine: Option<&Machine>) {
        let mut written = self.written.lock();
        let is_known = match (written.get(key), machine) {
            (Some(own), Some(seen)) if own.metadata.uid == seen.metadata.uid => {
                let is_known = is_as_new(own, seen);
                if is_as_new(seen, own) {
                    written.remove(key);
                }
                is_known
            }
            (Some(_), _) => {
                written.remove(key);
                false
            }
            (None, _) => false,
        };
        drop(written);
        if !is_known {
            self.queue.add(key.clone());
        }
    }

    /// Drains wait for what the budgets allow.
    pub(crate) fn budgets_changed(&self) {
        self.drains.wake();
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> Outcome {
        // Two Machines may claim one instance, so none is acted on while some could be missing.
        if let Err(unread) = self.context.world.machines_known() {
            tracing::debug!(?key, %unread, "nothing is done for the machine");
            return UNREAD;
        }
        let Some(machine) = self.latest(&key) else {
            self.forget(&key);
            return Outcome::Done;
        };
        let mut pass = Pass::new(key.clone(), machine, &self.sightings);
        for _ in 0..ROUNDS {
            match self.round(&mut pass).await {
                Ok(Step::On) => {}
                Ok(Step::End(outcome)) => return outcome,
                Err(Error::Write { source, .. }) if problem(&source) == Problem::NotFound => {
                    self.forget(&key);
                    return Outcome::Done;
                }
                Err(Error::Write { source, .. }) if problem(&source) == Problem::Conflict => {
                    tracing::debug!(?key, "the machine has changed meanwhile");
                    self.written.lock().remove(&key);
                    return Outcome::Retry;
                }
                Err(error) => {
                    tracing::warn!(?key, error = &error as &dyn std::error::Error, "cannot carry out the plan");
                    return Outcome::Retry;
                }
            }
        }
        Outcome::Again(GRID)
    }

    /// One plan and what it asks for.
    async fn round(self: &Arc<Self>, pass: &mut Pass) -> Result<Step, Error> {
        if pass.joining.is_none() {
            pass.joining = self.joining(pass).await;
        }
        let plan = lifecycle::plan(&self.snapshot(pass));
        tracing::debug!(key = ?pass.key, actions = ?plan.actions, next = ?plan.next, "planned");
        let parks = plan.next == Next::Ask(Call::Look) && pass.may_end();
        let mut permit = None;
        if matches!(plan.next, Next::Ask(_)) && !parks {
            permit = self.places.enter(&request::place(&pass.machine, self.context.provider.rules()), &pass.key);
            if permit.is_none() {
                // Nothing of this plan is done, so nothing is lost.
                return Ok(Step::End(Outcome::Again(GRID)));
            }
        }
        let before = pass.machine.metadata.resource_version.clone();
        self.apply(pass, &plan).await?;
        let is_changed = before != pass.machine.metadata.resource_version;
        match plan.next {
            Next::Ask(_) if parks => Ok(self.park(pass).await),
            Next::Ask(call) => {
                self.ask(pass, call).await;
                drop(permit);
                Ok(Step::On)
            }
            Next::OnChange(Waiting::OwnWrite) if is_changed => {
                pass.answer = None;
                Ok(Step::On)
            }
            Next::OnChange(Waiting::Drain) => self.drain(pass).await,
            Next::OnChange(Waiting::Settled) => {
                // What goes wrong from now on is news, also if it went wrong before.
                self.context.forget::<Machine>(&pass.key);
                Ok(Step::End(Outcome::Done))
            }
            Next::OnChange(_) => Ok(Step::End(Outcome::Done)),
            Next::After(delay, _) => Ok(Step::End(Outcome::Again(self.on_grid(positive(delay))))),
        }
    }

    fn snapshot(&self, pass: &Pass) -> Snapshot {
        let rivals = self.rivals(&pass.machine);
        let node = self.linked_node(pass);
        let mut snapshot = Snapshot::from_objects(&pass.machine, [], node, Timestamp::now());
        snapshot.rivals = rivals;
        snapshot.contested = self.contested(&pass.key, &pass.machine);
        snapshot.sighting.clone_from(&pass.sighting);
        (snapshot.seen, snapshot.asked) = (pass.seen, pass.asked);
        snapshot.answer.clone_from(&pass.answer);
        snapshot.joining.clone_from(&pass.joining);
        (snapshot.settling, snapshot.known) = (self.context.provider.settling_time(), self.known(pass));
        snapshot.draft = request::draft(&pass.machine, self.context.provider.rules());
        snapshot
    }

    /// For how long this process has known that the provider was asked as often as the Machine's record says.
    fn known(&self, pass: &Pass) -> Option<SignedDuration> {
        let count = Record::count(&pass.machine)?;
        let mut records = self.records.lock();
        let (known, since) = records.entry(pass.key.clone()).or_insert_with(|| (count.clone(), Instant::now()));
        if *known != count {
            (*known, *since) = (count, Instant::now());
        }
        SignedDuration::try_from(since.elapsed()).ok()
    }

    /// The other Machines that claim the same instance.
    fn rivals(&self, machine: &Machine) -> Vec<Rival> {
        let Some(id) = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty()) else { return Vec::new() };
        let keys = self.context.index.lock().with_provider_id(id);
        let others = keys.iter().filter_map(|key| self.context.world.machines.get(key));
        others.filter_map(|other| Rival::between(machine, &other)).collect()
    }

    /// The node of this Machine, if others have its address too.
    fn contested(&self, key: &Key, machine: &Machine) -> Option<Contested> {
        let index = self.context.index.lock();
        index.nodes_of(machine).into_iter().find_map(|node| {
            let mut keys = index.contenders(&*self.context.world.node(&node)?);
            let before = keys.len();
            keys.retain(|other| other != key);
            let others = keys.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
            (keys.len() < before).then_some(Contested { node, others })
        })
    }

    fn linked_node(&self, pass: &Pass) -> LinkedNode {
        let (world, machine) = (&self.context.world, &pass.machine);
        let Some(name) = node_name(machine) else { return LinkedNode::of(machine, None) };
        if world.nodes_known().is_err() {
            return LinkedNode::Unknown;
        }
        LinkedNode::of(machine, world.node(name).as_deref().map(|node| pass.known(node)).as_deref())
    }

    /// The Machine as it was last seen or written.
    fn latest(&self, key: &Key) -> Option<Machine> {
        let seen = self.context.world.machines.get(key)?;
        let written = self.written.lock();
        let own = written.get(key).filter(|own| own.metadata.uid == seen.metadata.uid && is_as_new(*own, &*seen));
        Some(own.cloned().unwrap_or_else(|| (*seen).clone()))
    }

    fn forget(&self, key: &Key) {
        self.written.lock().remove(key);
        self.drains.finish(key);
        self.sightings.forget(key);
        self.records.lock().remove(key);
        self.looking.lock().remove(key);
        self.context.forget::<Machine>(key);
        self.context.metrics.forget_machine(key);
    }

    /// The end of a wait: short ones to the point, longer ones where others end too.
    fn on_grid(&self, delay: Duration) -> Duration {
        if delay < GRID {
            return delay;
        }
        let end = (self.started.elapsed() + delay).as_secs_f64() / GRID.as_secs_f64();
        Duration::from_secs_f64(end.ceil() * GRID.as_secs_f64()).saturating_sub(self.started.elapsed())
    }
}
