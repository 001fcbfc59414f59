//! Plans of everything but single Machines, turned into writes.

use std::collections::VecDeque;
use std::sync::Arc;

use api::machine::{Machine, MachineHealthCheck, MachineSet, annotation};
use api::selector::Selector;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use machine::control_plane_set;
use machine::set::Readiness;
use machine::{deployment, health, link, orphans, set};

use super::api::{Guard, Kept};
use super::cloud::CLUSTER;
use super::pass::Pass;
use super::replica::{Job, Key, Replica, What, Writes};
use super::world::{Why, World};
use super::write::{Status, Write};
use super::{Kind, Parties};
use crate::random::Random;

/// How soon to look again at what could not be read.
const UNREAD: SignedDuration = SignedDuration::from_secs(5);

/// How often etcd is asked whether it can spare a member.
const QUORUM: SignedDuration = SignedDuration::from_secs(10);

/// How often a node looks whether its Machine still keeps another one.
const OTHER_NODE: SignedDuration = SignedDuration::from_secs(15);

/// A job, or when to look again.
type Planned = Result<Job, Option<SignedDuration>>;

impl Replica {
    pub(crate) fn plan(&mut self, world: &mut World, key: &Key, parties: &dyn Parties, random: &mut Random) -> Planned {
        let now = world.now();
        let view = &self.view;
        let (machines, nodes) = (view.machines.is_known(now), view.nodes.is_known(now));
        let is_known = match key.what {
            What::Machine => machines,
            What::Orphans => machines && view.sets.is_known(now),
            What::Set => machines && nodes && view.sets.is_known(now),
            What::Deployment => view.sets.is_known(now) && view.deployments.is_known(now),
            What::Check => {
                machines
                    && nodes
                    && view.sets.is_known(now)
                    && view.control_planes.is_known(now)
                    && view.checks.is_known(now)
            }
            What::ControlPlane => machines && nodes && view.control_planes.is_known(now),
            What::Node => machines && nodes,
        };
        if !is_known {
            return Err(Some(UNREAD));
        }
        match key.what {
            What::Machine => Pass::new(self, &key.name, now).map(|pass| Job::Pass(Box::new(pass))).ok_or(None),
            What::Set => self.plan_set(world, key, parties),
            What::Deployment => self.plan_deployment(world, key, parties),
            What::Check => self.plan_check(world, key, parties),
            What::ControlPlane => self.plan_control_plane(world, key, parties),
            What::Node => self.plan_node(key, parties),
            What::Orphans => self.plan_orphans(world, parties, random),
        }
    }

