//! A cluster with our kinds on the embedded API, a fleet, and controllers whose reads can be made to fail.

use std::time::Duration;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use controllers::Settings;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox::fleet::{Behaviour, Fleet};
use serde_json::{Value, json};
use testkit::objects::{file_config, pool};
use testkit::{ControlPlane, Faults, Kind, control_plane, wait_for, wait_for_all};
use tokio::task::JoinHandle;

pub(crate) struct Stage {
    /// Ends with the stage.
    _control_plane: ControlPlane,
    /// The test's own, which meets no faults.
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) nodes: Api<Node>,
    pub(crate) pools: Api<MachineConfigPool>,
    fleet: Fleet,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        let fleet = Fleet::new(client.clone(), "test", Behaviour { drains: true, ..Behaviour::default() });
        tokio::spawn(fleet.clone().run());
        Self {
            nodes: Api::all(client.clone()),
            pools: Api::all(client.clone()),
            faults: Faults::default(),
            fleet,
            client,
            _control_plane: control_plane,
        }
    }

    /// Starts controllers that meet the faults, without an election and without settling.
    pub(crate) fn control(&self) -> JoinHandle<()> {
        let settings = Settings { settle: Duration::ZERO, identity: "test".into(), ..Settings::default() };
        let client = self.faults.client(self.client.clone());
        tokio::spawn(async move {
            controllers::run(client, settings, std::future::pending()).await.unwrap();
        })
    }

    /// A pool with nodes that are on its first config.
    pub(crate) async fn settled_pool(&self, name: &str, nodes: &[&str]) {
        self.write(&file_config(&format!("00-{name}"), name, &format!("/etc/{name}"), "base")).await;
        self.pools.create(&PostParams::default(), &pool(name)).await.unwrap();
        self.fleet.create(nodes.iter().map(|node| (*node).to_owned()).collect(), &[name], None).await.unwrap();
        self.updated(name, nodes.len()).await;
    }

    pub(crate) async fn write(&self, config: &MachineConfig) {
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        let parameters = PatchParams::apply("test").force();
        configs.patch(&config.name_any(), &parameters, &Patch::Apply(config)).await.unwrap();
    }

    /// Waits until all nodes of a pool have what it wants.
    pub(crate) async fn updated(&self, pool: &str, nodes: usize) {
        wait_for(&self.pools, pool, "the pool to be updated", |pool| {
            let Some((pool, status)) = pool.and_then(|pool| Some((pool, pool.status.as_ref()?))) else { return false };
            let wanted = pool.spec.configuration.as_ref().and_then(|it| it.name.as_ref());
            let reached = status.configuration.as_ref().and_then(|it| it.name.as_ref());
            let all = usize::try_from(status.updated_machine_count.unwrap_or(0)) == Ok(nodes);
            wanted.is_some() && wanted == reached && all
        })
        .await;
    }

    /// Waits until a condition of the pool says these words.
    pub(crate) async fn says(&self, pool: &str, type_: &str, words: &[&str]) {
        let what = format!("condition {type_} with {words:?}");
        wait_for(&self.pools, pool, &what, |pool| {
            let conditions = pool.and_then(|pool| pool.status.as_ref()).map(|status| &status.conditions);
            let has = |message: &str| words.iter().all(|word| message.contains(word));
            conditions.into_iter().flatten().any(|one| one.type_ == type_ && has(&one.message))
        })
        .await;
    }

    /// A pod that runs on a node, as a scheduler and a kubelet would leave it.
    pub(crate) async fn place(&self, namespace: &str, name: &str, node: &str, metadata: Value) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "example.org/main"}],
            },
        });
        pod["metadata"]["name"] = json!(name);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Waits for an event with this reason whose note has these words.
    pub(crate) async fn event(&self, reason: &str, words: &str) {
        let events: Api<Event> = Api::all(self.client.clone());
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some(reason) && event.note.as_deref().is_some_and(|note| note.contains(words))
        };
        let what = format!("event {reason} with {words}");
        wait_for_all(&events, &what, |events| events.iter().any(is_it)).await;
    }
}
