//! What the controllers see: one shared watch per kind, read into records.

mod typed;

use std::sync::Arc;

use api::known::{Reading, Unread};
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigNode, MachineConfigPool};
use api::machinist::{ClusterSettings, PoolLedger, PoolPolicy, RenderedProvenance};
use api::operator::MachineConfiguration;
use cluster::watch::{State, Trouble};
use cluster::{Change, Problem, Store, Watch};
use drain::DisruptionBudget;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Client, Resource};
use rollout::control_plane::ETCD;
use rollout::{EtcdMember, NodeFacts, Report};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

pub(crate) use self::typed::{TypedStores, bare_resource};
use crate::access::Grant;

/// Every store that controllers read from.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) pools: Store<MachineConfigPool>,
    pub(crate) configs: Store<MachineConfig>,
    pub(crate) nodes: Store<NodeFacts>,
    pub(crate) ledgers: Store<PoolLedger>,
    pub(crate) policies: Store<PoolPolicy>,
    pub(crate) provenances: Store<Provenance>,
    pub(crate) controller_configs: Store<ControllerConfig>,
    pub(crate) cluster_settings: Store<ClusterSettings>,
    pub(crate) machine_configurations: Store<MachineConfiguration>,
    pub(crate) reports: Store<NodeObject>,
    /// Whether workloads may run on the control plane, where the cluster says so.
    pub(crate) schedulers: Store<bool>,
    /// Pods of etcd.
    pub(crate) etcd: [Store<Option<EtcdMember>>; 2],
    pub(crate) budgets: Store<DisruptionBudget>,
    /// Which DaemonSets exist; nothing else about them matters.
    pub(crate) daemon_sets: Store<()>,
    /// Roles and bindings by which nodes read their pool's configs.
    pub(crate) roles: Store<Grant>,
    pub(crate) bindings: Store<Grant>,
    /// What typed configuration is made from.
    pub(crate) typed: TypedStores,
}

/// How far the watches can be believed that a rollout is planned from.
pub(crate) struct Sight {
    /// The first kind that cannot be read now.
    pub(crate) unread: Option<Unread>,
    /// Members of etcd, from wherever they run as pods.
    pub(crate) etcd: Reading<Vec<EtcdMember>>,
}

/// What is kept in memory of a provenance: enough to find pins and to know that the rest exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Provenance {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) pins: Vec<api::machinist::Pin>,
}

/// What is kept in memory of a MachineConfigNode.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeObject {
    pub(crate) pool: String,
    pub(crate) desired: String,
    pub(crate) report: Report,
}

/// Changes, for the consumers that turn them into work.
pub(crate) struct Changes {
    pub(crate) render: RenderChanges,
    pub(crate) rollout: RolloutChanges,
    pub(crate) drain: DrainChanges,
    pub(crate) access: AccessChanges,
    /// Something that typed configuration depends on has changed.
    pub(crate) typed: UnboundedReceiver<()>,
    /// Pools whose pause may begin or end.
    pub(crate) pauses: UnboundedReceiver<Change<MachineConfigPool>>,
}

/// What makes a pool worth rendering again.
pub(crate) struct RenderChanges {
    pub(crate) pools: UnboundedReceiver<Change<MachineConfigPool>>,
    pub(crate) configs: UnboundedReceiver<Change<MachineConfig>>,
    pub(crate) policies: UnboundedReceiver<Change<PoolPolicy>>,
    pub(crate) nodes: UnboundedReceiver<Change<NodeFacts>>,
    pub(crate) controller_configs: UnboundedReceiver<Change<ControllerConfig>>,
    pub(crate) cluster_settings: UnboundedReceiver<Change<ClusterSettings>>,
    pub(crate) machine_configurations: UnboundedReceiver<Change<MachineConfiguration>>,
}

/// What makes a pool worth planning again.
pub(crate) struct RolloutChanges {
    pub(crate) pools: UnboundedReceiver<Change<MachineConfigPool>>,
    pub(crate) nodes: UnboundedReceiver<Change<NodeFacts>>,
    pub(crate) ledgers: UnboundedReceiver<Change<PoolLedger>>,
    pub(crate) policies: UnboundedReceiver<Change<PoolPolicy>>,
    pub(crate) reports: UnboundedReceiver<Change<NodeObject>>,
    pub(crate) schedulers: UnboundedReceiver<Change<bool>>,
    pub(crate) controller_configs: UnboundedReceiver<Change<ControllerConfig>>,
    pub(crate) etcd: UnboundedReceiver<Change<Option<EtcdMember>>>,
}

