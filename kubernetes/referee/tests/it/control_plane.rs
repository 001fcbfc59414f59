//! The test control plane itself: what every other suite takes for granted.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use referee::{Kind, control_plane, needs, wait_for};

fn config_map(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let owner_references = owner.map(|owner| {
        vec![OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: owner.metadata.name.clone().unwrap(),
            uid: owner.metadata.uid.clone().unwrap(),
            ..OwnerReference::default()
        }]
    });
    let metadata = ObjectMeta { name: Some(name.into()), owner_references, ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn objects_move_as_in_a_real_cluster() {
    let Some(control_plane) = control_plane(Kind::Real).await else {
        return;
    };
    let client = control_plane.client().await;

    // The service-account controller fills the default namespace.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;

    // The garbage collector follows owner references.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let owner = maps.create(&PostParams::default(), &config_map("owner", None)).await.unwrap();
    maps.create(&PostParams::default(), &config_map("owned", Some(&owner))).await.unwrap();
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    wait_for(&maps, "owned", "the owned object to be collected", |map| map.is_none()).await;

    // A namespace ends.
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("short-lived".into()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces.delete("short-lived", &DeleteParams::default()).await.unwrap();
    wait_for(&namespaces, "short-lived", "the namespace to end", |namespace| namespace.is_none()).await;
}

#[tokio::test]
async fn a_node_writes_its_own_node_and_no_other() {
    let Some(control_plane) = control_plane(Kind::Real).await else {
        return;
    };
    let nodes: Api<Node> = Api::all(control_plane.client().await);
    for name in ["one", "two"] {
        let node =
            Node { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Node::default() };
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let as_one: Api<Node> = Api::all(control_plane.node_client("one").await);
    let annotations = BTreeMap::from([("example.com/test", "yes")]);
    let patch = Patch::Merge(serde_json::json!({ "metadata": { "annotations": annotations } }));
    as_one.patch("one", &PatchParams::default(), &patch).await.unwrap();
    let refused = as_one.patch("two", &PatchParams::default(), &patch).await.unwrap_err();
    assert!(refused.to_string().contains("not allowed to modify node"), "{refused}");
}

#[tokio::test]
async fn kubectl_reads_it_and_an_outage_loses_nothing() {
    if !needs::kubectl() {
        return;
    }
    let Some(control_plane) = control_plane(Kind::Real).await else {
        return;
    };
    assert!(control_plane.kubectl(&["version"]).contains("Server Version: v1.36.3"));
    control_plane.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: default}\n");
    control_plane.stop_api_server();
    assert!(!control_plane.try_kubectl(&["get", "ns"], None).status.success());
    control_plane.start_api_server().await;
    assert!(control_plane.kubectl(&["get", "configmap", "kept"]).contains("kept"));

    let processes = control_plane.processes();
    let is_running = |id: &u32| Path::new(&format!("/proc/{id}")).exists();
    assert!(processes.iter().all(is_running));
    drop(control_plane);
    assert!(!processes.iter().any(is_running), "nothing is left running");
}
