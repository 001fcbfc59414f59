//! Drains: which pods are evicted, what blocks, and who removes which cordon.

use std::time::{Duration, Instant};

use api::annotations;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use sandbox::fleet::Behaviour;
use serde_json::json;
use testkit::objects::file_config;
use testkit::{Kind, wait_for};

use super::on_both;
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

on_both!(
    a_blocked_drain_names_what_blocks_it_and_goes_on_when_it_may,
    a_drain_goes_on_where_it_was_after_a_restart,
    a_cordon_that_a_person_made_stays,
);

/// Creates a pod on node `a` that a disruption budget protects.
pub(super) async fn guarded_pod(stage: &Stage) -> ReplicaSet {
    // Nothing runs this ReplicaSet, but the garbage collector needs the owner to exist.
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
    stage.place("default", &pod("shop", "a", &owner)).await;
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
    owner
}

async fn a_blocked_drain_names_what_blocks_it_and_goes_on_when_it_may(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour { drains: true, ..Behaviour::default() }).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    let owner = guarded_pod(&stage).await;
    stage.place("default", &pod("free", "a", &owner)).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");

    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    wait_for(&pods, "free", "the unprotected pod to go", |pod| pod.is_none()).await;
    let since = Instant::now();
    let words = ["default/shop-stays", "shop", "ReplicaSet/shop-7d9"];
    stage.condition("worker", "Updating", &words).await;
    stage.event("DrainBlocked", &words).await;
    assert!(since.elapsed() < Duration::from_secs(5), "a block is told within 5 seconds: {:?}", since.elapsed());

    // The drain continues when the budget is deleted, without waiting for a timer.
    let since = Instant::now();
    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
    wait_for(&pods, "shop", "the pod to go", |pod| pod.is_none()).await;
    assert!(since.elapsed() < Duration::from_secs(30), "the event was enough: {:?}", since.elapsed());
    stage.updated("worker", &first, 1).await;
    wait_for(&stage.nodes, "a", "the node to take pods again", |node| {
        node.is_some_and(|node| !is_down(node) && annotation(node, annotations::CORDONED_BY).is_empty())
    })
    .await;
}

async fn a_drain_goes_on_where_it_was_after_a_restart(kind: Kind) {
    let Some(mut stage) = Stage::start(kind, Behaviour { drains: true, ..Behaviour::default() }).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    guarded_pod(&stage).await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage.condition("worker", "Updating", &["default/shop-stays"]).await;
    let before = stage.nodes.get("a").await.unwrap();
    let started = annotation(&before, annotations::DRAIN_STARTED);
    assert!(is_down(&before) && !started.is_empty());

    stage.stop_controllers().await;
    // Remove the pool's condition, so that only a new reconcile can restore it.
    let blank = json!({ "status": { "conditions": [] } });
    stage.pools.patch_status("worker", &PatchParams::default(), &Patch::Merge(blank)).await.unwrap();
    stage.start_controllers();
    stage.condition("worker", "Updating", &["default/shop-stays", "ReplicaSet/shop-7d9"]).await;
    let after = stage.nodes.get("a").await.unwrap();
    assert_eq!(annotation(&after, annotations::DRAIN_STARTED), started, "the hour until the alarm goes on");
    assert_eq!(annotation(&after, annotations::CORDONED_BY), api::names::cordon::MACHINIST);

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
    stage.updated("worker", &first, 1).await;
    wait_for(&stage.nodes, "a", "the node to take pods again", |node| node.is_some_and(|node| !is_down(node))).await;
}

async fn a_cordon_that_a_person_made_stays(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour { drains: true, ..Behaviour::default() }).await else { return };
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