/// What makes a drain worth another look.
pub(crate) struct DrainChanges {
    pub(crate) nodes: UnboundedReceiver<Change<NodeFacts>>,
    pub(crate) ledgers: UnboundedReceiver<Change<PoolLedger>>,
    pub(crate) budgets: UnboundedReceiver<Change<DisruptionBudget>>,
}

/// What makes it worth looking again who may read what.
pub(crate) struct AccessChanges {
    pub(crate) pools: UnboundedReceiver<Change<MachineConfigPool>>,
    pub(crate) nodes: UnboundedReceiver<Change<NodeFacts>>,
    pub(crate) configs: UnboundedReceiver<Change<MachineConfig>>,
    pub(crate) controller_configs: UnboundedReceiver<Change<ControllerConfig>>,
    pub(crate) roles: UnboundedReceiver<Change<Grant>>,
    pub(crate) bindings: UnboundedReceiver<Change<Grant>>,
}

impl World {
    /// Starts every watch in `tasks`.
    pub(crate) fn start(client: &Client, tasks: &mut JoinSet<()>) -> (Self, Changes) {
        let (mut pools, mut configs, mut nodes) = (Watch::default(), Watch::default(), Watch::default());
        let (mut ledgers, mut policies, provenances) = (Watch::default(), Watch::default(), Watch::default());
        let (mut reports, mut budgets, daemon_sets) = (Watch::default(), Watch::default(), Watch::default());
        let (mut controller_configs, mut cluster_settings) = (Watch::default(), Watch::default());
        let (mut machine_configurations, mut schedulers) = (Watch::default(), Watch::default());
        let render = RenderChanges {
            controller_configs: controller_configs.subscribe(),
            cluster_settings: cluster_settings.subscribe(),
            machine_configurations: machine_configurations.subscribe(),
            pools: pools.subscribe(),
            configs: configs.subscribe(),
            policies: policies.subscribe(),
            nodes: nodes.subscribe(),
        };
        let (etcd, members) = etcd(client, tasks);
        let rollout = RolloutChanges {
            etcd: members,
            controller_configs: controller_configs.subscribe(),
            pools: pools.subscribe(),
            nodes: nodes.subscribe(),
            ledgers: ledgers.subscribe(),
            policies: policies.subscribe(),
            reports: reports.subscribe(),
            schedulers: schedulers.subscribe(),
        };
        let drain =
            DrainChanges { nodes: nodes.subscribe(), ledgers: ledgers.subscribe(), budgets: budgets.subscribe() };
        let (mut roles, mut bindings) = (Watch::default(), Watch::default());
        let access = AccessChanges {
            pools: pools.subscribe(),
            nodes: nodes.subscribe(),
            configs: configs.subscribe(),
            controller_configs: controller_configs.subscribe(),
            roles: roles.subscribe(),
            bindings: bindings.subscribe(),
        };
        let (bell, typed_changes) = unbounded_channel();
        let pauses = pools.subscribe();
        typed::ring(pools.subscribe(), tasks, &bell, matters::pool);
        typed::ring(configs.subscribe(), tasks, &bell, matters::config);
        typed::ring(nodes.subscribe(), tasks, &bell, matters::node);
        typed::ring(controller_configs.subscribe(), tasks, &bell, matters::controller_config);
        typed::ring(cluster_settings.subscribe(), tasks, &bell, |_| true);
        typed::ring(machine_configurations.subscribe(), tasks, &bell, |_| true);
        let world = Self {
            client: client.clone(),
            typed: TypedStores::start(client, tasks, &bell),
            pools: pools.store(),
            configs: configs.store(),
            nodes: nodes.store(),
            ledgers: ledgers.store(),
            policies: policies.store(),
            provenances: provenances.store(),
            controller_configs: controller_configs.store(),
            cluster_settings: cluster_settings.store(),
            machine_configurations: machine_configurations.store(),
            reports: reports.store(),
            schedulers: schedulers.store(),
            etcd,
            budgets: budgets.store(),
            daemon_sets: daemon_sets.store(),
            roles: roles.store(),
            bindings: bindings.store(),
        };
        let all = || watcher::Config::default().any_semantic().page_size(500);
        tasks.spawn(pools.run(Api::all(client.clone()), all(), pool));
        tasks.spawn(configs.run(Api::all(client.clone()), all(), slim::<MachineConfig>));
        tasks.spawn(nodes.run(Api::all(client.clone()), all(), |node: Node| NodeFacts::from_object(&node)));
        tasks.spawn(ledgers.run(Api::all(client.clone()), all(), slim::<PoolLedger>));
        tasks.spawn(policies.run(Api::all(client.clone()), all(), slim::<PoolPolicy>));
        tasks.spawn(controller_configs.run(Api::all(client.clone()), all(), slim::<ControllerConfig>));
        tasks.spawn(cluster_settings.run(Api::all(client.clone()), all(), slim::<ClusterSettings>));
        tasks.spawn(machine_configurations.run(Api::all(client.clone()), all(), slim::<MachineConfiguration>));
        tasks.spawn(provenances.run(Api::all(client.clone()), all(), Provenance::from_object));
        tasks.spawn(reports.run(Api::all(client.clone()), all(), NodeObject::from_object));
        let of_pools = || all().labels(operate::node_access::POOL);
        tasks.spawn(roles.run(Api::all(client.clone()), of_pools(), Grant::of_role));
        tasks.spawn(bindings.run(Api::all(client.clone()), of_pools(), Grant::of_binding));
        let scheduler = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(api::config::GROUP, "v1", "Scheduler"),
            "schedulers",
        );
        tasks.spawn(schedulers.run(Api::all_with(client.clone(), &scheduler), all(), |scheduler: DynamicObject| {
            scheduler.data["spec"]["mastersSchedulable"].as_bool().unwrap_or(false)
        }));
        tasks.spawn(budgets.run(Api::all(client.clone()), all(), |budget: PodDisruptionBudget| {
            DisruptionBudget::from_object(&budget)
        }));
        // Pods are evicted for DaemonSets that are not there, so a list from an old cache will not do.
        tasks.spawn(daemon_sets.run(Api::all(client.clone()), watcher::Config::default(), |_: DaemonSet| ()));
        (world, Changes { render, rollout, drain, access, typed: typed_changes, pauses })
    }

    /// Returns once there is enough to act on: acting on half of what there is would look like deletions. For the other
    /// kinds it waits for a first answer only; what is done on them asks whether they are known.
    pub(crate) async fn synced(&self) {
        self.pools.synced().await;
        self.configs.synced().await;
        self.nodes.synced().await;
        self.ledgers.synced().await;
        self.provenances.synced().await;
        self.policies.settled().await;
        self.controller_configs.settled().await;
        self.cluster_settings.settled().await;
        self.machine_configurations.settled().await;
        self.reports.settled().await;
        self.budgets.settled().await;
        self.daemon_sets.settled().await;
        for etcd in &self.etcd {
            etcd.settled().await;
        }
        self.typed.settled().await;
    }

    /// What a rollout may be planned on now.
    pub(crate) fn sight(&self, now: Timestamp) -> Sight {
        let needed = [
            ("nodes", self.nodes.contact()),
            ("machineconfigpools", self.pools.contact()),
            ("poolledgers", self.ledgers.contact()),
            ("poolpolicies", self.policies.contact()),
        ];
        let [here, there] = self.etcd.each_ref().map(Store::reading);
        let members = |(here, there): (Vec<_>, Vec<_>)| {
            here.iter().chain(&there).filter_map(|member: &Arc<Option<EtcdMember>>| (**member).clone()).collect()
        };
        Sight {
            unread: needed.into_iter().find_map(|(kind, contact)| contact.fresh_or_none(kind, now).err()),
            etcd: here.and(there).map(members),
        }
    }

    /// The kinds that cannot be watched now, each with the reason; without one, it was not listed yet.
    pub(crate) fn troubles(&self) -> Vec<(&'static str, Option<Trouble>)> {
        let states = [
            ("machineconfigpools", self.pools.state()),
            ("machineconfigs", self.configs.state()),
            ("nodes", self.nodes.state()),
            ("poolledgers", self.ledgers.state()),
            ("poolpolicies", self.policies.state()),
            ("renderedprovenances", self.provenances.state()),
            ("controllerconfigs", self.controller_configs.state()),
            ("clustersettings", self.cluster_settings.state()),
            ("machineconfigurations", self.machine_configurations.state()),
            ("machineconfignodes", self.reports.state()),
            ("poddisruptionbudgets", self.budgets.state()),
            ("daemonsets", self.daemon_sets.state()),
            ("clusterroles", self.roles.state()),
            ("clusterrolebindings", self.bindings.state()),
            ("pods in kube-system", self.etcd[0].state()),
            ("pods in openshift-etcd", self.etcd[1].state()),
        ];
        let states = states.into_iter().chain(self.typed.states());
        let missing = || Trouble { problem: Problem::NotFound, text: "the API has no such kind".to_owned() };
        let trouble = |(kind, state)| match state {
            State::Synced => None,
            State::Starting => Some((kind, None)),
            State::NotInstalled => Some((kind, Some(missing()))),
            State::Failing(trouble) => Some((kind, Some(trouble))),
        };
        states.filter_map(trouble).collect()
    }
}

