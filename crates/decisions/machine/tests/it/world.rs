//! A world in memory: machines, sets and nodes, the cloud's account, and controllers that die on command.
//!
//! Every write and every call to the cloud is one effect. A process that dies does so between two of them; what it had
//! decided is lost, and the next process starts from the objects and the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations;
use api::machine::{Machine, MachineDeployment, MachineSet, annotation};
use api::names::MACHINE_FINALIZER;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use machine::lifecycle::{self, Answer, Call, LinkedNode, Record};
use machine::provider::{Error, ErrorKind, Mark, Request, Secrets};
use machine::{deployment, draining, link, set};
use serde_json::json;

use crate::cloud::{self, Account};
use crate::make::now;

/// The process died.
#[derive(Debug)]
pub(crate) struct Died;

pub(crate) struct World {
    pub(crate) machines: BTreeMap<String, Machine>,
    pub(crate) sets: BTreeMap<String, MachineSet>,
    pub(crate) deployments: BTreeMap<String, MachineDeployment>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) cloud: Account,
    /// What the set controller sees of the machines when its view lags behind.
    pub(crate) stale_machines: Option<Vec<Machine>>,
    /// How many more effects the process lives for.
    pub(crate) lives_for: Option<usize>,
    pub(crate) effects: usize,
    /// The largest number of instances at once, and whether any machine ever had two.
    pub(crate) peak: usize,
    pub(crate) doubles: Vec<String>,
    uids: u32,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            machines: BTreeMap::new(),
            sets: BTreeMap::new(),
            deployments: BTreeMap::new(),
            nodes: BTreeMap::new(),
            cloud: Account { now: now(), ..Account::default() },
            stale_machines: None,
            lives_for: None,
            effects: 0,
            peak: 0,
            doubles: Vec::new(),
            uids: 0,
        }
    }

    pub(crate) fn add_set(&mut self, mut set: MachineSet) {
        set.metadata.uid = Some(self.uid());
        set.metadata.generation = Some(1);
        self.sets.insert(set.metadata.name.clone().unwrap(), set);
    }

    pub(crate) fn scale(&mut self, name: &str, replicas: i32) {
        let set = self.sets.get_mut(name).unwrap();
        set.spec.replicas = Some(replicas);
        *set.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Someone asks for the deletion of a machine.
    pub(crate) fn delete_machine(&mut self, name: &str) {
        let at = Time(self.cloud.now);
        if let Some(machine) = self.machines.get_mut(name) {
            machine.metadata.deletion_timestamp.get_or_insert(at);
        }
        self.collect();
    }

    /// Lets controllers work and time pass until nothing changes any more. Says whether that happened.
    pub(crate) fn settle(&mut self) -> bool {
        for _ in 0..400 {
            let before = self.effects;
            if self.tick().is_err() {
                self.lives_for = None;
                continue;
            }
            let busy = !self.cloud.lingering.is_empty();
            self.pass(SignedDuration::from_secs(10));
            if self.effects == before && !busy && self.is_calm() {
                return true;
            }
        }
        false
    }

    /// Whether every machine rests, so that more time changes nothing.
    fn is_calm(&self) -> bool {
        let rests = |machine: &Machine| {
            let phase = machine.status.as_ref().and_then(|status| status.phase.as_deref());
            machine.metadata.deletion_timestamp.is_none() && matches!(phase, Some("Running" | "Failed"))
        };
        self.machines.values().all(rests)
            && self.sets.values().all(|set| {
                let kept = set.status.as_ref().and_then(|status| status.replicas);
                kept == set.spec.replicas
            })
    }

    /// One round of all controllers.
    pub(crate) fn tick(&mut self) -> Result<(), Died> {
        for name in self.deployments.keys().cloned().collect::<Vec<_>>() {
            self.reconcile_deployment(&name)?;
        }
        for name in self.sets.keys().cloned().collect::<Vec<_>>() {
            self.reconcile_set(&name)?;
        }
        for name in self.machines.keys().cloned().collect::<Vec<_>>() {
            self.reconcile_machine(&name)?;
            self.drain_machine(&name)?;
        }
        self.boot();
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.link_node(&name)?;
        }
        Ok(())
    }

    pub(crate) fn pass(&mut self, time: SignedDuration) {
        self.cloud.pass(time);
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// One write or call. The process may die before it.
    fn effect(&mut self) -> Result<(), Died> {
        if let Some(left) = &mut self.lives_for {
            if *left == 0 {
                return Err(Died);
            }
            *left -= 1;
        }
        self.effects += 1;
        Ok(())
    }

    /// Whether instances and machines agree: one instance for each machine, and no other.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let uids: Vec<_> = self.machines.values().map(|machine| machine.metadata.uid.clone().unwrap()).collect();
        let orphans = self.cloud.entries.iter().filter(|entry| !uids.contains(&entry.mark.uid));
        orphans.map(|entry| format!("{} of {}", entry.id, entry.mark.machine)).collect()
    }

    fn watch_account(&mut self) {
        let mut by_uid: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in self.cloud.entries.iter().filter(|entry| !entry.deleting) {
            *by_uid.entry(entry.mark.uid.as_str()).or_default() += 1;
        }
        self.peak = self.peak.max(by_uid.len());
        self.doubles.extend(by_uid.iter().filter(|(_, count)| **count > 1).map(|(uid, _)| (*uid).to_owned()));
    }

    fn reconcile_deployment(&mut self, name: &str) -> Result<(), Died> {
        let snapshot = deployment::Snapshot {
            deployment: self.deployments[name].clone(),
            sets: self.sets.values().cloned().collect(),
            now: self.cloud.now,
        };
        let plan = deployment::plan(&snapshot);
        for action in plan.actions {
            self.effect()?;
            match action {
                deployment::Action::Adopt { .. } => {}
                deployment::Action::Create(set) => {
                    let at = Time(self.cloud.now);
                    let mut set = *set;
                    set.metadata.creation_timestamp = Some(at);
                    self.add_set(set);
                }
                deployment::Action::Update { name, change, .. } => {
                    let set = self.sets.get_mut(&name).unwrap();
                    if change.replicas.is_some() {
                        set.spec.replicas = change.replicas;
                        *set.metadata.generation.as_mut().unwrap() += 1;
                    }
                    let annotations = set.metadata.annotations.get_or_insert_default();
                    for (key, value) in change.annotations {
                        match value {
                            Some(value) => annotations.insert(key, value),
                            None => annotations.remove(&key),
                        };
                    }
                }
                deployment::Action::Delete { name, .. } => {
                    self.sets.remove(&name);
                }
                deployment::Action::Annotate(more) => {
                    let deployment = self.deployments.get_mut(name).unwrap();
                    deployment.metadata.annotations.get_or_insert_default().extend(more);
                }
            }
        }
        self.deployments.get_mut(name).unwrap().status = Some(plan.status);
        Ok(())
    }

    fn reconcile_set(&mut self, name: &str) -> Result<(), Died> {
        let set = self.sets[name].clone();
        let machines = self.stale_machines.take().unwrap_or_else(|| self.machines.values().cloned().collect());
        let node = |name: &str| self.nodes.get(name);
        let plan = set::plan(&set::Snapshot::from_objects(&set, &machines, node, self.cloud.now));
        for action in plan.actions {
            self.effect()?;
            match action {
                set::Action::Adopt { name, .. } => {
                    let owner = OwnerReference {
                        uid: set.metadata.uid.clone().unwrap(),
                        controller: Some(true),
                        ..OwnerReference::default()
                    };
                    let machine = self.machines.get_mut(&name).unwrap();
                    machine.metadata.owner_references.get_or_insert_default().push(owner);
                }
                set::Action::Release { name, .. } => {
                    self.machines.get_mut(&name).unwrap().metadata.owner_references = None;
                }
                set::Action::Create(machine) => {
                    let (uid, at) = (self.uid(), Time(self.cloud.now));
                    let name = machine.metadata.name.clone().unwrap();
                    let machine = self.machines.entry(name).or_insert(*machine);
                    machine.metadata.uid.get_or_insert(uid);
                    machine.metadata.creation_timestamp.get_or_insert(at);
                }
                set::Action::Delete { name, uid } => {
                    let same = |machine: &&Machine| machine.metadata.uid.as_deref() == Some(&uid);
                    if self.machines.get(&name).filter(same).is_some() {
                        self.delete_machine(&name);
                    }
                }
                set::Action::Mark { name, matches } => {
                    if let Some(machine) = self.machines.get_mut(&name) {
                        let annotations = machine.metadata.annotations.get_or_insert_default();
                        annotations.insert(annotation::MATCHES_TEMPLATE.to_owned(), matches.to_string());
                    }
                }
            }
        }
        self.sets.get_mut(name).unwrap().status = Some(plan.status);
        Ok(())
    }

    fn request(&self, machine: &Machine) -> Request {
        let record = Record::of(machine);
        Request {
            mark: Mark {
                cluster: "c".to_owned(),
                namespace: "ns".to_owned(),
                machine: machine.metadata.name.clone().unwrap(),
                uid: machine.metadata.uid.clone().unwrap(),
            },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(lifecycle::request_spec(machine).unwrap_or_default()),
            provider_id: machine.spec.provider_id.clone(),
            provider_status: machine.status.as_ref().and_then(|status| status.provider_status.clone()),
            intent: record.map(|record| record.intent),
            secrets: Arc::new(Secrets::default()),
        }
    }

    pub(crate) fn reconcile_machine(&mut self, name: &str) -> Result<(), Died> {
        let (mut sighting, mut answer) = (None, None);
        loop {
            let Some(machine) = self.machines.get(name).cloned() else { return Ok(()) };
            let found = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            let found = found.and_then(|reference| self.nodes.get(reference.name.as_deref().unwrap_or_default()));
            let node = LinkedNode::of(&machine, found);
            let others: Vec<_> = self.machines.values().collect();
            let mut snapshot = lifecycle::Snapshot::from_objects(&machine, others, node, self.cloud.now);
            snapshot.sighting = sighting.clone();
            snapshot.answer.clone_from(&answer);
            snapshot.settling = self.cloud.settling;
            let spec = machine.spec.provider_spec.as_ref().and_then(|spec| spec.value.clone()).unwrap_or_default();
            snapshot.draft.place = cloud::place(&spec);
            let plan = lifecycle::plan(&snapshot);
            self.carry_out(name, plan.actions)?;
            self.write_status(name, plan.status)?;
            let lifecycle::Next::Ask(call) = plan.next else { return Ok(()) };
            let Some(machine) = self.machines.get(name).cloned() else { return Ok(()) };
            let request = self.request(&machine);
            if !matches!(call, Call::Look | Call::Update(_)) {
                self.effect()?;
            }
            // A spec that cannot be read is refused by every call.
            let refusal = Error::new(ErrorKind::InvalidSpec, "no such type");
            let readable = if request.spec["broken"] == json!(true) { Err(refusal) } else { Ok(()) };
            match call {
                Call::Look => sighting = Some(readable.map(|()| self.cloud.look(&request, None))),
                Call::Create(intent) => {
                    answer = Some(Answer::Created(self.cloud.create(&request, &intent, None)));
                    self.watch_account();
                    // The answer may be lost: the process dies between the call and the next write.
                }
                Call::Update(instance) => answer = Some(Answer::Updated(Ok(*instance))),
                Call::Delete => {
                    answer = Some(Answer::Deleted(readable.map(|()| self.cloud.delete(&request, None))));
                    sighting = None;
                }
            }
        }
    }

    fn carry_out(&mut self, name: &str, actions: Vec<lifecycle::Action>) -> Result<(), Died> {
        for action in actions {
            self.effect()?;
            let machine = self.machines.get_mut(name).unwrap();
            match action {
                lifecycle::Action::AddFinalizer => {
                    machine.metadata.finalizers.get_or_insert_default().push(MACHINE_FINALIZER.to_owned());
                }
                lifecycle::Action::RemoveFinalizer => machine.metadata.finalizers = None,
                lifecycle::Action::RecordIntent(record) => {
                    let text = serde_json::to_string(&record).unwrap();
                    let annotations = machine.metadata.annotations.get_or_insert_default();
                    annotations.insert(annotation::INSTANCE_INTENT.to_owned(), text);
                }
                lifecycle::Action::Amend(amendment) => {
                    machine.metadata.annotations.get_or_insert_default().extend(amendment.annotations);
                    machine.metadata.labels.get_or_insert_default().extend(amendment.labels);
                    if amendment.provider_id.is_some() {
                        machine.spec.provider_id = amendment.provider_id;
                    }
                }
                lifecycle::Action::DeleteNode { name, .. } => {
                    self.nodes.remove(&name);
                }
                lifecycle::Action::Event { .. } => {}
            }
            self.collect();
        }
        Ok(())
    }

    fn write_status(&mut self, name: &str, status: api::machine::MachineStatus) -> Result<(), Died> {
        let changed = self.machines.get(name).is_some_and(|it| it.status.clone().unwrap_or_default() != status);
        if changed {
            self.effect()?;
            self.machines.get_mut(name).unwrap().status = Some(status);
        }
        Ok(())
    }

    /// The API server removes what is deleted and has no finalizers.
    fn collect(&mut self) {
        self.machines.retain(|_, machine| {
            let free = machine.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
            !(machine.metadata.deletion_timestamp.is_some() && free)
        });
    }

    fn drain_machine(&mut self, name: &str) -> Result<(), Died> {
        let Some(machine) = self.machines.get(name).cloned() else { return Ok(()) };
        let nodes: Vec<_> = self.nodes.values().collect();
        let rivals = self.machines.values().filter_map(|other| lifecycle::Rival::between(&machine, other));
        let rivals = rivals.map(|rival| rival.name).collect();
        let mut snapshot = draining::Snapshot::from_objects(&machine, Some(&nodes), |_| None, rivals, self.cloud.now);
        let mut plan = draining::plan(&snapshot);
        if let draining::Next::Empty { node, .. } = &plan.next {
            let node = node.clone();
            self.effect()?;
            self.nodes.get_mut(&node).unwrap().spec.get_or_insert_default().unschedulable = Some(true);
            snapshot.emptying = Some(draining::Emptying::default());
            plan = draining::plan(&snapshot);
        }
        self.write_status(name, plan.status)
    }

    /// Instances that run become nodes.
    fn boot(&mut self) {
        let running = self.cloud.entries.iter().filter(|entry| !entry.deleting && entry.failed.is_none());
        let booted: Vec<_> = running
            .filter(|entry| self.cloud.now.duration_since(entry.created) >= SignedDuration::from_secs(30))
            .map(|entry| entry.id.clone())
            .collect();
        for id in booted {
            let name = format!("node-{}", id.rsplit('/').next().unwrap());
            let ready = Time(self.cloud.now);
            self.nodes.entry(name.clone()).or_insert_with(|| {
                serde_json::from_value(json!({
                    "metadata": {"name": name, "uid": format!("uid-of-{name}")},
                    "spec": {"providerID": id},
                    "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ready}]},
                }))
                .unwrap()
            });
        }
    }

    fn link_node(&mut self, name: &str) -> Result<(), Died> {
        let Some(node) = self.nodes.get(name).cloned() else { return Ok(()) };
        let mut index = link::Index::default();
        self.machines.values().for_each(|machine| index.put(link::Key::of(machine), link::Identity::of(machine)));
        let machine = match index.machine_of(&link::Identity::of_node(&node)) {
            link::Match::One(key) => link::Match::One(&self.machines[&key.name]),
            link::Match::None => link::Match::None,
            link::Match::Several { by, keys } => link::Match::Several { by, keys },
        };
        let linked = match &machine {
            link::Match::One(machine) => machine.status.as_ref().and_then(|status| status.node_ref.as_ref()),
            link::Match::None | link::Match::Several { .. } => None,
        };
        let linked = linked.and_then(|reference| self.nodes.get(reference.name.as_deref()?));
        let plan = link::plan(&link::Snapshot { node: &node, machine, linked });
        for action in plan.actions {
            self.effect()?;
            match action {
                link::Action::SetNodeRef { machine, node_ref } => {
                    let status = self.machines.get_mut(&machine.name).unwrap().status.get_or_insert_default();
                    status.node_ref = Some(node_ref);
                }
                link::Action::PatchNode(patch) => {
                    let node = self.nodes.get_mut(name).unwrap();
                    let annotations = node.metadata.annotations.get_or_insert_default();
                    for (key, value) in patch.annotations {
                        annotations.insert(key, value.unwrap_or_default());
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn running(&self) -> usize {
        let is_running = |machine: &&Machine| {
            machine.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
                && machine.metadata.deletion_timestamp.is_none()
        };
        self.machines.values().filter(is_running).count()
    }

    /// Machines that have a node and are not on their way out.
    pub(crate) fn serving(&self) -> usize {
        let serves = |machine: &&Machine| {
            machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
                && machine.metadata.deletion_timestamp.is_none()
        };
        self.machines.values().filter(serves).count()
    }

    /// Nodes whose machine is gone.
    pub(crate) fn ghosts(&self) -> Vec<String> {
        let linked = |node: &Node| {
            let link = node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::MACHINE));
            link.is_some_and(|link| self.machines.contains_key(link.trim_start_matches("ns/")))
        };
        self.nodes.iter().filter(|(_, node)| !linked(node)).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn clock(&self) -> Timestamp {
        self.cloud.now
    }
}
