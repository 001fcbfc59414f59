//! Plays what the controllers would do, round by round, on a fleet in memory.

use std::collections::BTreeSet;
use std::fmt::Display;

use api::machine::{Machine, MachineSet, phase};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource, ResourceExt};
use machine::control_plane_set::{self, Etcd};
use machine::{deployment, set};

use super::change::is_controlled;
use super::{Arrival, Departure, Fleet, Plan, Round};

/// A change that is not through after so many rounds never will be.
const ROUNDS: usize = 10_000;

/// New nodes are taken to be ready for so long, so that no `minReadySeconds` holds the rehearsal up.
const READY_FOR: SignedDuration = SignedDuration::from_hours(24 * 365);

/// What the change is about. Everything else goes on as it would without it, and is not told.
#[derive(Default)]
pub(super) struct Concerned {
    /// Uids.
    pub(super) sets: BTreeSet<String>,
    pub(super) deployments: BTreeSet<String>,
    pub(super) control_plane: bool,
}

pub(super) struct Rehearsal<'a> {
    pub(super) fleet: &'a Fleet,
    /// The fleet as it would be.
    pub(super) world: Fleet,
    pub(super) concerned: Concerned,
    round: Round,
    rounds: Vec<Round>,
    notes: Vec<String>,
    /// What the planners wait for at the end.
    waiting: BTreeSet<String>,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        let mut world = fleet.clone();
        // What is on its way out already is as good as gone.
        world.machines.retain(|machine| machine.metadata.deletion_timestamp.is_none());
        let (concerned, round) = (Concerned::default(), Round::default());
        Self { fleet, world, concerned, round, rounds: Vec::new(), notes: Vec::new(), waiting: BTreeSet::new() }
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A machine comes, and serves at once.
    pub(super) fn arrive(&mut self, mut machine: Machine, by: String) {
        let name = machine.name_any();
        machine.metadata.uid = Some(format!("planned Machine {name}"));
        machine.metadata.creation_timestamp = Some(Time(self.fleet.now));
        let status = machine.status.get_or_insert_default();
        status.phase = Some(phase::RUNNING.to_owned());
        status.node_ref = Some(ObjectReference { name: Some(name.clone()), ..ObjectReference::default() });
        self.world.nodes.push(ready_node(&name, self.fleet.now - READY_FOR));
        self.world.machines.push(machine);
        self.round.create.push(Arrival { machine: name, by });
    }

    /// A machine goes, and its node with it.
    pub(super) fn depart(&mut self, machine: &Machine, by: &str, why: &str) {
        let leaving = Departure::of(machine, self.fleet, by, why);
        self.world.nodes.retain(|node| leaving.node.as_ref() != Some(&node.name_any()));
        self.round.delete.push(leaving);
    }

    pub(super) fn play(mut self) -> Plan {
        self.end_round();
        self.tell_of_templates();
        for _ in 0..ROUNDS {
            self.waiting.clear();
            let has_moved = self.step();
            if !self.end_round() && !has_moved {
                break;
            }
        }
        let Self { rounds, mut notes, waiting, .. } = self;
        notes.extend(waiting.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
        Plan { rounds, notes }
    }

    /// Whether anything happened in the round that ends.
    fn end_round(&mut self) -> bool {
        let round = std::mem::take(&mut self.round);
        let is_empty = round.create.is_empty() && round.delete.is_empty();
        if !is_empty {
            self.rounds.push(round);
        }
        !is_empty
    }

    /// Asks every planner that the change concerns once. Says whether something other than a machine changed.
    fn step(&mut self) -> bool {
        let mut has_moved = false;
        for object in concerned(&self.world.deployments, &self.concerned.deployments) {
            has_moved |= self.step_deployment(&object);
        }
        for object in concerned(&self.world.sets, &self.concerned.sets) {
            has_moved |= self.step_set(&object);
        }
        if self.concerned.control_plane {
            self.step_control_plane();
        }
        has_moved
    }

    fn step_deployment(&mut self, object: &api::machine::MachineDeployment) -> bool {
        let namespace = object.namespace();
        let sets = self.world.sets.iter().filter(|set| set.namespace() == namespace).cloned().collect();
        let snapshot = deployment::Snapshot { deployment: object.clone(), sets, now: self.fleet.now };
        let plan = deployment::plan(&snapshot);
        let has_moved = !plan.actions.is_empty();
        for action in plan.actions {
            match action {
                deployment::Action::Adopt { name: _, uid } => {
                    let owner = reference(object);
                    self.change_set(&uid, |set| set.owner_references_mut().push(owner));
                }
                deployment::Action::Create(set) => {
                    let mut set = *set;
                    set.metadata.uid = Some(format!("planned MachineSet {}", set.name_any()));
                    set.metadata.creation_timestamp = Some(Time(self.fleet.now));
                    set.metadata.generation = Some(1);
                    self.world.sets.push(set);
                }
                deployment::Action::Update { name: _, uid, change } => self.change_set(&uid, |set| {
                    let deployment::SetChange { replicas, min_ready_seconds, annotations } = change;
                    set.spec.replicas = replicas.or(set.spec.replicas);
                    set.spec.min_ready_seconds = min_ready_seconds.or(set.spec.min_ready_seconds);
                    set.metadata.generation = set.metadata.generation.map(|generation| generation + 1);
                    for (key, value) in annotations {
                        match value {
                            Some(value) => set.annotations_mut().insert(key, value),
                            None => set.annotations_mut().remove(&key),
                        };
                    }
                }),
                deployment::Action::Delete { name: _, uid } => {
                    self.world.sets.retain(|set| set.uid().as_deref() != Some(&uid));
                }
                deployment::Action::Annotate(annotations) => {
                    let own = self.world.deployments.iter_mut().find(|it| it.uid() == object.uid());
                    own.into_iter().for_each(|own| own.annotations_mut().extend(annotations.clone()));
                }
            }
        }
        let owned = self.world.sets.iter().filter(|set| is_controlled(*set, object)).filter_map(ResourceExt::uid);
        self.concerned.sets.extend(owned.collect::<Vec<_>>());
        if *plan.next.waiting() != deployment::Waiting::Complete {
            self.wait_for("MachineDeployment", object, plan.next.waiting());
        }
        has_moved
    }

    fn change_set(&mut self, uid: &str, change: impl FnOnce(&mut MachineSet)) {
        if let Some(set) = self.world.sets.iter_mut().find(|set| set.uid().as_deref() == Some(uid)) {
            change(set);
        }
    }

    fn set_snapshot(&self, world: &Fleet, object: &MachineSet) -> set::Snapshot {
        let machines = world.machines.iter().filter(|machine| machine.namespace() == object.namespace());
        let node = |name: &str| world.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
        let deployment = world.deployments.iter().find(|it| it.uid().as_ref() == owner.map(|owner| &owner.uid));
        set::Snapshot::from_objects(object, machines, node, self.fleet.now)
            .with_deployment(deployment.filter(|_| owner.is_some()))
    }

    fn step_set(&mut self, object: &MachineSet) -> bool {
        let plan = set::plan(&self.set_snapshot(&self.world, object));
        let by = format!("MachineSet {}", object.name_any());
        let policy = object.spec.delete_policy.as_deref().filter(|policy| !policy.is_empty()).unwrap_or("Random");
        let mut has_moved = false;
        for action in plan.actions {
            match action {
                set::Action::Adopt { name: _, uid } => {
                    has_moved = true;
                    let owner = reference(object);
                    self.change_machine(&uid, |machine| machine.owner_references_mut().push(owner));
                }
                set::Action::Release { name, uid } => {
                    has_moved = true;
                    self.note(format!("{by}: lets go of machine {name}, whose labels its selector does not match"));
                    let owner = object.uid();
                    self.change_machine(&uid, |machine| {
                        machine.owner_references_mut().retain(|it| Some(&it.uid) != owner.as_ref());
                    });
                }
                set::Action::Create(machine) => self.arrive(*machine, by.clone()),
                set::Action::Delete { name: _, uid } => {
                    let why = format!("one too many; deletePolicy {policy}");
                    self.remove_machine(&uid, &by, &why);
                }
                set::Action::Mark { .. } => {}
            }
        }
        // The deployment of the set looks at its status.
        if let Some(now) = self.world.sets.iter().find(|set| set.uid() == object.uid()).cloned() {
            let status = set::plan(&self.set_snapshot(&self.world, &now)).status;
            has_moved |= now.status.as_ref() != Some(&status);
            self.change_set(&now.uid().unwrap_or_default(), |set| set.status = Some(status));
        }
        let (set::Next::OnChange(waiting) | set::Next::After(_, waiting)) = plan.next;
        let is_told = matches!(waiting, set::Waiting::Invalid(_) | set::Waiting::Capacity { .. } | set::Waiting::Nodes);
        if is_told {
            self.wait_for("MachineSet", object, &waiting);
        }
        has_moved
    }

    fn step_control_plane(&mut self) {
        let Some(object) = self.world.control_planes.first().cloned() else { return };
        let machines = self.world.machines.iter().filter(|machine| machine.namespace() == object.namespace());
        let node = |name: &str| self.world.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        // Whether etcd bears it is seen when the time comes.
        let snapshot =
            control_plane_set::Snapshot::from_objects(&object, machines, node, Etcd::Elsewhere, self.fleet.now);
        let plan = control_plane_set::plan(&snapshot);
        let by = "ControlPlaneMachineSet".to_owned();
        for action in plan.actions {
            match action {
                control_plane_set::Action::Adopt { name: _, uid } => {
                    let owner = reference(&object);
                    self.change_machine(&uid, |machine| machine.owner_references_mut().push(owner));
                }
                control_plane_set::Action::Create(machine) => self.arrive(*machine, by.clone()),
                control_plane_set::Action::Delete { name: _, uid } => {
                    self.remove_machine(&uid, &by, "its replacement is ready; etcd must keep its quorum");
                }
            }
        }
        let control_plane_set::Next::OnChange(waiting) = plan.next;
        if waiting != control_plane_set::Waiting::Settled {
            self.wait_for("ControlPlaneMachineSet", &object, &waiting);
        }
    }

    fn wait_for<K: Resource>(&mut self, kind: &str, object: &K, waiting: &dyn Display) {
        self.waiting.insert(format!("{kind} {}: {waiting}", object.name_any()));
    }

    fn change_machine(&mut self, uid: &str, change: impl FnOnce(&mut Machine)) {
        if let Some(machine) = self.world.machines.iter_mut().find(|machine| machine.uid().as_deref() == Some(uid)) {
            change(machine);
        }
    }

    fn remove_machine(&mut self, uid: &str, by: &str, why: &str) {
        let Some(index) = self.world.machines.iter().position(|it| it.uid().as_deref() == Some(uid)) else { return };
        let machine = self.world.machines.remove(index);
        self.depart(&machine, by, why);
    }

    /// A set does not touch machines that it has because its template changes. People expect that it does.
    fn tell_of_templates(&mut self) {
        let mut notes = Vec::new();
        for set in self.world.sets.iter().filter(|it| self.concerned.sets.contains(&it.uid().unwrap_or_default())) {
            let Some(old) = self.fleet.sets.iter().find(|old| old.uid() == set.uid()) else { continue };
            if old.spec.template == set.spec.template {
                continue;
            }
            let differing = self.set_snapshot(&self.world, set).members.into_iter();
            let differing = differing.filter(|member| member.owner == set::Owner::ThisSet && !member.matches_template);
            let mut names: Vec<_> = differing.map(|member| member.name).collect();
            names.sort();
            let name = set.name_any();
            notes.push(match names.as_slice() {
                [] => format!("MachineSet {name}: the new template is for new machines; none differs from it now"),
                names => format!(
                    "MachineSet {name}: no existing machine changes, because a new template is for new machines only; {} \
                     differ from it: {}. Delete them one by one, or let a MachineDeployment replace them",
                    names.len(),
                    names.join(", ")
                ),
            });
        }
        notes.into_iter().for_each(|note| self.note(note));
    }
}

fn concerned<K: Resource + Clone>(objects: &[K], uids: &BTreeSet<String>) -> Vec<K> {
    let is_concerned = |object: &&K| object.meta().uid.as_ref().is_some_and(|uid| uids.contains(uid));
    objects.iter().filter(is_concerned).cloned().collect()
}

/// The owner reference that makes an object a controller.
fn reference<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    object.controller_owner_ref(&()).unwrap_or_default()
}

fn ready_node(name: &str, since: jiff::Timestamp) -> Node {
    let ready = NodeCondition {
        type_: "Ready".to_owned(),
        status: api::names::status::TRUE.to_owned(),
        last_transition_time: Some(Time(since)),
        ..NodeCondition::default()
    };
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.status = Some(NodeStatus { conditions: Some(vec![ready]), ..NodeStatus::default() });
    node
}