impl NodeObject {
    fn from_object(object: MachineConfigNode) -> Self {
        let report = Report::from_object(&object);
        Self { pool: object.spec.pool.name, desired: object.spec.config_version.desired, report }
    }
}

impl Provenance {
    fn from_object(object: RenderedProvenance) -> Self {
        Self { name: object.metadata.name.unwrap_or_default(), pool: object.spec.pool, pins: object.spec.pins }
    }
}

/// Which changes of objects matter to typed configuration. What we write ourselves into status does not.
mod matters {
    use super::{Arc, Change, ControllerConfig, MachineConfig, MachineConfigPool, NodeFacts};

    fn differs<T, V: PartialEq>(change: &Change<T>, part: impl Fn(&T) -> V) -> bool {
        change.old.as_ref().map(|old| part(old)) != change.new.as_ref().map(|new| part(new))
    }

    pub(super) fn pool(change: &Change<MachineConfigPool>) -> bool {
        differs(change, |pool| {
            let selectors = (pool.spec.machine_config_selector.clone(), pool.spec.node_selector.clone());
            (pool.metadata.labels.clone(), selectors, pool.spec.pinned_image_sets.clone())
        })
    }

    pub(super) fn config(change: &Change<MachineConfig>) -> bool {
        typed::objects::is_generated_name(&change.key.name)
    }

