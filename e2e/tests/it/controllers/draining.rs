//! Drains: what is evicted, what blocks, and whose cordon is whose.

use std::time::{Duration, Instant};

use api::annotations;
use fleet::Behaviour;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::objects::file_config;
use testkit::{Kind, wait_for};

use super::stage::Stage;
use crate::watching::{annotation, is_down};

fn pod(name: &str, node: &str, owner: &ReplicaSet) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": name }, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-7d9", "uid": owner.metadata.uid,
            "controller": true,
        }] },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "example.org/main" }],
        },
    }))
    .unwrap()
}

async fn place(stage: &Stage, pod: &Pod) {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    // The namespace's service account comes a moment after the server.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(stage.client.clone(), "default");
    wait_for(&accounts, "default", "the default service account", |account| account.is_some()).await;
    let name = pod.metadata.name.clone().unwrap();
    pods.create(&PostParams::default(), pod).await.unwrap();
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
}

#[tokio::test]
async fn a_blocked_drain_names_what_blocks_it_and_goes_on_when_it_may() {
    let Some(stage) = Stage::start(Kind::Real, Behaviour { drains: true, ..Behaviour::default() }).await else {
        return;
    };
    let first = stage.settled_pool("worker", &["a"]).await;
    // Nothing runs it, but the garbage collector wants to see it.
    let owners: Api<ReplicaSet> = Api::namespaced(stage.client.clone(), "default");
    let owner = serde_json::from_value(json!({
        "metadata": { "name": "shop-7d9" },
        "spec": {
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "main", "image": "example.org/main" }] },
            },
        },
    }));
    let owner = owners.create(&PostParams::default(), &owner.unwrap()).await.unwrap();
    place(&stage, &pod("shop", "a", &owner)).await;
    place(&stage, &pod("free", "a", &owner)).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "shop-stays" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "shop" } } },
    }));
    budgets.create(&PostParams::default(), &budget.unwrap()).await.unwrap();
    wait_for(&budgets, "shop-stays", "the budget to be counted", |budget| {
        budget.and_then(|budget| budget.status.as_ref()).is_some_and(|status| status.current_healthy == 1)
    })
    .await;

    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    wait_for(&pods, "free", "the unprotected pod to go", |pod| pod.is_none()).await;
    let since = Instant::now();
    let words = ["default/shop-stays", "shop", "ReplicaSet/shop-7d9"];
    stage.condition("worker", "Updating", &words).await;
    stage.event("DrainBlocked", &words).await;
    assert!(since.elapsed() < Duration::from_secs(5), "a block is told within 5 seconds: {:?}", since.elapsed());

    // Nobody waits for a clock: the drain goes on when the budget is gone.
    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
    wait_for(&pods, "shop", "the pod to go", |pod| pod.is_none()).await;
    stage.updated("worker", &first, 1).await;
    wait_for(&stage.nodes, "a", "the node to take pods again", |node| {
        node.is_some_and(|node| !is_down(node) && annotation(node, annotations::CORDONED_BY).is_empty())
    })
    .await;
}

#[tokio::test]
async fn a_cordon_that_a_person_made_stays() {
    let Some(stage) = Stage::start(Kind::Real, Behaviour { drains: true, ..Behaviour::default() }).await else {
        return;
    };
    let first = stage.settled_pool("worker", &["a"]).await;
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    stage.nodes.patch("a", &PatchParams::default(), &cordon).await.unwrap();
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    wait_for(&stage.nodes, "a", "the node to be released", |node| {
        node.is_some_and(|node| {
            let released = annotation(node, annotations::LAST_APPLIED_DRAIN).starts_with("uncordon-rendered-worker");
            released && annotation(node, annotations::CURRENT_CONFIG) != first
        })
    })
    .await;
    let node = stage.nodes.get("a").await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true), "it is still cordoned");
}
