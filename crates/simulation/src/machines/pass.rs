//! One pass over one Machine: plan, write, ask the cloud, plan again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use api::annotations;
use api::labels::MACHINE_CLUSTER;
use api::machine::{Machine, MachineStatus, annotation};
use api::names::MACHINE_FINALIZER;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use machine::draining::{self, Emptying};
use machine::lifecycle::{self, Action, Answer, Call, Joining, LinkedNode, Next, Record, Rival, Waiting};
use machine::provider::{Error, ErrorKind, Instance, Mark, Request, Secrets};

use super::Parties;
use super::api::{Guard, Kept, Refused};
use super::replica::{Asked, Progress, Replica, Seen};
use super::world::World;
use crate::random::Random;

/// How long after its intent was written a creation may begin.
const PROMPT: SignedDuration = SignedDuration::from_secs(30);

/// A sighting is used by the pass that follows at once, or not at all.
const SHORTLY: SignedDuration = SignedDuration::from_secs(30);

/// A pass ends after so many plans.
const ROUNDS: usize = 32;

pub(crate) struct Pass {
    machine: Arc<Machine>,
    sighting: Option<Result<Vec<Instance>, Error>>,
    seen: Option<Timestamp>,
    asked: Option<Timestamp>,
    /// The uid of the node that this pass has cordoned.
    cordoned: Option<String>,
    answer: Option<Answer>,
    stage: Stage,
    rounds: usize,
}

/// Where a pass is.
enum Stage {
    Plan,
    /// Actions and a status to be written, and what follows.
    Apply {
        actions: VecDeque<Action>,
        status: Option<Box<MachineStatus>>,
        next: Next,
        before: Option<String>,
    },
    /// An answer that is on its way.
    Waiting(Answered),
    Drain(Option<Emptying>),
    DrainApply {
        cordon: Option<String>,
        status: Option<Box<MachineStatus>>,
        next: draining::Next,
    },
}

enum Answered {
    Sighting(Result<Vec<Instance>, Error>),
    Answer(Box<Answer>),
}

impl Pass {
    /// Begins a pass on the Machine as this process last saw or wrote it.
    pub(crate) fn new(replica: &mut Replica, name: &str, now: Timestamp) -> Option<Self> {
        let seen = replica.view.machines.objects.get(name)?;
        let version =
            |machine: &Machine| machine.metadata.resource_version.as_ref().and_then(|it| it.parse::<u64>().ok());
        let own = replica.written.get(name).filter(|own| own.uid() == seen.uid() && version(own) >= version(seen));
        let machine = own.unwrap_or(seen).clone();
        let sighting = replica
            .sightings
            .remove(name)
            .filter(|it| !machine.is_leaving() && now.duration_since(it.at) < SHORTLY && it.version == asked(&machine));
        let asked = sighting.as_ref().filter(|it| it.swept.is_none()).map(|it| it.wall);
        let (seen, sighting) = sighting.map(|it| (it.swept, it.sighting)).unzip();
        let (stage, seen) = (Stage::Plan, seen.flatten());
        Some(Self { machine, sighting, seen, asked, cordoned: None, answer: None, stage, rounds: 0 })
    }

    /// Goes on by one write or call.
    pub(crate) fn step(
        &mut self,
        replica: &mut Replica,
        world: &mut World,
        parties: &dyn Parties,
        random: &mut Random,
    ) -> Progress {
        let now = world.now();
        match std::mem::replace(&mut self.stage, Stage::Plan) {
            Stage::Plan => {
                self.rounds += 1;
                if self.rounds > ROUNDS {
                    return Progress::Done(Some(SignedDuration::from_secs(5)));
                }
                let plan = parties.machine(&self.snapshot(replica, world));
                world.tell(|| {
                    format!(
                        "{}: {} plans {:?} then {}",
                        replica.name,
                        self.machine.name(),
                        plan.actions,
                        words(&plan.next)
                    )
                });
                let before = self.machine.metadata.resource_version.clone();
                let status = Some(Box::new(plan.status));
                self.stage = Stage::Apply { actions: plan.actions.into(), status, next: plan.next, before };
                Progress::Going(now)
            }
            Stage::Apply { mut actions, status, next, before } => {
                if let Some(action) = actions.pop_front() {
                    let result = self.act(action, replica, world, random);
                    self.stage = Stage::Apply { actions, status, next, before };
                    return self.after_write(result, now);
                }
                if let Some(status) = status {
                    let result = self.write_status(*status, replica, world, random);
                    self.stage = Stage::Apply { actions, status: None, next, before };
                    return self.after_write(result, now);
                }
                self.follow(next, before, replica, world, random)
            }
            Stage::Waiting(answered) => {
                match answered {
                    Answered::Sighting(sighting) => (self.sighting, self.seen) = (Some(sighting), None),
                    Answered::Answer(answer) => self.answer = Some(*answer),
                }
                Progress::Going(now)
            }
            Stage::Drain(emptying) => self.plan_drain(emptying, replica, world, parties),
            Stage::DrainApply { cordon, status, next } => {
                if let Some(node) = cordon {
                    let result = cordon_node(world, &node, replica, random).map(|uid| self.cordoned = uid);
                    self.stage = Stage::DrainApply { cordon: None, status, next };
                    return self.after_write(result, now);
                }
                if let Some(status) = status {
                    let result = self.write_status(*status, replica, world, random);
                    self.stage = Stage::DrainApply { cordon: None, status: None, next };
                    return self.after_write(result, now);
                }
                self.follow_drain(next, world)
            }
        }
    }

