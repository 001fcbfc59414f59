//! The setup of all controller tests: an API server with our kinds, the controllers, and a fleet.

use std::time::Duration;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use controllers::Settings;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox::fleet::{Behaviour, Fleet};
use serde_json::{Value, json};
use testkit::objects::{file_config, pool};
use testkit::{ControlPlane, Kind, control_plane, wait_for, wait_for_all};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::watching::annotation;

pub(crate) struct Stage {
    /// Dropped with the stage.
    _control_plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) pools: Api<MachineConfigPool>,
    pub(crate) configs: Api<MachineConfig>,
    pub(crate) nodes: Api<Node>,
    pub(crate) fleet: Fleet,
    settings: Settings,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Stage {
    /// Starts everything. The controllers run in this process, without an election and without a settling delay.
    pub(crate) async fn start(kind: Kind, behaviour: Behaviour) -> Option<Self> {
        Self::start_with(kind, behaviour, Settings::default()).await
    }

    pub(crate) async fn start_with(kind: Kind, behaviour: Behaviour, settings: Settings) -> Option<Self> {
        let control_plane = control_plane(kind).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        let fleet = Fleet::new(client.clone(), "story", behaviour);
        tokio::spawn(fleet.clone().run());
        let mut stage = Self {
            pools: Api::all(client.clone()),
            configs: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            fleet,
            client,
            settings: Settings { settle: Duration::ZERO, identity: "story".into(), ..settings },
            running: None,
            _control_plane: control_plane,
        };
        stage.start_controllers();
        Some(stage)
    }

    pub(crate) fn start_controllers(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let (client, settings) = (self.client.clone(), self.settings.clone());
        let run = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            controllers::run(client, settings, stop).await.unwrap();
        });
        self.running = Some((stop, run));
    }

    /// Stops the controllers; their memory is lost.
    pub(crate) async fn stop_controllers(&mut self) {
        let (stop, run) = self.running.take().unwrap();
        stop.send(()).unwrap();
        run.await.unwrap();
    }

    /// Creates a ready pod on a node, like a scheduler and a kubelet would.
    pub(crate) async fn place(&self, namespace: &str, pod: &Pod) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // The namespace's service account is created a moment after the server starts.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;
        pods.create(&PostParams::default(), pod).await.unwrap();
        self.set_ready(namespace, &pod.name_any(), true).await;
    }

    pub(crate) async fn set_ready(&self, namespace: &str, pod: &str, ready: bool) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let state = if ready { "True" } else { "False" };
        let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": state }] } });
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Creates a pool whose nodes run its first config, and returns the name of that config.
    pub(crate) async fn settled_pool(&self, name: &str, nodes: &[&str]) -> String {
        self.write(&file_config(&format!("00-{name}"), name, &format!("/etc/{name}"), "base")).await;
        self.pools.create(&PostParams::default(), &pool(name)).await.unwrap();
        let names = nodes.iter().map(|node| (*node).to_owned()).collect();
        self.fleet.create(names, &[name], None).await.unwrap();
        self.updated(name, "", nodes.len()).await
    }

    pub(crate) async fn write(&self, config: &MachineConfig) {
        let parameters = PatchParams::apply("story").force();
        self.configs.patch(&config.name_any(), &parameters, &Patch::Apply(config)).await.unwrap();
    }

    pub(crate) async fn delete(&self, config: &str) {
        self.configs.delete(config, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn patch_pool(&self, name: &str, patch: Value) {
        self.pools.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the pool has updated `nodes` nodes to a config other than `old`.
    pub(crate) async fn updated(&self, pool: &str, old: &str, nodes: usize) -> String {
        let is_updated = |pool: Option<&MachineConfigPool>| {
            let Some(status) = pool.and_then(|pool| pool.status.as_ref()) else { return false };
            let name = status.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
            let all = usize::try_from(status.updated_machine_count.unwrap_or(0)) == Ok(nodes);
            name.is_some_and(|name| name != old) && all && has(pool, "Updated", "True")
        };
        let found = wait_for(&self.pools, pool, "the pool to be updated to another config", is_updated).await.unwrap();
        found.status.unwrap().configuration.unwrap().name.unwrap()
    }

    /// Waits until a condition of the pool is true and its message contains these words; returns the message.
    pub(crate) async fn condition(&self, pool: &str, type_: &str, words: &[&str]) -> String {
        let what = format!("condition {type_} with {words:?}");
        let found = wait_for(&self.pools, pool, &what, |pool| {
            let message = message(pool, type_);
            has(pool, type_, "True") && words.iter().all(|word| message.contains(word))
        });
        message(found.await.as_ref(), type_)
    }

    /// Waits until a condition of the pool is false.
    pub(crate) async fn well(&self, pool: &str, type_: &str) {
        wait_for(&self.pools, pool, "the pool to be well", |pool| has(pool, type_, "False")).await;
    }

    /// Waits for an event with this reason whose note contains these words.
    pub(crate) async fn event(&self, reason: &str, words: &[&str]) -> Event {
        let events: Api<Event> = Api::all(self.client.clone());
        let matches = |event: &Event| {
            let note = event.note.clone().unwrap_or_default();
            event.reason.as_deref() == Some(reason) && words.iter().all(|word| note.contains(word))
        };
        let what = format!("event {reason} with {words:?}");
        let all = wait_for_all(&events, &what, |events| events.iter().any(matches)).await;
        all.into_iter().find(matches).unwrap()
    }

    pub(crate) async fn target(&self, pool: &str) -> String {
        self.pools.get(pool).await.unwrap().spec.configuration.unwrap_or_default().name.unwrap_or_default()
    }

    /// Waits until a node runs this config.
    pub(crate) async fn node_at(&self, node: &str, config: &str) {
        wait_for(&self.nodes, node, &format!("the node to be at {config}"), |node| {
            node.is_some_and(|node| annotation(node, annotations::CURRENT_CONFIG) == config)
        })
        .await;
    }

    pub(crate) async fn relabel(&self, node: &str, labels: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        self.nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn annotate(&self, node: &str, annotations: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        self.nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }
}

pub(crate) fn has(pool: Option<&MachineConfigPool>, type_: &str, status: &str) -> bool {
    let conditions = pool.and_then(|pool| pool.status.as_ref()).map(|status| &status.conditions);
    conditions.into_iter().flatten().any(|condition| condition.type_ == type_ && condition.status == status)
}

pub(crate) fn message(pool: Option<&MachineConfigPool>, type_: &str) -> String {
    let conditions = pool.and_then(|pool| pool.status.as_ref()).map(|status| &status.conditions);
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == type_);
    found.map(|condition| condition.message.clone()).unwrap_or_default()
}
