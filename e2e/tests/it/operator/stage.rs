//! The setup of all operator tests: an API server without anything of ours, and the operator.

use api::config::ClusterOperator;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator::{Installation, Settings};
use serde_json::{Value, json};
use testkit::objects::node;
use testkit::{ControlPlane, Kind, control_plane, wait_for};
use tokio::task::JoinHandle;

pub(crate) const NAMESPACE: &str = api::names::NAMESPACE;
pub(crate) const CONTROLLER: &str = "machine-config-controller";

pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) deployments: Api<Deployment>,
    pub(crate) daemon_sets: Api<DaemonSet>,
    pub(crate) operators: Api<ClusterOperator>,
}

/// The operator's settings in `machinist up`, where it installs everything itself.
pub(crate) fn settings() -> Settings {
    let mut installation =
        Installation { api_url: Some("https://api-int.example.com:6443".into()), ..Installation::default() };
    installation.access = operator::access(&installation, &controllers::ROLES, &server::ROLES);
    Settings { installation, installs: true, identity: "story".into(), ..Settings::default() }
}

impl Stage {
    /// Starts a cluster with a control-plane node and a worker, without an operator.
    pub(crate) async fn start(kind: Kind) -> Option<Self> {
        let control_plane = control_plane(kind).await?;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        let nodes: Api<Node> = Api::all(client.clone());
        for (name, roles) in [("control-plane-1", &["control-plane"][..]), ("worker-1", &[])] {
            let mut node = node(name, roles);
            let status = node.status.take();
            nodes.create(&PostParams::default(), &node).await.unwrap();
            let mut status = serde_json::to_value(status).unwrap();
            status["nodeInfo"] = json!({
                "containerRuntimeVersion": "containerd://2.0.1", "architecture": "amd64", "bootID": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "",
                "systemUUID": "",
            });
            let patch = Patch::Merge(json!({"status": status}));
            nodes.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
        Some(Self {
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            daemon_sets: Api::namespaced(client.clone(), NAMESPACE),
            operators: Api::all(client.clone()),
            client,
            control_plane,
        })
    }

    /// Starts the operator in this process.
    pub(crate) fn operate(&self, settings: Settings) -> JoinHandle<Result<operator::End, operator::Error>> {
        tokio::spawn(operator::run(self.client.clone(), settings, std::future::pending()))
    }

    /// Waits until everything was written at least once.
    pub(crate) async fn available(&self) -> ClusterOperator {
        self.condition("Available", "True", &["Cluster has deployed"]).await
    }

    /// Waits for a condition of the ClusterOperator whose message contains these words.
    pub(crate) async fn condition(&self, type_: &str, status: &str, words: &[&str]) -> ClusterOperator {
        let what = format!("condition {type_}={status} with {words:?}");
        let found = wait_for(&self.operators, api::names::CLUSTER_OPERATOR, &what, |object| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
            conditions.into_iter().flatten().any(|one| {
                let message = one.message.as_deref().unwrap_or_default();
                one.type_ == type_ && one.status == status && words.iter().all(|word| message.contains(word))
            })
        });
        found.await.unwrap()
    }

    pub(crate) async fn scale_operator(&self, replicas: i32) {
        self.patch_deployment("machine-config-operator", json!({"spec": {"replicas": replicas}})).await;
    }

    pub(crate) async fn patch_deployment(&self, name: &str, patch: Value) {
        self.deployments.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