    fn after_write(&mut self, result: Result<(), Refused>, now: Timestamp) -> Progress {
        match result {
            Ok(()) => Progress::Going(now),
            Err(Refused::NotFound) => Progress::Done(None),
            Err(_) => Progress::Retry,
        }
    }

    /// A node as this pass knows it.
    fn known<'a>(&self, node: &'a Node) -> Cow<'a, Node> {
        match &self.cordoned {
            Some(uid) if node.uid() == uid => Cow::Owned(draining::cordoned(node)),
            _ => Cow::Borrowed(node),
        }
    }

    fn snapshot(&self, replica: &mut Replica, world: &World) -> lifecycle::Snapshot {
        let machine = &self.machine;
        let known = Record::count(machine).map(|count| {
            let (known, since) =
                replica.records.entry(machine.name().to_owned()).or_insert_with(|| (count.clone(), world.now()));
            if *known != count {
                (*known, *since) = (count, world.now());
            }
            world.now().duration_since(*since)
        });
        let others = replica.view.machines.objects.values().map(|other| &**other);
        let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        let node = match reference.and_then(|reference| reference.name.as_deref()) {
            Some(_) if !replica.view.nodes.is_known(world.now()) => LinkedNode::Unknown,
            Some(name) => {
                let node = replica.view.nodes.objects.get(name).map(|node| self.known(node));
                LinkedNode::of(machine, node.as_deref())
            }
            None => LinkedNode::of(machine, None),
        };
        let mut snapshot = lifecycle::Snapshot::from_objects(machine, others, node, replica.wall(world));
        snapshot.sighting.clone_from(&self.sighting);
        (snapshot.seen, snapshot.asked) = (self.seen, self.asked);
        snapshot.answer.clone_from(&self.answer);
        (snapshot.settling, snapshot.known) = (world.cloud.settling, known);
        // Some clusters have no config server that could tell.
        snapshot.joining = machine.uid().len().is_multiple_of(2).then_some(Joining::NotServed);
        snapshot
    }

    fn act(
        &mut self,
        action: Action,
        replica: &mut Replica,
        world: &mut World,
        random: &mut Random,
    ) -> Result<(), Refused> {
        match action {
            Action::AddFinalizer => self.edit(replica, world, random, |it| {
                it.metadata.finalizers.get_or_insert_default().push(MACHINE_FINALIZER.to_owned());
            }),
            Action::RemoveFinalizer => self.edit(replica, world, random, |it| {
                it.metadata.finalizers.get_or_insert_default().retain(|it| it != MACHINE_FINALIZER);
            }),
            Action::RecordIntent(record) => {
                let text = serde_json::to_string(&record).unwrap_or_default();
                self.edit(replica, world, random, |it| {
                    let annotations = it.metadata.annotations.get_or_insert_default();
                    annotations.insert(annotation::INSTANCE_INTENT.to_owned(), text);
                })
            }
            Action::Amend(amendment) => self.edit(replica, world, random, |it| {
                it.metadata.annotations.get_or_insert_default().extend(amendment.annotations);
                it.metadata.labels.get_or_insert_default().extend(amendment.labels);
                if amendment.provider_id.is_some() {
                    it.spec.provider_id = amendment.provider_id;
                }
            }),
            Action::DeleteNode { name, uid } => {
                if let Some(happens) = world.whim(random)
                    && !happens
                {
                    return Err(Refused::Unanswered);
                }
                world.tell(|| format!("node {name} is deleted"));
                match world.api.delete::<Node>(&name, &Guard { uid: Some(uid), version: None }) {
                    Ok(()) | Err(Refused::NotFound | Refused::Conflict) => Ok(()),
                    Err(refused) => Err(refused),
                }
            }
            Action::Event { .. } => Ok(()),
        }
    }

    fn write_status(
        &mut self,
        status: MachineStatus,
        replica: &mut Replica,
        world: &mut World,
        random: &mut Random,
    ) -> Result<(), Refused> {
        if self.machine.status.clone().unwrap_or_default() == status {
            return Ok(());
        }
        self.edit(replica, world, random, |it| it.status = Some(status))
    }

    /// One guarded write to the Machine.
    fn edit(
        &mut self,
        replica: &mut Replica,
        world: &mut World,
        random: &mut Random,
        edit: impl FnOnce(&mut Machine),
    ) -> Result<(), Refused> {
        let whim = world.whim(random);
        if whim == Some(false) {
            return Err(Refused::Unanswered);
        }
        let name = self.machine.name().to_owned();
        let edited = world.api.edit::<Machine>(&name, &self.machine.guard(), edit);
        if whim == Some(true) {
            return Err(Refused::Unanswered);
        }
        match edited {
            Ok(machine) => {
                self.machine = machine.clone();
                replica.written.insert(name, machine);
                Ok(())
            }
            Err(refused) => {
                replica.written.remove(&name);
                Err(refused)
            }
        }
    }

    /// What follows when the actions and the status are written.
    fn follow(
        &mut self,
        next: Next,
        before: Option<String>,
        replica: &mut Replica,
        world: &mut World,
        random: &mut Random,
    ) -> Progress {
        let now = world.now();
        match next {
            Next::Ask(call) => self.ask(call, replica, world, random),
            Next::OnChange(Waiting::OwnWrite) if before != self.machine.metadata.resource_version => {
                self.answer = None;
                Progress::Going(now)
            }
            Next::OnChange(Waiting::Drain) => {
                self.stage = Stage::Drain(None);
                Progress::Going(now)
            }
            Next::OnChange(_) => Progress::Done(None),
            Next::After(delay, _) => Progress::Done(Some(delay)),
        }
    }

    fn ask(&mut self, call: Call, replica: &mut Replica, world: &mut World, random: &mut Random) -> Progress {
        let (now, wall) = (world.now(), replica.wall(world));
        let request = request(&self.machine);
        self.asked = Some(wall);
        let (at, answered) = match call {
            Call::Look => {
                let sighting = world.cloud.look(&request, random);
                if self.answer.is_none() && !self.machine.is_leaving() && random.once_in(2) {
                    // Nobody waits: the answer begins another pass.
                    let name = self.machine.name().to_owned();
                    let swept = random.once_in(4).then_some(wall);
                    let seen = Seen { at: now, wall, swept, version: asked(&self.machine), sighting };
                    replica.sightings.insert(name, seen);
                    return Progress::Done(Some(random.seconds(3)));
                }
                (now + random.seconds(2), Answered::Sighting(sighting))
            }
            Call::Create(intent) => {
                let written = Record::of(&self.machine).map(|record| wall.duration_since(record.last_try));
                if written.is_none_or(|age| age.abs() > PROMPT) {
                    let late = Error::new(ErrorKind::Unreachable, "the creation could not begin in time");
                    self.stage = Stage::Waiting(Answered::Answer(Box::new(Answer::Created(Err(late)))));
                    return Progress::Going(now);
                }
                let reply = world.cloud.create(&request, &intent, random);
                world.tell(|| {
                    format!(
                        "creation for {}: {:?}",
                        request.mark.machine,
                        reply.answer.as_ref().map(|it| &it.provider_id)
                    )
                });
                (reply.at, Answered::Answer(Box::new(Answer::Created(reply.answer))))
            }
            Call::Update(instance) => {
                let answer = world.cloud.update(&instance, random);
                (now + random.seconds(2), Answered::Answer(Box::new(Answer::Updated(answer))))
            }
            Call::Delete => {
                let (taken, reply) = world.cloud.delete(&request, random);
                world.judge_removal(&self.machine, &taken);
                (self.sighting, self.seen) = (None, None);
                (reply.at, Answered::Answer(Box::new(Answer::Deleted(reply.answer))))
            }
        };
        self.stage = Stage::Waiting(answered);
        Progress::Going(at)
    }

    fn plan_drain(
        &mut self,
        emptying: Option<Emptying>,
        replica: &Replica,
        world: &mut World,
        parties: &dyn Parties,
    ) -> Progress {
        let now = world.now();
        let known = replica.view.nodes.is_known(now);
        let nodes: Vec<_> = replica.view.nodes.objects.values().map(|node| self.known(node)).collect();
        let nodes: Vec<&Node> = nodes.iter().map(|node| &**node).collect();
        let leaving = |node: &Node| {
            let name = node.metadata.annotations.as_ref()?.get(annotations::MACHINE)?;
            let machine = replica.view.machines.objects.get(name.split_once('/')?.1)?;
            machine.metadata.deletion_timestamp.as_ref().map(|time| time.0)
        };
        let others = replica.view.machines.objects.values();
        let rivals = others.filter_map(|other| Rival::between(&self.machine, other)).map(|rival| rival.name).collect();
        let wall = replica.wall(world);
        let mut snapshot =
            draining::Snapshot::from_objects(&self.machine, known.then_some(nodes.as_slice()), leaving, rivals, wall);
        snapshot.emptying = emptying;
        let plan = parties.drain(&snapshot);
        let cordon = plan.actions.iter().find_map(|action| match action {
            draining::Action::Cordon { node } => Some(node.clone()),
            draining::Action::Event { .. } => None,
        });
        self.stage = Stage::DrainApply { cordon, status: Some(Box::new(plan.status)), next: plan.next };
        Progress::Going(now)
    }

    fn follow_drain(&mut self, next: draining::Next, world: &mut World) -> Progress {
        let now = world.now();
        self.rounds += 1;
        if self.rounds > ROUNDS {
            return Progress::Done(Some(SignedDuration::from_secs(5)));
        }
        match next {
            draining::Next::Empty { node, unreachable } => {
                self.stage = Stage::Drain(Some(world.hosts.empty(&node, unreachable, now)));
                Progress::Going(now)
            }
            draining::Next::OnChange(draining::Waiting::Drained) => Progress::Going(now),
            draining::Next::OnChange(_) => Progress::Done(None),
            draining::Next::After(delay, _) => Progress::Done(Some(delay)),
        }
    }
}

