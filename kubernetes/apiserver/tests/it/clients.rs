//! kube-rs uses the server as it uses any other.

use apiserver::{Running, Server};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

async fn client(server: &Running) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn node(name: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"role": "worker"}}})).unwrap()
}

#[tokio::test]
async fn a_node_is_created_read_patched_listed_and_deleted() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let nodes: Api<Node> = Api::all(client(&server).await);
    let created = nodes.create(&PostParams::default(), &node("a")).await.unwrap();
    assert!(created.uid().is_some());
    let again = nodes.create(&PostParams::default(), &node("a")).await.unwrap_err();
    assert!(again.to_string().contains("nodes \"a\" already exists"), "{again}");
    let patch = json!({"spec": {"unschedulable": true}});
    let patched = nodes.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.spec.unwrap().unschedulable, Some(true));
    let same = nodes.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.metadata.resource_version, same.metadata.resource_version);
    let selected = nodes.list(&ListParams::default().labels("role=worker")).await.unwrap();
    assert_eq!(selected.items.len(), 1);
    let none = nodes.list(&ListParams::default().fields("spec.unschedulable=false")).await.unwrap();
    assert!(none.items.is_empty());
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(nodes.get_opt("a").await.unwrap().is_none());
    server.shutdown().await;
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_what_comes() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let client = client(&server).await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut seen = watcher(nodes.clone(), config).applied_objects().boxed();
        assert_eq!(seen.try_next().await.unwrap().unwrap().name_any(), "a");
        let name = format!("b{}", rand_suffix());
        nodes.create(&PostParams::default(), &node(&name)).await.unwrap();
        loop {
            let next = seen.try_next().await.unwrap().unwrap().name_any();
            if next == name {
                break;
            }
        }
    }
}

fn rand_suffix() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos()
}

#[tokio::test]
async fn server_side_apply_owns_fields_and_conflicts() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let apply =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": value}});
    maps.patch("m", &PatchParams::apply("one"), &Patch::Apply(&apply("1"))).await.unwrap();
    let conflict = maps.patch("m", &PatchParams::apply("two"), &Patch::Apply(&apply("2"))).await.unwrap_err();
    assert!(conflict.to_string().contains("conflict with \"one\""), "{conflict}");
    let forced = maps.patch("m", &PatchParams::apply("two").force(), &Patch::Apply(&apply("2"))).await.unwrap();
    assert_eq!(forced.data.unwrap()["a"], "2");
}