    fn plan_set(&mut self, world: &mut World, key: &Key, parties: &dyn Parties) -> Planned {
        let Some(set) = self.view.sets.objects.get(&key.name).cloned() else { return Err(None) };
        let claim = set.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CLAIM));
        let foreign = self.foreign_claim(key, claim, world.now());
        if self.expects(key) {
            return Err(Some(SignedDuration::from_millis(500)));
        }
        let machines = self.view.machines.objects.values().map(|machine| &**machine);
        let node = |name: &str| self.view.nodes.objects.get(name).map(|node| &**node);
        let owner = set.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "MachineDeployment");
        let deployment = owner.and_then(|owner| self.view.deployments.objects.get(&owner.name));
        let snapshot = set::Snapshot::from_objects(&set, machines, node, self.wall(world));
        let mut snapshot = snapshot.with_deployment(deployment.map(|it| &**it));
        let prefix = set::name_prefix(set.name());
        let in_the_way = self
            .view
            .nodes
            .objects
            .keys()
            .filter(|name| name.starts_with(&prefix) && !self.view.machines.objects.contains_key(*name));
        snapshot.taken.extend(in_the_way.cloned());
        let plan = parties.set(&snapshot);
        let owner = reference("MachineSet", set.name(), set.uid());
        let is_there = world.api.get::<MachineSet>(set.name());
        let may_adopt = is_there.is_some_and(|it| it.uid() == set.uid() && !it.is_leaving());
        let mut writes: VecDeque<Write> = VecDeque::new();
        let takes_away = plan.actions.iter().any(|action| matches!(action, set::Action::Delete { .. }));
        if takes_away
            && parties.claims()
            && let Some(wait) = foreign
        {
            return Err(Some(wait));
        }
        for action in plan.actions {
            writes.push_back(match action {
                set::Action::Adopt { .. } if !may_adopt => return Err(Some(UNREAD)),
                set::Action::Adopt { name, uid } => Write::AdoptMachine { name, uid, owner: owner.clone() },
                set::Action::Release { name, uid } => Write::ReleaseMachine { name, uid, owner: set.uid().to_owned() },
                set::Action::Create(machine) => Write::CreateMachine(machine),
                set::Action::Delete { name, uid } => Write::DeleteMachine {
                    name,
                    uid,
                    why: Why::Set(set.name().to_owned(), set.spec.replicas.unwrap_or(0)),
                },
                set::Action::Mark { name, matches } => Write::Mark { name, matches },
            });
        }
        if set.status.clone().unwrap_or_default() != plan.status {
            let status = Write::Status(Box::new(Status::Set(plan.status)));
            writes.push_back(status);
        }
        if takes_away {
            writes.push_front(Write::Claim(format!("{} {}", self.name, world.now())));
        }
        let then = match plan.next {
            set::Next::OnChange(_) => None,
            set::Next::After(delay, _) => Some(delay),
        };
        Ok(writing(writes, set.guard(), true, then))
    }

    fn plan_deployment(&mut self, world: &World, key: &Key, parties: &dyn Parties) -> Planned {
        let Some(object) = self.view.deployments.objects.get(&key.name).cloned() else { return Err(None) };
        let sets = &self.view.sets.objects;
        let version = |set: &MachineSet| set.metadata.resource_version.as_ref().and_then(|it| it.parse::<u64>().ok());
        let is_ahead = |own: &MachineSet, seen: &MachineSet| own.uid() == seen.uid() && version(own) > version(seen);
        self.resized.retain(|name, own| sets.get(name).is_some_and(|seen| is_ahead(own, seen)));
        // Sets as they were last seen or written.
        let latest = |set: &Arc<MachineSet>| self.resized.get(set.name()).unwrap_or(set).clone();
        let sets: Vec<_> = sets.values().map(|set| (*latest(set)).clone()).collect();
        let snapshot = deployment::Snapshot { deployment: (*object).clone(), sets, now: self.wall(world) };
        let plan = parties.deployment(&snapshot);
        let owner = reference("MachineDeployment", object.name(), object.uid());
        let guard = |uid: &str| {
            let set = snapshot.sets.iter().find(|set| set.uid() == uid);
            set.map(Kept::guard).unwrap_or_default()
        };
        let replicas = object.spec.replicas.unwrap_or(1);
        let rolling = object.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = match rolling.and_then(|rolling| rolling.max_surge.as_ref()) {
            Some(IntOrString::Int(surge)) => *surge,
            Some(IntOrString::String(_)) | None => 1,
        };
        let mut writes = VecDeque::new();
        for action in plan.actions {
            writes.push_back(match action {
                deployment::Action::Adopt { name, uid } => Write::AdoptSet { name, uid, owner: owner.clone() },
                deployment::Action::Create(set) => Write::CreateSet(set),
                deployment::Action::Update { name, uid, change } => Write::UpdateSet {
                    name,
                    guard: guard(&uid),
                    change,
                    most: replicas + surge,
                    deployment: key.name.clone(),
                    generation: object.metadata.generation,
                    by: self.name,
                },
                deployment::Action::Delete { name, uid } => Write::DeleteSet { name, guard: guard(&uid) },
                deployment::Action::Annotate(annotations) => Write::Annotate(annotations),
            });
        }
        if object.status.clone().unwrap_or_default() != plan.status {
            writes.push_back(Write::Status(Box::new(Status::Deployment(plan.status))));
        }
        let then = match plan.next {
            deployment::Next::OnChange(_) => None,
            deployment::Next::After(delay, _) => Some(delay),
        };
        Ok(writing(writes, object.guard(), false, then))
    }

    fn plan_check(&mut self, world: &mut World, key: &Key, parties: &dyn Parties) -> Planned {
        let now = world.now();
        let Some(check) = self.view.checks.objects.get(&key.name).cloned() else { return Err(None) };
        let claim = check.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CLAIM));
        let foreign = self.foreign_claim(key, claim, now);
        if self.expects(key) {
            return Err(Some(SignedDuration::from_millis(500)));
        }
        let machines = self.view.machines.objects.values().map(|machine| &**machine);
        let node = |name: &str| Ok(self.view.nodes.objects.get(name).map(|node| &**node));
        let sets = self.view.sets.objects.values().map(|set| &**set);
        let snapshot = health::Snapshot::from_objects(&check, machines.clone(), node, self.wall(world));
        let control_planes = self.view.control_planes.objects.values().map(|set| &**set);
        let mut snapshot = snapshot.with_sets(sets, machines.clone()).with_control_planes(control_planes, machines);
        let known = self.suspected.get(&key.name).cloned().unwrap_or_default();
        // Timeouts are measured by a clock that nobody sets, and told in the time of the planner.
        let told = known.iter().map(|(name, since)| (name.clone(), *since + self.clock));
        snapshot.suspected = Some(told.collect());
        snapshot.strength = self.strength.get(&key.name).cloned();
        let plan = parties.check(&snapshot);
        if let Some(strength) = &plan.strength {
            self.strength.insert(key.name.clone(), strength.clone());
        }
        let suspected = plan.suspected(&snapshot).into_keys();
        let suspected = suspected.map(|name| (name.clone(), known.get(&name).copied().unwrap_or(now))).collect();
        self.suspected.insert(key.name.clone(), suspected);
        let mut writes = VecDeque::new();
        for action in &plan.actions {
            if let health::Action::DeleteMachine { name, uid, resource_version } = action {
                let why = Why::Check(key.name.clone(), resource_version.clone());
                writes.push_back(Write::DeleteMachine { name: name.clone(), uid: uid.clone(), why });
            }
        }
        if !writes.is_empty() {
            self.judge_restriction(world, &check);
            if parties.claims()
                && let Some(wait) = foreign
            {
                return Err(Some(wait));
            }
            writes.push_front(Write::Claim(format!("{} {now}", self.name)));
        }
        if check.status.clone().unwrap_or_default() != plan.status {
            writes.push_back(Write::Status(Box::new(Status::Check(plan.status))));
        }
        let then = match plan.next {
            health::Next::OnChange(_) => None,
            health::Next::After(delay, _) => Some(delay),
        };
        Ok(writing(writes, check.guard(), true, then))
    }

    /// Counts the machines of a check that are certainly not well, in what this process sees.
    fn judge_restriction(&self, world: &mut World, check: &MachineHealthCheck) {
        let selector = check.spec.selector.clone().and_then(|it| Selector::parse(&it).ok());
        let selects = |machine: &&Arc<Machine>| {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            selector.as_ref().is_none_or(|selector| selector.matches(&labels))
        };
        let all: Vec<_> = self.view.machines.objects.values().filter(selects).collect();
        let sick = all.iter().filter(|machine| self.is_sick(machine)).count();
        let limit = match &check.spec.max_unhealthy {
            None => all.len(),
            Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(0),
            Some(IntOrString::String(text)) => {
                let percent: usize = text.trim_end_matches('%').parse().unwrap_or(100);
                all.len() * percent / 100
            }
        };
        if sick > limit {
            let (name, all) = (check.name(), all.len());
            world.violate(Kind::TooManyUnhealthy, format!("check {name} acts although {sick} of {all} are unwell"));
        }
    }

    fn is_sick(&self, machine: &Machine) -> bool {
        let status = machine.status.clone().unwrap_or_default();
        let is_down = status.node_ref.is_some_and(|reference| {
            let node = self.view.nodes.objects.get(reference.name.as_deref().unwrap_or_default());
            let node = node.filter(|node| reference.uid.as_deref() == Some(node.uid()));
            node.is_none_or(|node| Readiness::of_node(node) == Readiness::NotReady)
        });
        machine.is_leaving() || status.phase.as_deref() == Some("Failed") || is_down
    }

    fn plan_control_plane(&mut self, world: &mut World, key: &Key, parties: &dyn Parties) -> Planned {
        let now = world.now();
        let Some(object) = self.view.control_planes.objects.get(&key.name).cloned() else { return Err(None) };
        if self.expects(key) {
            return Err(Some(SignedDuration::from_millis(500)));
        }
        let claim = object.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CLAIM));
        if parties.claims()
            && let Some(wait) = self.foreign_claim(key, claim, now)
        {
            return Err(Some(wait));
        }
        let machines = self.view.machines.objects.values().map(|machine| &**machine);
        let node = |name: &str| self.view.nodes.objects.get(name).map(|node| &**node);
        let etcd = world.etcd.seen(&world.hosts, &world.cloud);
        let mut snapshot = control_plane_set::Snapshot::from_objects(&object, machines, node, etcd, self.wall(world));
        snapshot.unmanaged_nodes = self.unmanaged_nodes();
        let plan = parties.control_plane(&snapshot);
        world.tell(|| format!("{}: control plane: {:?}", self.name, plan.next));
        let owner = reference("ControlPlaneMachineSet", object.name(), object.uid());
        let mut writes = VecDeque::new();
        let mut takes_away = false;
        for action in plan.actions {
            writes.push_back(match action {
                control_plane_set::Action::Adopt { name, uid } => {
                    Write::AdoptMachine { name, uid, owner: owner.clone() }
                }
                control_plane_set::Action::Create(machine) => Write::CreateMachine(machine),
                control_plane_set::Action::Delete { name, uid } => {
                    takes_away = true;
                    judge_quorum(world, &name);
                    Write::DeleteMachine { name, uid, why: Why::ControlPlane }
                }
            });
        }
        if takes_away {
            writes.push_front(Write::Claim(format!("{} {now}", self.name)));
        }
        if object.status.clone().unwrap_or_default() != plan.status {
            writes.push_back(Write::Status(Box::new(Status::ControlPlane(plan.status))));
        }
        let control_plane_set::Next::OnChange(waiting) = &plan.next;
        let asks_etcd =
            matches!(waiting, control_plane_set::Waiting::Quorum(_) | control_plane_set::Waiting::Member { .. });
        let then = asks_etcd.then_some(QUORUM);
        Ok(writing(writes, object.guard(), false, then))
    }

    fn unmanaged_nodes(&self) -> Vec<String> {
        let is_master = |node: &&Arc<Node>| {
            let labels = node.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key("node-role.kubernetes.io/control-plane"))
        };
        let named = |node: &str| {
            self.view.machines.objects.values().any(|machine| {
                let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
                reference.is_some_and(|reference| reference.name.as_deref() == Some(node))
            })
        };
        let masters = self.view.nodes.objects.values().filter(is_master).map(|node| node.name().to_owned());
        masters.filter(|node| !named(node)).collect()
    }

    fn plan_node(&mut self, key: &Key, parties: &dyn Parties) -> Planned {
        let Some(node) = self.view.nodes.objects.get(&key.name).cloned() else { return Err(None) };
        let mut index = link::Index::default();
        for machine in self.view.machines.objects.values() {
            index.put(link::Key::of(machine), link::Identity::of(machine));
        }
        let found = index.machine_of(&link::Identity::of_node(&node));
        let machine = match &found {
            link::Match::One(key) => self.view.machines.objects.get(&key.name).cloned(),
            link::Match::None | link::Match::Several { .. } => None,
        };
        let matched = match (&found, &machine) {
            (link::Match::Several { by, keys }, _) => link::Match::Several { by, keys: keys.clone() },
            (_, Some(machine)) => link::Match::One(&**machine),
            (_, None) => link::Match::None,
        };
        let reference = machine.as_ref().and_then(|machine| machine.status.as_ref()?.node_ref.as_ref());
        let linked = reference.and_then(|reference| self.view.nodes.objects.get(reference.name.as_deref()?));
        let plan = parties.link(&link::Snapshot { node: &node, machine: matched, linked: linked.map(|node| &**node) });
        let mut writes = VecDeque::new();
        for action in plan.actions {
            writes.push_back(match action {
                link::Action::SetNodeRef { machine: key, node_ref } => {
                    let guard = machine.as_ref().map(|machine| machine.guard()).unwrap_or_default();
                    Write::NodeRef { machine: key.name, guard, node_ref }
                }
                link::Action::PatchNode(patch) => {
                    Write::PatchNode { name: key.name.clone(), guard: node.guard(), patch }
                }
            });
        }
        let link::Next::OnChange(waiting) = &plan.next;
        let then = matches!(waiting, link::Waiting::OtherNode { .. }).then_some(OTHER_NODE);
        Ok(writing(writes, Guard::default(), false, then))
    }

    fn plan_orphans(&mut self, world: &mut World, parties: &dyn Parties, random: &mut Random) -> Planned {
        let machines = &self.view.machines.objects;
        let known = orphans::Machines {
            uids: machines.values().map(|machine| machine.uid().to_owned()).collect(),
            provider_ids: machines.values().filter_map(|machine| machine.spec.provider_id.clone()).collect(),
        };
        let Ok(marked) = world.cloud.marked(CLUSTER, random) else { return Err(None) };
        let now = self.wall(world);
        let snapshot = orphans::Snapshot { cluster: CLUSTER.to_owned(), marked, machines: Some(known), now };
        let plan = parties.orphans(&snapshot);
        let mut writes = VecDeque::new();
        for orphan in plan.remove {
            // Nothing is removed that was not told of at an earlier look.
            if !self.reported.insert(orphan.id.clone()) {
                writes.push_back(Write::RemoveOrphan(orphan.id));
            }
        }
        Ok(writing(writes, Guard::default(), true, None))
    }
}

fn writing(left: VecDeque<Write>, own: Guard, tolerant: bool, then: Option<SignedDuration>) -> Job {
    Job::Writes(Writes { left, own, planned: None, claimed: None, tolerant, has_failed: false, then })
}

fn reference(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

/// A machine of the control plane is about to be taken away.
fn judge_quorum(world: &mut World, machine: &str) {
    let (left, all) = world.etcd.without(machine, &world.hosts, &world.cloud);
    if left <= all / 2 {
        world.violate(Kind::Quorum, format!("without {machine} {left} of {all} members of etcd are healthy"));
    }
}
