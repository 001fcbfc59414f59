//! A cluster on the embedded API, and operators whose reads can be made to fail.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use operator::{Installation, Settings};
use serde_json::json;
use testkit::objects::node;
use testkit::{ControlPlane, Faults, Kind, control_plane, wait_for, wait_for_all};
use tokio::task::JoinHandle;

pub(crate) const NAMESPACE: &str = api::names::NAMESPACE;

pub(crate) struct Stage {
    control_plane: ControlPlane,
    /// The test's own, which meets no faults.
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) secrets: Api<Secret>,
}

/// An operator that brings everything with it.
pub(crate) fn settings() -> Settings {
    let mut installation =
        Installation { api_url: Some("https://api-int.example.com:6443".into()), ..Installation::default() };
    installation.access = operator::access(&installation, &[], &[]);
    Settings { installation, installs: true, identity: "test".into(), ..Settings::default() }
}

impl Stage {
    /// A cluster with a control-plane node and a worker.
    pub(crate) async fn start() -> Self {
        let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        let nodes: Api<Node> = Api::all(client.clone());
        for (name, roles) in [("control-plane-1", &["control-plane"][..]), ("worker-1", &[])] {
            nodes.create(&PostParams::default(), &node(name, roles)).await.unwrap();
        }
        Self { secrets: Api::namespaced(client.clone(), NAMESPACE), faults: Faults::default(), client, control_plane }
    }

    /// Our kinds, as `machinist install` brings them before there is an operator.
    pub(crate) async fn install_definitions(&self) {
        self.control_plane.install().await;
    }

    /// A client with the identity that new machines share.
    pub(crate) async fn bootstrapper(&self) -> Client {
        let user = format!("system:serviceaccount:{NAMESPACE}:node-bootstrapper");
        let kubeconfig = self.control_plane.user_kubeconfig(&user, Some("system:serviceaccounts"));
        cluster::connect(Some(&kubeconfig)).await.unwrap()
    }

    /// Starts an operator that meets the faults. It ends when it is told to, or with the test.
    pub(crate) fn operate(&self, settings: Settings) -> JoinHandle<()> {
        let client = self.faults.client(self.client.clone());
        tokio::spawn(async move {
            operator::run(client, settings, std::future::pending()).await.unwrap();
        })
    }

    /// Waits until the operator reports a problem with these words.
    pub(crate) async fn degraded(&self, words: &[&str]) {
        let operators: Api<api::config::ClusterOperator> = Api::all(self.client.clone());
        let what = format!("Degraded with {words:?}");
        wait_for(&operators, api::names::CLUSTER_OPERATOR, &what, |object| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
            conditions.into_iter().flatten().any(|one| {
                let message = one.message.as_deref().unwrap_or_default();
                one.type_ == "Degraded" && one.status == "True" && words.iter().all(|word| message.contains(word))
            })
        })
        .await;
    }

    /// Waits until the operator reports nothing wrong.
    pub(crate) async fn well(&self) {
        let operators: Api<api::config::ClusterOperator> = Api::all(self.client.clone());
        wait_for(&operators, api::names::CLUSTER_OPERATOR, "nothing to be wrong", |object| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
            let is = |type_: &str, status: &str| {
                conditions.into_iter().flatten().any(|one| one.type_ == type_ && one.status == status)
            };
            is("Degraded", "False") && is("Available", "True")
        })
        .await;
    }

    /// What every API server says of itself, and the embedded one does not.
    pub(crate) async fn publish_endpoints(&self) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 6443}],
        });
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        let parameters = PatchParams::apply("test").force();
        slices.patch("kubernetes", &parameters, &Patch::Apply(&slice)).await.unwrap();
    }

    /// A kind of OpenShift's own, with any content.
    async fn define(&self, kind: &str, plural: &str) {
        let name = format!("{plural}.config.openshift.io");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": "config.openshift.io", "scope": "Cluster",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
        wait_for(&definitions, &name, "the kind to be there", |one| is_crd_established().matches_object(one)).await;
    }

    /// What only a cluster of OpenShift has: its version, and the Infrastructure, here of one with arbiters.
    pub(crate) async fn install_infrastructure(&self) {
        self.define("ClusterVersion", "clusterversions").await;
        self.define("Infrastructure", "infrastructures").await;
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("config.openshift.io", "v1", "Infrastructure"),
            "infrastructures",
        );
        let object = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "status": {"platform": "None", "controlPlaneTopology": "HighlyAvailableArbiter"},
        });
        let infrastructures: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        infrastructures.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    pub(crate) async fn make_pull_secret(&self) {
        cluster::ensure_namespace(&self.client, NAMESPACE).await.unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "pull-secret"},
            "stringData": {".dockerconfigjson": r#"{"auths":{"registry.example":{"auth":"eDp5"}}}"#},
        });
        self.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
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

    /// Makes the operator look at the cluster again, and waits until it has: what it publishes follows this ConfigMap.
    pub(crate) async fn make_it_look(&self, bundle: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "image-registry-ca"},
            "data": {"registry.example": bundle},
        });
        maps.patch("image-registry-ca", &PatchParams::apply("test").force(), &Patch::Apply(&map)).await.unwrap();
    }
}

pub(crate) fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}
