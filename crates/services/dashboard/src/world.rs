//! Watches everything that the pages show, with the rights that are there.
//!
//! What may not be read is told as a note on every page, and is never shown as if there were none of it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::known::Reading;
use api::machine::{Machine, MachineHealthCheck, MachineSet};
use api::machineconfiguration::{
    ContainerRuntimeConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use api::machinist::{PoolLedger, PoolPolicy};
use api::names::{MACHINE_API_NAMESPACE, NAMESPACE};
use cluster::watch::State;
use cluster::{Store, Watch};
use explain::{Drains, Input, Objects, Unread};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

/// Drains that are looked into at once: more of them are told by their number.
const DRAINS: usize = 50;

/// How long the names of MachineConfigs are good for: pages only tell from them whether a config is missing.
const NAMES: Duration = Duration::from_secs(10);

/// The names of MachineConfigs as last read.
#[derive(Default)]
struct Names {
    read: Option<Instant>,
    configs: Reading<Vec<MachineConfig>>,
}

/// One store for each kind.
pub(crate) struct World {
    client: Client,
    pools: Store<MachineConfigPool>,
    nodes: Store<Node>,
    reports: Store<MachineConfigNode>,
    ledgers: Store<PoolLedger>,
    pool_policies: Store<PoolPolicy>,
    configs: Mutex<Names>,
    machines: Store<Machine>,
    machine_sets: Store<MachineSet>,
    health_checks: Store<MachineHealthCheck>,
    kubelet_configs: Store<KubeletConfig>,
    runtime_configs: Store<ContainerRuntimeConfig>,
    workloads: Store<Deployment>,
    machine_workloads: Store<Deployment>,
    pods: Store<Pod>,
}

/// A word for each change; what changed is found by looking.
pub(crate) struct Changes(mpsc::Receiver<()>);

impl Changes {
    /// Waits until something has changed since the last call.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl World {
    /// Starts every watch in `tasks`.
    pub(crate) fn start(client: &Client, tasks: &mut JoinSet<()>) -> (Self, Changes) {
        // One place is enough: it says that there is news, not what.
        let (sender, receiver) = mpsc::channel(1);
        let mut start = Start { client, tasks, sender };
        let world = Self {
            client: client.clone(),
            pools: start.all(|pool: MachineConfigPool| pool),
            nodes: start.all(slim_node),
            reports: start.all(|report: MachineConfigNode| report),
            ledgers: start.all(|ledger: PoolLedger| ledger),
            pool_policies: start.all(|policy: PoolPolicy| policy),
            configs: Mutex::default(),
            machines: start.all(|machine: Machine| machine),
            machine_sets: start.all(|set: MachineSet| set),
            health_checks: start.all(|check: MachineHealthCheck| check),
            kubelet_configs: start.all(|config: KubeletConfig| config),
            runtime_configs: start.all(|config: ContainerRuntimeConfig| config),
            workloads: start.within(NAMESPACE),
            machine_workloads: start.within(MACHINE_API_NAMESPACE),
            pods: start.within(NAMESPACE),
        };
        (world, Changes(receiver))
    }

    /// Returns once the API has answered about every kind whose absence says something.
    pub(crate) async fn settled(&self) {
        self.pools.settled().await;
        self.nodes.settled().await;
        self.reports.settled().await;
        self.ledgers.settled().await;
        self.pool_policies.settled().await;
        self.machines.settled().await;
        self.machine_sets.settled().await;
        self.health_checks.settled().await;
    }

    /// Everything as it is known now, and what could not be read, one sentence each.
    pub(crate) async fn objects(&self) -> (Objects, Drains, Vec<String>) {
        let mut deployments = owned(&self.workloads);
        deployments.extend(owned(&self.machine_workloads));
        let mut objects = Objects {
            pools: owned(&self.pools),
            nodes: owned(&self.nodes),
            machine_config_nodes: owned(&self.reports),
            ledgers: owned(&self.ledgers),
            pool_policies: owned(&self.pool_policies),
            configs: self.config_names().await,
            machines: owned(&self.machines),
            machine_sets: owned(&self.machine_sets),
            health_checks: owned(&self.health_checks),
            kubelet_configs: owned(&self.kubelet_configs),
            container_runtime_configs: owned(&self.runtime_configs),
            pods: owned(&self.pods),
            deployments,
            unread: self.unread(),
            ..Objects::default()
        };
        if objects.pools.iter().any(|pool| rollout::control_plane::is_control_plane(&pool.name_any())) {
            objects.etcd = etcd(&self.client).await;
        }
        let mut notes = self.notes();
        if let Reading::Unknown(why) = &objects.configs {
            notes.push(format!("names of MachineConfigs cannot be read now: {why}"));
        }
        let drains = self.drains(&objects.nodes, &mut objects.unread, &mut notes).await;
        (objects, drains, notes)
    }

    /// The kinds that were never listed, so that an empty store says nothing. One that was listed before keeps what it had.
    fn unread(&self) -> Unread {
        let mut unread = Unread::default();
        for (input, has_listed, state) in [
            (Input::Pools, self.pools.has_listed(), self.pools.state()),
            (Input::Nodes, self.nodes.has_listed(), self.nodes.state()),
            (Input::NodeReports, self.reports.has_listed(), self.reports.state()),
            (Input::Ledgers, self.ledgers.has_listed(), self.ledgers.state()),
            (Input::Machines, self.machines.has_listed(), self.machines.state()),
            (Input::MachineSets, self.machine_sets.has_listed(), self.machine_sets.state()),
            (Input::HealthChecks, self.health_checks.has_listed(), self.health_checks.state()),
        ] {
            match state {
                State::Failing(trouble) if !has_listed => unread.add(input, trouble.text),
                State::Starting if !has_listed => unread.add(input, "the API has not answered yet"),
                State::Failing(_) | State::Starting | State::Synced | State::NotInstalled => {}
            }
        }
        unread
    }

    fn notes(&self) -> Vec<String> {
        let states = [
            ("pools", self.pools.state()),
            ("nodes", self.nodes.state()),
            ("steps of nodes", self.reports.state()),
            ("budgets of pools", self.ledgers.state()),
            ("policies of pools", self.pool_policies.state()),
            ("Machines", self.machines.state()),
            ("MachineSets", self.machine_sets.state()),
            ("MachineHealthChecks", self.health_checks.state()),
            ("KubeletConfigs", self.kubelet_configs.state()),
            ("ContainerRuntimeConfigs", self.runtime_configs.state()),
            ("our own workloads", self.workloads.state()),
            ("workloads of the Machine API", self.machine_workloads.state()),
            ("our own pods", self.pods.state()),
        ];
        let failing = states.into_iter().filter_map(|(what, state)| match state {
            State::Failing(trouble) => Some(format!("{what} cannot be read now: {}", trouble.text)),
            State::Starting | State::Synced | State::NotInstalled => None,
        });
        failing.collect()
    }

    /// Pods of the nodes that are being drained and what protects them. Pods are many, so they are read only then.
    async fn drains(&self, nodes: &[Node], unread: &mut Unread, notes: &mut Vec<String>) -> Drains {
        let facts = nodes.iter().map(rollout::NodeFacts::from_object);
        let draining: Vec<_> = facts.filter(rollout::NodeFacts::is_draining).take(DRAINS).collect();
        let mut drains = Drains::default();
        if draining.is_empty() {
            return drains;
        }
        for node in draining {
            let here = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
            let pods = cluster::read::list(&Api::all(self.client.clone()), here).await;
            match noted(pods, "pods in the way of drains", notes) {
                Some(pods) => drains.pods.extend(pods),
                // The next node would be refused for the same reason.
                None => {
                    unread.add(Input::Pods, "they cannot be read now");
                    break;
                }
            }
        }
        let budgets: Api<PodDisruptionBudget> = Api::all(self.client.clone());
        let budgets = cluster::read::list(&budgets, ListParams::default()).await;
        drains.budgets = noted(budgets, "disruption budgets", notes).unwrap_or_else(|| {
            unread.add(Input::Budgets, "they cannot be read now");
            Vec::new()
        });
        let sets: Api<DaemonSet> = Api::all(self.client.clone());
        let name = |set: &DaemonSet| format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
        let sets = cluster::read::list(&sets, ListParams::default()).await;
        if let Reading::Unknown(why) = &sets {
            notes.push(format!("DaemonSets cannot be read now: {why}"));
        }
        drains.daemon_sets = sets.map(|sets| sets.iter().map(name).collect::<BTreeSet<_>>());
        drains
    }

    /// Only names and labels of MachineConfigs: their contents would be megabytes.
    async fn config_names(&self) -> Reading<Vec<MachineConfig>> {
        let mut names = self.configs.lock().await;
        if names.read.is_none_or(|at| at.elapsed() >= NAMES) {
            let api: Api<MachineConfig> = Api::all(self.client.clone());
            let listed = cluster::write::in_time(api.list_metadata(&ListParams::default())).await;
            let bare =
                |it: PartialObjectMeta<MachineConfig>| MachineConfig { metadata: it.metadata, ..Default::default() };
            names.configs = match listed {
                Ok(list) => Reading::known(list.items.into_iter().map(bare).collect(), jiff::Timestamp::now()),
                Err(error) => Reading::Unknown(cluster::error::chain(&error)),
            };
            names.read = Some(Instant::now());
        }
        names.configs.clone()
    }
}

/// Pods of etcd, from the namespaces where it runs as static pods.
pub(crate) async fn etcd(client: &Client) -> Reading<Vec<Pod>> {
    let mut pods = Reading::known(Vec::new(), jiff::Timestamp::now());
    for (namespace, selector) in rollout::control_plane::ETCD {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let some = cluster::read::list(&api, ListParams::default().labels(selector)).await;
        pods = pods.and(some).map(|(mut all, some)| {
            all.extend(some);
            all
        });
    }
    pods
}

/// Sets up watches that all say when there is news.
struct Start<'a> {
    client: &'a Client,
    tasks: &'a mut JoinSet<()>,
    sender: mpsc::Sender<()>,
}

