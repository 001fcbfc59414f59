//! Invalid objects lead to a condition or an event that names the object and the fix, and affect nothing else.

use api::annotations;
use kube::api::{DeleteParams, PostParams};
use sandbox::fleet::{Behaviour, Fault};
use serde_json::json;
use testkit::objects::{file_config, machine_config, pool};
use testkit::{Kind, wait_for_all};

use super::on_both;
use super::stage::Stage;
use crate::watching::annotation;

on_both!(nonsense_stops_nothing_else);

/// Waits until a node is working on a config other than `old`.
async fn works(stage: &Stage, old: &str) {
    wait_for_all(&stage.nodes, "a node to be at work", |nodes| {
        nodes.iter().any(|node| {
            annotation(node, annotations::STATE) == "Working" && annotation(node, annotations::DESIRED_CONFIG) != old
        })
    })
    .await;
}

async fn nonsense_stops_nothing_else(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b"]).await;

    // A pool with an invalid maxUnavailable.
    stage.patch_pool("worker", json!({ "spec": { "maxUnavailable": -3 } })).await;
    let text = stage.condition("worker", "Degraded", &["spec.maxUnavailable", "worker", "-3"]).await;
    assert!(text.contains("such as 10%"), "the fix is named: {text}");
    stage.patch_pool("worker", json!({ "spec": { "maxUnavailable": "half" } })).await;
    stage.condition("worker", "Degraded", &["half"]).await;
    stage.patch_pool("worker", json!({ "spec": { "maxUnavailable": 1 } })).await;
    stage.well("worker", "Degraded").await;

    // Pools whose selectors select nothing, select everything or cannot be parsed.
    let mut blind = pool("blind");
    blind.spec.node_selector = None;
    stage.pools.create(&PostParams::default(), &blind).await.unwrap();
    stage.condition("blind", "Degraded", &["spec.nodeSelector", "blind"]).await;
    let mut greedy = pool("greedy");
    greedy.spec.machine_config_selector = Some(Default::default());
    greedy.spec.node_selector = Some(Default::default());
    stage.pools.create(&PostParams::default(), &greedy).await.unwrap();
    stage.condition("greedy", "Degraded", &["greedy"]).await;
    stage.event("SelectingAll", &["non-empty selector is required"]).await;

    // A fragment that becomes invalid during a rollout, and annotations that no daemon wrote.
    stage.fleet.inject("a", Some(Fault::Hang));
    stage.fleet.inject("b", Some(Fault::Hang));
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    works(&stage, &first).await;
    let second = stage.target("worker").await;
    stage.write(&machine_config("50-more", "worker", json!({ "ignition": { "version": "99.0.0" } }))).await;
    stage.condition("worker", "RenderDegraded", &["50-more", "version"]).await;
    stage.annotate("b", json!({ "machineconfiguration.openshift.io/state": "Confused \u{1F600}" })).await;
    stage.annotate("b", json!({ "machineconfiguration.openshift.io/desiredConfig": "../../etc/passwd" })).await;
    stage.annotate("b", json!({ "machineconfiguration.openshift.io/desiredDrain": "explode" })).await;
    stage.fleet.inject("a", None);
    stage.fleet.inject("b", None);
    assert_eq!(stage.updated("worker", &first, 2).await, second, "the rollout ends with the last good config");

    // A pool that is deleted during a rollout: its nodes fall back to worker, and its config is kept while it is in
    // use.
    stage.pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    stage.write(&file_config("50-more", "worker", "/etc/more", "again")).await;
    stage.well("worker", "RenderDegraded").await;
    let third = stage.updated("worker", &second, 2).await;
    stage.write(&file_config("10-infra", "infra", "/etc/infra", "infra")).await;
    stage.fleet.inject("a", Some(Fault::Hang));
    stage.relabel("a", json!({ "node-role.kubernetes.io/infra": "" })).await;
    works(&stage, &third).await;
    stage.pools.delete("infra", &DeleteParams::default()).await.unwrap();
    stage.fleet.inject("a", None);
    stage.node_at("a", &third).await;
    stage.node_at("b", &third).await;
}
