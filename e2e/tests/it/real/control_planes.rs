//! Clusters with one control-plane node, and with none that anybody sees.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use testkit::objects::file_config;

use super::stage::{NAMESPACE, Stage};
use super::{installing, typed};

/// The node that the controller itself runs on is drained and reboots, and there is no other for it.
pub(super) async fn the_only_node_reboots_and_the_controller_is_back(stage: &Stage) {
    let old = stage.running("master").await;
    let boots = stage.cluster.node("control-1").boots();
    stage.write(&file_config("50-control-plane", "master", "/etc/control-plane", "here\n")).await;
    stage.updated("master", &old, 1).await;
    let node = stage.cluster.node("control-1");
    assert_eq!(node.read("/etc/control-plane").as_deref(), Some("here\n"));
    assert_eq!(node.boots(), boots + 1);
    for name in ["machine-config-operator", "machine-config-controller"] {
        stage.deployed(&stage.deployments(), name).await;
    }
    installing::available(stage).await;
    // Nobody but the controller could have emptied the node that it ran on, and it came back where it was not.
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let controllers = ListParams::default().labels("k8s-app=machine-config-controller");
    let pods = pods.list(&controllers).await.unwrap();
    let places: Vec<&str> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    assert!(places.iter().any(|place| place.starts_with("worker-")), "{places:?}");
}

/// There is no node with the control plane's role, and the processes run nonetheless.
pub(super) async fn everything_runs_on_workers(stage: &Stage) {
    for name in ["machine-config-operator", "machine-config-controller"] {
        stage.deployed(&stage.deployments(), name).await;
    }
    stage.on_nodes("machine-config-daemon", 2).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await.unwrap();
    let nodes: BTreeSet<String> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    assert!(nodes.iter().all(|name| name.starts_with("worker-")), "{nodes:?}");
    let old = stage.running("worker").await;
    let declared = typed::declare(stage).await;
    stage.write(&file_config("50-managed", "worker", "/etc/managed", "here\n")).await;
    let sources = ["50-managed", "99-worker-generated-kubelet", "99-worker-generated-registries"];
    stage.updated_from("worker", &old, 2, &sources).await;
    for node in stage.cluster.nodes() {
        assert_eq!(node.read("/etc/managed").as_deref(), Some("here\n"), "{}", node.name());
    }
    declared.is_in_force(stage).await;
    let names: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
    println!("real: without control-plane nodes there are {names:?}");
}