impl Start<'_> {
    /// A cluster-wide kind.
    fn all<K, T>(&mut self, read: impl Fn(K) -> T + Send + Sync + 'static) -> Store<T>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        self.watch(Api::all(self.client.clone()), read)
    }

    /// A kind in one namespace.
    fn within<K>(&mut self, namespace: &str) -> Store<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + PartialEq
            + Send
            + Sync
            + 'static,
    {
        self.watch(Api::namespaced(self.client.clone(), namespace), |object: K| object)
    }

    fn watch<K, T>(&mut self, api: Api<K>, read: impl Fn(K) -> T + Send + Sync + 'static) -> Store<T>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
        K::DynamicType: Send + Sync,
        T: PartialEq + Send + Sync + 'static,
    {
        let mut watch = Watch::default();
        let (store, mut changes) = (watch.store(), watch.subscribe());
        let sender = self.sender.clone();
        self.tasks.spawn(watch.run(api, watcher::Config::default().any_semantic().page_size(500), read));
        self.tasks.spawn(async move {
            while changes.recv().await.is_some() {
                // A full channel has the news already.
                let _ = sender.try_send(());
            }
        });
        store
    }
}

/// A node without what no page shows: its images are most of it.
fn slim_node(mut node: Node) -> Node {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
    }
    node.metadata.resource_version = None;
    node
}

/// What was read; what could not be is noted.
fn noted<T>(reading: Reading<Vec<T>>, what: &str, notes: &mut Vec<String>) -> Option<Vec<T>> {
    match reading {
        Reading::Known { value, .. } => Some(value),
        Reading::NotInstalled => Some(Vec::new()),
        Reading::Unknown(why) => {
            notes.push(format!("{what} cannot be read now: {why}"));
            None
        }
    }
}

fn owned<T: Clone>(store: &Store<T>) -> Vec<T> {
    store.all().iter().map(|one| (**one).clone()).collect()
}