    pub(super) fn node(change: &Change<NodeFacts>) -> bool {
        differs(change, |node| (node.software.clone(), node.labels.clone()))
    }

    pub(super) fn controller_config(change: &Change<ControllerConfig>) -> bool {
        let same = |(old, new): (&Arc<ControllerConfig>, &Arc<ControllerConfig>)| {
            old.spec == new.spec && old.metadata.uid == new.metadata.uid
        };
        !change.old.as_ref().zip(change.new.as_ref()).is_some_and(same)
    }
}

/// A store for each namespace, and what changes in any of them.
type EtcdMembers = ([Store<Option<EtcdMember>>; 2], UnboundedReceiver<Change<Option<EtcdMember>>>);

/// Watches the pods of etcd. Only two namespaces are looked at, never every pod of the cluster.
fn etcd(client: &Client, tasks: &mut JoinSet<()>) -> EtcdMembers {
    let (all, changes) = unbounded_channel();
    let stores = ETCD.map(|(namespace, labels)| {
        let mut watch: Watch<Option<EtcdMember>> = Watch::default();
        let (store, mut own, all) = (watch.store(), watch.subscribe(), all.clone());
        // Quorums are counted on it, so a list from an old cache will not do.
        let config = watcher::Config::default().labels(labels);
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        tasks.spawn(watch.run(api, config, |pod: Pod| EtcdMember::from_pod(&pod)));
        tasks.spawn(async move {
            while let Some(change) = own.recv().await {
                let _ = all.send(change);
            }
        });
        store
    });
    (stores, changes)
}

/// Of a pool's managed fields only those are read that tell when it got its target. Others change with each report.
fn pool(mut pool: MachineConfigPool) -> MachineConfigPool {
    let mut entries = pool.metadata.managed_fields.take().unwrap_or_default();
    entries.retain(|entry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(rollout::snapshot::CONFIGURATION).is_some())
    });
    pool.metadata.managed_fields = Some(entries).filter(|entries| !entries.is_empty());
    pool
}

/// Drops what no rule reads and what would make equal objects look different.
fn slim<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}
