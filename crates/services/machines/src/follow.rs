//! Turns changes of objects into work: brings the index up to date and queues whatever a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::machine::{Machine, MachineDeployment, MachineSet};
use api::names::MACHINE_FINALIZER;
use api::selector::Selector;
use cluster::Change;
use cluster::watch::Key;
use machine::link::Identity;
use machine::set::Readiness;

use crate::capacity::Capacities;
use crate::context::Context;
use crate::control_plane::ControlPlane;
use crate::deployment::Deployments;
use crate::health::{Checks, Vintage};
use crate::index::{Index, controller};
use crate::life::Machines;
use crate::link::Links;
use crate::set::Sets;
use crate::world::{Changes, NodeRecord};

/// Everything that has a queue.
pub(crate) struct Controllers {
    pub(crate) context: Arc<Context>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) sets: Arc<Sets>,
    pub(crate) capacities: Arc<Capacities>,
    pub(crate) links: Arc<Links>,
    pub(crate) deployments: Arc<Deployments>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) legacy_checks: Arc<Checks>,
    pub(crate) control_plane: Arc<ControlPlane>,
}

impl Controllers {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            machines: Arc::new(Machines::new(context.clone())),
            sets: Arc::new(Sets::new(context.clone())),
            capacities: Arc::new(Capacities::new(context.clone())),
            links: Arc::new(Links::new(context.clone())),
            deployments: Arc::new(Deployments::new(context.clone())),
            checks: Arc::new(Checks::new(context.clone(), Vintage::Today)),
            legacy_checks: Arc::new(Checks::new(context.clone(), Vintage::Legacy)),
            control_plane: Arc::new(ControlPlane::new(context.clone())),
            context,
        }
    }

    /// Runs every controller for ever. To be called once everything was listed.
    pub(crate) async fn run(self: Arc<Self>) {
        self.prime();
        tokio::join!(
            self.machines.clone().run(),
            self.sets.clone().run(),
            self.capacities.clone().run(),
            self.links.clone().run(),
            self.deployments.clone().run(),
            self.clone().check(),
            self.control_plane.clone().run(),
        );
    }

    async fn check(self: Arc<Self>) {
        if !self.context.settings.health_checks {
            tracing::info!("health checks are switched off");
            return;
        }
        tokio::join!(self.checks.clone().run(), self.legacy_checks.clone().run());
    }

    /// Takes in everything at once, so that the first plan cannot see half a set. The changes that tell the same arrive
    /// later and change nothing.
    fn prime(&self) {
        let world = &self.context.world;
        let mut index = self.context.index.lock();
        for machine in world.machines.all() {
            index.put_machine(&Key::of(&*machine), Some(&machine));
        }
        for node in world.nodes.all() {
            index.put_node(&Key::of(&**node), Some(&node));
        }
    }

    /// Takes in changes for ever.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: Changes) {
        loop {
            tokio::select! {
                Some(change) = changes.machines.recv() => self.machine_changed(&change),
                Some(change) = changes.nodes.recv() => self.node_changed(&change),
                Some(change) = changes.sets.recv() => self.set_changed(change),
                Some(change) = changes.deployments.recv() => self.deployment_changed(change),
                Some(change) = changes.checks.recv() => self.checks.changed(change.key),
                Some(change) = changes.legacy_checks.recv() => self.legacy_checks.changed(change.key),
                Some(change) = changes.control_planes.recv() => self.control_plane.disturbed(change.key),
                Some(_) = changes.budgets.recv() => self.machines.budgets_changed(),
                else => return,
            }
        }
    }

    fn machine_changed(&self, change: &Change<Machine>) {
        let Change { key, old, new, listed: _ } = change;
        let sides = || old.iter().chain(new);
        // The store may be ahead of this change, and the index must not fall behind it.
        let now = self.context.world.machines.get(key);
        let (nodes, contenders) = {
            let mut index = self.context.index.lock();
            let mut nodes: BTreeSet<String> = sides().flat_map(|machine| index.nodes_of(machine)).collect();
            let mut contenders = self.contenders(&index, &nodes);
            index.put_machine(key, now.as_deref());
            nodes.extend(now.iter().flat_map(|machine| index.nodes_of(machine)));
            contenders.extend(self.contenders(&index, &nodes));
            (nodes, contenders)
        };
        contenders.into_iter().filter(|other| other != key).for_each(|other| self.machines.queue.add(other));
        self.machines.changed(key, new.as_deref());
        nodes.into_iter().for_each(|node| self.links.queue.add(node));
        self.disturb_control_plane(sides());
        sides().flat_map(|machine| self.sets_of(machine)).for_each(|set| self.sets.disturbed(set));
        self.disturb_checks(&key.namespace);
        let claims = |machine: &Option<Arc<Machine>>| {
            machine.as_ref().map(|it| {
                let holds = it.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == MACHINE_FINALIZER);
                (it.spec.provider_id.clone(), it.metadata.deletion_timestamp.is_some(), holds)
            })
        };
        if claims(old) != claims(new) {
            self.rivals_of(sides());
        }
    }

    /// The Machines that have the address of one of these nodes, where they are several.
    fn contenders(&self, index: &Index, nodes: &BTreeSet<String>) -> BTreeSet<Key> {
        let nodes = nodes.iter().filter_map(|name| self.context.world.node(name));
        nodes.flat_map(|node| index.contenders(&node)).collect()
    }

    /// Machines that claim the same instance look again when one of them comes or goes.
    fn rivals_of<'a>(&self, machines: impl Iterator<Item = &'a Arc<Machine>>) {
        let index = self.context.index.lock();
        for id in machines.filter_map(|machine| machine.spec.provider_id.as_deref()) {
            index.with_provider_id(id).into_iter().for_each(|key| self.machines.queue.add(key));
        }
    }

    fn set_changed(&self, change: Change<MachineSet>) {
        let sides = change.old.iter().chain(&change.new);
        sides.flat_map(|set| self.deployments_of(set)).for_each(|deployment| self.deployments.disturbed(deployment));
        self.capacities.changed(change.key.clone());
        // A set that wants fewer machines lacks fewer.
        let wanted = |set: &Option<Arc<MachineSet>>| set.as_ref().and_then(|set| set.spec.replicas);
        if wanted(&change.old) != wanted(&change.new) {
            self.disturb_checks(&change.key.namespace);
        }
        self.sets.changed(change.key);
    }

    fn deployment_changed(&self, change: Change<MachineDeployment>) {
        let template = |side: &Option<Arc<MachineDeployment>>| side.as_ref().map(|it| it.spec.template.clone());
        // Its sets say of their machines whether they look like its template.
        if template(&change.old) != template(&change.new) {
            let sets = self.context.world.sets.all();
            let own = sets.iter().filter(|set| self.deployments_of(set).contains(&change.key));
            own.for_each(|set| self.sets.disturbed(Key::of(&**set)));
        }
        self.deployments.changed(change.key);
    }

    fn node_changed(&self, change: &Change<NodeRecord>) {
        let Change { key, old, new, listed: _ } = change;
        let now = self.context.world.node(&key.name);
        let (linked, contenders, is_master) = {
            let mut index = self.context.index.lock();
            let was_master = index.is_control_plane(&key.name);
            let mut contenders: BTreeSet<Key> = old.iter().flat_map(|node| index.contenders(node)).collect();
            index.put_node(key, now.as_deref().map(|node| &**node));
            contenders.extend(now.iter().flat_map(|node| index.contenders(node)));
            // They wait for no other change of the node than that it comes, goes or has another address.
            let is_same = |one: &NodeRecord, other: &NodeRecord| Identity::of_node(one) == Identity::of_node(other);
            if old.as_deref().zip(new.as_deref()).is_some_and(|(old, new)| is_same(old, new)) {
                contenders.clear();
            }
            (index.of_node(&key.name), contenders, was_master || index.is_control_plane(&key.name))
        };
        contenders.into_iter().for_each(|machine| self.machines.queue.add(machine));
        self.links.queue.add(key.name.clone());
        let uid = |node: &Option<Arc<NodeRecord>>| node.as_ref().map(|node| node.metadata.uid.clone());
        let ready = |node: &Option<Arc<NodeRecord>>| node.as_ref().map(|node| Readiness::of_node(node));
        if uid(old) != uid(new) {
            linked.iter().for_each(|machine| self.machines.queue.add(machine.clone()));
        }
        linked.iter().for_each(|machine| self.disturb_checks(&machine.namespace));
        if is_master && linked.is_empty() {
            // A node of the control plane that no Machine names, or did not until now.
            self.context.world.control_planes.keys().into_iter().for_each(|set| self.control_plane.disturbed(set));
        }
        if uid(old) != uid(new) || ready(old) != ready(new) {
            let machines = linked.iter().filter_map(|key| self.context.world.machines.get(key));
            let machines: Vec<_> = machines.collect();
            self.disturb_control_plane(machines.iter());
            machines.iter().flat_map(|machine| self.sets_of(machine)).for_each(|set| self.sets.disturbed(set));
        }
    }

    /// The sets of the control plane that select one of these Machines.
    fn disturb_control_plane<'a>(&self, machines: impl Iterator<Item = &'a Arc<Machine>>) {
        let sets = self.context.world.control_planes.all();
        if sets.is_empty() {
            return;
        }
        for machine in machines {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            let near = sets.iter().filter(|set| set.metadata.namespace == machine.metadata.namespace);
            let chosen =
                near.filter(|set| Selector::parse(&set.spec.selector).is_ok_and(|selector| selector.matches(&labels)));
            chosen.for_each(|set| self.control_plane.disturbed(Key::of(&**set)));
        }
    }

    /// Checks are few, and each looks at the Machines of its namespace.
    fn disturb_checks(&self, namespace: &str) {
        let world = &self.context.world;
        let near = |keys: Vec<Key>| keys.into_iter().filter(|key| key.namespace == namespace);
        near(world.checks.keys()).for_each(|key| self.checks.disturbed(key));
        near(world.legacy_checks.keys()).for_each(|key| self.legacy_checks.disturbed(key));
    }

    /// The deployment that controls a set, or those that could adopt it.
    fn deployments_of(&self, set: &MachineSet) -> Vec<Key> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let owners = set.metadata.owner_references.iter().flatten();
        if let Some(owner) = owners.clone().find(|owner| owner.controller == Some(true)) {
            let is_deployment = owner.kind == "MachineDeployment";
            return is_deployment.then(|| Key::in_namespace(namespace, &owner.name)).into_iter().collect();
        }
        let labels = set.metadata.labels.clone().unwrap_or_default();
        let selects = |deployment: &MachineDeployment| {
            Selector::parse(&deployment.spec.selector).is_ok_and(|selector| selector.matches(&labels))
        };
        let deployments = self.context.world.deployments.all();
        let near = deployments.iter().filter(|it| it.metadata.namespace.as_deref() == Some(namespace));
        near.filter(|deployment| selects(deployment)).map(|deployment| Key::of(&**deployment)).collect()
    }

    /// The set that controls a Machine, or those that could adopt it.
    fn sets_of(&self, machine: &Machine) -> Vec<Key> {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(owner) = controller(machine) {
            let is_set = owner.kind == "MachineSet";
            return is_set.then(|| Key::in_namespace(namespace, &owner.name)).into_iter().collect();
        }
        let labels = machine.metadata.labels.clone().unwrap_or_default();
        let selects = |set: &MachineSet| {
            let selector = set.spec.selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
            selector.is_some_and(|selector| selector.matches(&labels))
        };
        let sets = self.context.world.sets.all();
        let near = sets.iter().filter(|set| set.metadata.namespace.as_deref() == Some(namespace));
        near.filter(|set| selects(set)).map(|set| Key::of(&**set)).collect()
    }
}
