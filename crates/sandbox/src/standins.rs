//! Small stand-ins for what a whole cluster has around our controllers: workload controllers, a scheduler and kubelets.
//!
//! They make a laptop's fleet feel alive: Deployments become pods on schedulable nodes and move when they are evicted,
//! DaemonSets have a pod on each node, nodes heartbeat and go NotReady. None of this runs in a real cluster.

mod act;
mod exec;
mod kubelets;
mod plan;
mod template;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Store, Watch};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use exec::{Place, commands};
pub use kubelets::Machines;

/// Objects come in bursts; one look at all of them is enough for a burst.
const BURST: Duration = Duration::from_millis(15);

/// Failed writes are tried again with the next look, at the latest after this long.
const AGAIN: Duration = Duration::from_secs(2);

pub(crate) const MANAGER: &str = "machinist-standins";

/// What stands in for what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which machines are there, and which of them are on.
    pub machines: Machines,
    /// Whether DaemonSets get a pod on every node. Off for fleets so large that it would only cost memory.
    pub daemon_sets: bool,
    /// Whether nodes heartbeat.
    pub heartbeats: bool,
}

/// The objects as last seen.
#[derive(Clone)]
pub(crate) struct World {
    nodes: Store<Node>,
    pods: Store<Pod>,
    deployments: Store<Deployment>,
    replica_sets: Store<ReplicaSet>,
    daemon_sets: Store<DaemonSet>,
}

/// Works until `stop`.
pub async fn run(client: Client, options: Options, stop: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    let bell = Arc::new(Notify::new());
    let world = World {
        nodes: follow(&client, &bell, &mut tasks),
        pods: follow(&client, &bell, &mut tasks),
        deployments: follow(&client, &bell, &mut tasks),
        replica_sets: follow(&client, &bell, &mut tasks),
        daemon_sets: follow(&client, &bell, &mut tasks),
    };
    if options.heartbeats {
        tasks.spawn(kubelets::heartbeat(client.clone(), options.machines.clone(), world.nodes.clone()));
    }
    tasks.spawn(work(client, options, world, bell));
    stop.await;
    tasks.shutdown().await;
}

/// Follows every object of a kind and rings when one changes.
fn follow<K>(client: &Client, bell: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + PartialEq + 'static,
{
    let mut watch: Watch<K> = Watch::default();
    let (store, mut changes, bell) = (watch.store(), watch.subscribe(), bell.clone());
    tasks.spawn(async move {
        while changes.recv().await.is_some() {
            bell.notify_one();
        }
    });
    let config = watcher::Config::default().any_semantic().page_size(500);
    let slim = |mut object: K| {
        object.meta_mut().managed_fields = None;
        object
    };
    tasks.spawn(watch.run(Api::all(client.clone()), config, slim));
    store
}

async fn work(client: Client, options: Options, world: World, bell: Arc<Notify>) {
    world.nodes.synced().await;
    world.pods.synced().await;
    world.deployments.synced().await;
    world.replica_sets.synced().await;
    world.daemon_sets.synced().await;
    loop {
        let view = world.view(&options);
        options.machines.set_daemons(plan::daemons(&view));
        let actions = plan::plan(&view);
        let is_idle = actions.is_empty();
        act::carry_out(&client, actions).await;
        let pause = if is_idle { Duration::from_secs(3600) } else { AGAIN };
        let _ = tokio::time::timeout(pause, bell.notified()).await;
        tokio::time::sleep(BURST).await;
    }
}

impl World {
    fn view(&self, options: &Options) -> plan::View {
        plan::View {
            nodes: self.nodes.all(),
            pods: self.pods.all(),
            deployments: self.deployments.all(),
            replica_sets: self.replica_sets.all(),
            daemon_sets: if options.daemon_sets { self.daemon_sets.all() } else { Vec::new() },
            off: options.machines.off(),
        }
    }
}