/// Makes a node unschedulable and gives its uid.
fn cordon_node(
    world: &mut World,
    node: &str,
    replica: &Replica,
    random: &mut Random,
) -> Result<Option<String>, Refused> {
    if world.whim(random) == Some(false) {
        return Err(Refused::Unanswered);
    }
    let uid = replica.view.nodes.objects.get(node).map(|node| node.uid().to_owned());
    let cordon = |node: &mut Node| node.spec.get_or_insert_default().unschedulable = Some(true);
    match world.api.edit::<Node>(node, &Guard { uid, version: None }, cordon) {
        Ok(node) => Ok(Some(node.uid().to_owned())),
        Err(Refused::NotFound | Refused::Conflict) => Ok(None),
        Err(refused) => Err(refused),
    }
}

fn words(next: &Next) -> String {
    match next {
        Next::Ask(Call::Look) => "look".to_owned(),
        Next::Ask(Call::Create(_)) => "create".to_owned(),
        Next::Ask(Call::Update(_)) => "update".to_owned(),
        Next::Ask(Call::Delete) => "delete".to_owned(),
        Next::OnChange(waiting) => format!("wait: {waiting}"),
        Next::After(delay, waiting) => format!("wait {delay:#}: {waiting}"),
    }
}

fn asked(machine: &Machine) -> Asked {
    let intent = Record::of(machine).map(|record| (record.intent.token, record.last_try));
    (machine.uid().to_owned(), machine.spec.provider_id.clone(), intent)
}

/// What the cloud is told about a Machine.
fn request(machine: &Machine) -> Request {
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    Request {
        mark: Mark {
            cluster: labels.get(MACHINE_CLUSTER).cloned().unwrap_or_default(),
            namespace: machine.metadata.namespace.clone().unwrap_or_default(),
            machine: machine.name().to_owned(),
            uid: machine.uid().to_owned(),
        },
        control_plane: false,
        spec: Arc::new(lifecycle::request_spec(machine).unwrap_or_default()),
        provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
        provider_status: machine.status.as_ref().and_then(|status| status.provider_status.clone()),
        intent: Record::of(machine).map(|record| record.intent),
        secrets: Arc::new(Secrets::default()),
        labels,
    }
}
