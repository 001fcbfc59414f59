//! What the controllers see: one shared watch per kind, read into records.
//!
//! Planning takes its objects from here and asks first whether they can be believed: on a list that could not be read
//! nothing is created, deleted or evicted.

use std::ops::Deref;
use std::sync::Arc;

use api::Translate;
use api::healthchecking::MachineHealthCheck as LegacyCheck;
use api::known::Unread;
use api::machine::{ControlPlaneMachineSet, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use cluster::watch::{Key, State, Trouble};
use cluster::{Change, Problem, Store, Watch};
use drain::DisruptionBudget;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, Resource};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

/// Every store that controllers read from.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) machines: Store<Machine>,
    pub(crate) sets: Store<MachineSet>,
    pub(crate) deployments: Store<MachineDeployment>,
    pub(crate) checks: Store<MachineHealthCheck>,
    /// Health checks as they were in 2019.
    pub(crate) legacy_checks: Store<LegacyCheck>,
    pub(crate) control_planes: Store<ControlPlaneMachineSet>,
    pub(crate) nodes: Store<NodeRecord>,
    pub(crate) budgets: Store<DisruptionBudget>,
    /// Which DaemonSets exist; nothing else about them matters.
    pub(crate) daemon_sets: Store<()>,
}

/// Changes, for the task that turns them into work.
pub(crate) struct Changes {
    pub(crate) machines: UnboundedReceiver<Change<Machine>>,
    pub(crate) sets: UnboundedReceiver<Change<MachineSet>>,
    pub(crate) deployments: UnboundedReceiver<Change<MachineDeployment>>,
    pub(crate) checks: UnboundedReceiver<Change<MachineHealthCheck>>,
    pub(crate) legacy_checks: UnboundedReceiver<Change<LegacyCheck>>,
    pub(crate) control_planes: UnboundedReceiver<Change<ControlPlaneMachineSet>>,
    pub(crate) nodes: UnboundedReceiver<Change<NodeRecord>>,
    pub(crate) budgets: UnboundedReceiver<Change<DisruptionBudget>>,
}

/// A node without what no rule reads. Two records are equal if only the resource version differs, so that the heartbeats
/// of ten thousand kubelets are no work.
#[derive(Clone, Debug)]
pub(crate) struct NodeRecord(Node);

impl World {
    /// Starts every watch in `tasks`.
    pub(crate) fn start(client: &Client, tasks: &mut JoinSet<()>) -> (Self, Changes) {
        let (mut machines, mut sets, mut nodes) = (Watch::default(), Watch::default(), Watch::default());
        let (mut deployments, mut control_planes) = (Watch::default(), Watch::default());
        let (mut checks, mut legacy_checks) = (Watch::default(), Watch::default());
        let (mut budgets, daemon_sets) = (Watch::default(), Watch::default());
        let changes = Changes {
            machines: machines.subscribe(),
            sets: sets.subscribe(),
            deployments: deployments.subscribe(),
            checks: checks.subscribe(),
            legacy_checks: legacy_checks.subscribe(),
            control_planes: control_planes.subscribe(),
            nodes: nodes.subscribe(),
            budgets: budgets.subscribe(),
        };
        let world = Self {
            client: client.clone(),
            machines: machines.store(),
            sets: sets.store(),
            deployments: deployments.store(),
            checks: checks.store(),
            legacy_checks: legacy_checks.store(),
            control_planes: control_planes.store(),
            nodes: nodes.store(),
            budgets: budgets.store(),
            daemon_sets: daemon_sets.store(),
        };
        // Instances are created and deleted on these lists, so a list from an old cache will not do.
        let recent = || watcher::Config::default().page_size(500);
        let any = || watcher::Config::default().any_semantic().page_size(500);
        tasks.spawn(machines.run(Api::all(client.clone()), recent(), today::<Machine>));
        tasks.spawn(sets.run(Api::all(client.clone()), recent(), today::<MachineSet>));
        tasks.spawn(deployments.run(Api::all(client.clone()), recent(), today::<MachineDeployment>));
        tasks.spawn(checks.run(Api::all(client.clone()), recent(), slim::<MachineHealthCheck>));
        tasks.spawn(legacy_checks.run(Api::all(client.clone()), recent(), slim::<LegacyCheck>));
        tasks.spawn(control_planes.run(Api::all(client.clone()), recent(), slim::<ControlPlaneMachineSet>));
        tasks.spawn(nodes.run(Api::all(client.clone()), recent(), NodeRecord::from_object));
        tasks.spawn(budgets.run(Api::all(client.clone()), any(), |budget: PodDisruptionBudget| {
            DisruptionBudget::from_object(&budget)
        }));
        tasks.spawn(daemon_sets.run(Api::all(client.clone()), recent(), |_: DaemonSet| ()));
        (world, changes)
    }

    /// Returns once there is enough to act on. For the other kinds it waits for a first answer only; what is done on them
    /// asks whether they are known.
    pub(crate) async fn synced(&self) {
        self.machines.synced().await;
        self.sets.synced().await;
        self.nodes.synced().await;
        self.deployments.settled().await;
        self.checks.settled().await;
        self.legacy_checks.settled().await;
        self.control_planes.settled().await;
        self.budgets.settled().await;
        self.daemon_sets.settled().await;
    }

