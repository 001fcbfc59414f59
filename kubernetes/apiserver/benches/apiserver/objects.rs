//! What is stored: nodes as kubelets report them, one MachineConfig.

use futures::{StreamExt, stream};
use reqwest::Client;
use serde_json::{Value, json};

use crate::process::{Server, TOKEN};

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const CONCURRENT: usize = 16;

pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("node-{number:05}")).collect()
}

/// A Node as a kubelet reports it, shortened.
pub(crate) fn node(name: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"), "message": "kubelet says so",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let images: Vec<Value> = (0..6)
        .map(|number| json!({"names": [format!("registry.example/image-{number}@sha256:{:064}", number)], "sizeBytes": 1_000_000}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "a",
        }, "annotations": {
            "machineconfiguration.openshift.io/currentConfig": "rendered-worker-0123456789abcdef",
            "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-0123456789abcdef",
            "machineconfiguration.openshift.io/state": "Done",
        }},
        "spec": {"podCIDR": "10.1.0.0/24", "providerID": format!("example:///{name}")},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "7", "memory": "30Gi", "pods": "110"},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "images": images,
        },
    })
}

/// Runs a request for each item, some at a time; all must succeed.
pub(crate) async fn each<T>(items: impl IntoIterator<Item = T>, request: impl Fn(T) -> reqwest::RequestBuilder) {
    stream::iter(items)
        .map(|item| {
            let request = request(item);
            async move {
                let response = request.send().await.unwrap();
                assert!(response.status().is_success(), "{}", response.text().await.unwrap());
                response.bytes().await.unwrap()
            }
        })
        .buffer_unordered(CONCURRENT)
        .for_each(|_| async {})
        .await;
}

pub(crate) async fn create_nodes(server: &Server, names: &[String]) {
    let url = format!("{}{NODES}", server.url);
    each(names, |name| json_body(server.client.post(&url).bearer_auth(TOKEN), &node(name))).await;
}

pub(crate) fn json_body(request: reqwest::RequestBuilder, body: &Value) -> reqwest::RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

/// Defines MachineConfigs and makes `rendered`, of about this many bytes.
pub(crate) async fn create_config(server: &Server, size: usize) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machineconfigs.machineconfiguration.openshift.io"},
        "spec": {"group": "machineconfiguration.openshift.io", "scope": "Cluster",
            "names": {"plural": "machineconfigs", "kind": "MachineConfig"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    let post = async |path: &str, body: &Value| {
        let request = server.client.post(format!("{}{path}", server.url)).bearer_auth(TOKEN);
        json_body(request, body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await, 201);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "rendered"}, "spec": {"config": {"text": "x".repeat(size)}}});
    while post(CONFIGS, &config).await != 201 {
        tokio::task::yield_now().await;
    }
}

/// Sets one annotation, as a daemon does.
pub(crate) async fn annotate(client: &Client, url: &str, annotation: &str, value: &str) {
    let body = json!({"metadata": {"annotations": {annotation: value}}}).to_string();
    let request = client.patch(url).bearer_auth(TOKEN).header("content-type", "application/merge-patch+json");
    let response = request.body(body).send().await.unwrap();
    assert!(response.status().is_success());
    response.bytes().await.unwrap();
}
