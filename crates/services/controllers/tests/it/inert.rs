//! Objects that do nothing say so on a running cluster, and are told once.

use api::annotations;
use api::machineconfiguration::{MachineConfigPool, MachineOSConfig, PinnedImageSet};
use api::operator::MachineConfiguration;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use serde_json::json;
use testkit::objects::pool;
use testkit::wait_for;

use crate::stage::Stage;

#[tokio::test]
async fn what_does_nothing_says_so_in_a_condition_or_an_annotation_and_an_event() {
    let stage = Stage::start().await;
    let _controllers = stage.control();
    let sets: Api<PinnedImageSet> = Api::all(stage.client.clone());
    let image = format!("example.org/tools@sha256:{}", "0".repeat(64));
    let set = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSet", "metadata": {"name": "tools"},
        "spec": {"pinnedImages": [{"name": image}]},
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let configurations: Api<MachineConfiguration> = Api::all(stage.client.clone());
    let configuration = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": {"managedBootImages": {"machineManagers": [
            {"apiGroup": "machine.openshift.io", "resource": "machinesets", "selection": {"mode": "All"}},
        ]}},
    });
    configurations.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();
    let configs: Api<MachineOSConfig> = Api::all(stage.client.clone());
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig", "metadata": {"name": "worker"},
        "spec": {
            "machineConfigPool": {"name": "worker"}, "imageBuilder": {"imageBuilderType": "Job"},
            "renderedImagePushSecret": {"name": "push"}, "renderedImagePushSpec": "example.org/team/os:latest",
        },
    });
    configs.create(&PostParams::default(), &serde_json::from_value(config).unwrap()).await.unwrap();

    wait_for(&sets, "tools", "the sentence on the set", |set| {
        let notes = set.and_then(|set| set.metadata.annotations.as_ref());
        notes
            .and_then(|notes| notes.get(annotations::IGNORED))
            .is_some_and(|it| it.contains("no MachineConfigPool names this"))
    })
    .await;
    stage.event("NotUsed", "PinnedImageSet tools").await;
    // Once a pool names it, the sentence goes, and the pool's nodes are told of the set.
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let mut pool = pool("worker");
    pool.spec.pinned_image_sets = serde_json::from_value(json!([{"name": "tools"}])).unwrap();
    pools.create(&PostParams::default(), &pool).await.unwrap();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "a", "labels": {"node-role.kubernetes.io/worker": ""},
    }});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    wait_for(&sets, "tools", "the sentence to be gone", |set| {
        !set.is_some_and(|set| set.metadata.annotations.iter().flatten().any(|(key, _)| key == annotations::IGNORED))
    })
    .await;
    wait_for(&nodes, "a", "the node to be told", |node| {
        let notes = node.and_then(|node| node.metadata.annotations.as_ref());
        notes.and_then(|notes| notes.get(annotations::PINNED_IMAGE_SETS)).is_some_and(|it| it == "tools@1")
    })
    .await;
    wait_for(&configurations, "cluster", "the condition about boot images", |object| {
        let conditions = object.and_then(|it| it.status.as_ref()).map(|status| &status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it.type_ == "Effective" && it.message.contains("spec.managedBootImages"))
    })
    .await;
    wait_for(&configs, "worker", "the condition about builds", |object| {
        let conditions = object.and_then(|it| it.status.as_ref()).map(|status| &status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it.type_ == "Effective" && it.message.contains("builds no OS images"))
    })
    .await;
}