    /// Whether the Machines can be believed now.
    pub(crate) fn machines_known(&self) -> Result<(), Unread> {
        self.machines.contact().fresh("machines", Timestamp::now()).map(|_| ())
    }

    /// Whether the nodes can be believed now.
    pub(crate) fn nodes_known(&self) -> Result<(), Unread> {
        self.nodes.contact().fresh("nodes", Timestamp::now()).map(|_| ())
    }

    /// Whether the sets can be believed now.
    pub(crate) fn sets_known(&self) -> Result<(), Unread> {
        self.sets.contact().fresh("machinesets", Timestamp::now()).map(|_| ())
    }

    /// Whether the health checks can be believed now.
    pub(crate) fn checks_known(&self) -> Result<(), Unread> {
        known(&self.checks, "machinehealthchecks")
    }

    /// Whether the health checks of 2019 can be believed now.
    pub(crate) fn legacy_checks_known(&self) -> Result<(), Unread> {
        known(&self.legacy_checks, "machinehealthchecks.healthchecking.openshift.io")
    }

    /// Whether the sets of the control plane can be believed now.
    pub(crate) fn control_planes_known(&self) -> Result<(), Unread> {
        known(&self.control_planes, "controlplanemachinesets")
    }

    /// Whether the deployments can be believed now.
    pub(crate) fn deployments_known(&self) -> Result<(), Unread> {
        known(&self.deployments, "machinedeployments")
    }

    /// Whether the API has the groups of 2019.
    pub(crate) fn has_older_groups(&self) -> bool {
        self.legacy_checks.state() == State::Synced
    }

    pub(crate) fn node(&self, name: &str) -> Option<Arc<NodeRecord>> {
        self.nodes.get(&Key::cluster(name))
    }

    /// The kinds that cannot be watched now, each with the reason; without one, it was not listed yet.
    pub(crate) fn troubles(&self) -> Vec<(&'static str, Option<Trouble>)> {
        let states = [
            ("machines", self.machines.state()),
            ("machinesets", self.sets.state()),
            ("machinedeployments", self.deployments.state()),
            ("machinehealthchecks", self.checks.state()),
            ("machinehealthchecks.healthchecking.openshift.io", self.legacy_checks.state()),
            ("controlplanemachinesets", self.control_planes.state()),
            ("nodes", self.nodes.state()),
            ("poddisruptionbudgets", self.budgets.state()),
            ("daemonsets", self.daemon_sets.state()),
        ];
        // Sets and machines do without these.
        let is_optional = |kind: &str| !matches!(kind, "machines" | "machinesets");
        let missing = || Trouble { problem: Problem::NotFound, text: "the API has no such kind".to_owned() };
        let trouble = |(kind, state)| match state {
            State::Synced => None,
            State::Starting => Some((kind, None)),
            State::NotInstalled if is_optional(kind) => None,
            State::NotInstalled => Some((kind, Some(missing()))),
            State::Failing(trouble) => Some((kind, Some(trouble))),
        };
        states.into_iter().filter_map(trouble).collect()
    }
}

/// Whether the objects of a kind that a cluster may do without can be believed now.
fn known<T>(store: &Store<T>, what: &str) -> Result<(), Unread> {
    store.contact().fresh_or_none(what, Timestamp::now()).map(|_| ())
}

impl NodeRecord {
    fn from_object(node: Node) -> Self {
        let ObjectMeta { name, uid, resource_version, labels, annotations, deletion_timestamp, .. } = node.metadata;
        let spec = node.spec.map(|spec| NodeSpec {
            provider_id: spec.provider_id,
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        });
        let conditions = |all: Vec<NodeCondition>| {
            let slim = |condition: NodeCondition| NodeCondition {
                type_: condition.type_,
                status: condition.status,
                last_transition_time: condition.last_transition_time,
                ..NodeCondition::default()
            };
            all.into_iter().map(slim).collect()
        };
        let status = node.status.map(|status| NodeStatus {
            addresses: status.addresses,
            conditions: status.conditions.map(conditions),
            ..NodeStatus::default()
        });
        let metadata = ObjectMeta {
            name,
            uid,
            resource_version,
            labels,
            annotations,
            deletion_timestamp,
            ..ObjectMeta::default()
        };
        Self(Node { metadata, spec, status })
    }
}

impl PartialEq for NodeRecord {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.metadata, &other.metadata);
        one.uid == two.uid
            && one.labels == two.labels
            && one.annotations == two.annotations
            && one.deletion_timestamp == two.deletion_timestamp
            && self.spec == other.spec
            && self.status == other.status
    }
}

impl Deref for NodeRecord {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

/// As [`slim`], with older spellings translated, so that every rule sees today's.
fn today<K: Resource + Translate>(mut object: K) -> K {
    object.translate();
    slim(object)
}

/// Drops what no rule reads and what would make equal objects look different.
fn slim<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}
