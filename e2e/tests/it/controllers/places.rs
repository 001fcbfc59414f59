//! Never more nodes than the limit are unavailable at once, whether they had a config before or not.

use std::time::Duration;

use api::annotations;
use kube::api::{Patch, PatchParams, PostParams};
use sandbox::fleet::{Behaviour, Fault};
use serde_json::json;
use testkit::objects::{file_config, pool};
use testkit::{Kind, wait_for};

use super::on_both;
use super::stage::Stage;
use crate::watching::{annotation, watch_fleet};

on_both!(
    the_first_rollout_goes_one_node_at_a_time,
    cordoned_nodes_go_one_at_a_time_and_stay_cordoned,
    a_node_whose_kubelet_is_down_is_healed_beside_one_that_is_dead,
);

fn slow() -> Behaviour {
    Behaviour { update: Duration::from_millis(300), drains: true }
}

async fn the_first_rollout_goes_one_node_at_a_time(kind: Kind) {
    let Some(stage) = Stage::start(kind, slow()).await else { return };
    let names: Vec<String> = (0..4).map(|number| format!("w{number}")).collect();
    stage.fleet.create(names, &["worker"], None).await.unwrap();
    let seen = watch_fleet(stage.nodes.clone());
    stage.write(&file_config("00-worker", "worker", "/etc/worker", "base")).await;
    stage.pools.create(&PostParams::default(), &pool("worker")).await.unwrap();
    stage.updated("worker", "", 4).await;
    assert_eq!(seen.lock().unwrap().most_changing, 1, "nodes that never had a config serve pods too");
}

async fn cordoned_nodes_go_one_at_a_time_and_stay_cordoned(kind: Kind) {
    let Some(stage) = Stage::start(kind, slow()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b", "c"]).await;
    for node in ["b", "c"] {
        let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
        stage.nodes.patch(node, &PatchParams::default(), &cordon).await.unwrap();
    }
    let seen = watch_fleet(stage.nodes.clone());
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    for node in ["b", "c"] {
        wait_for(&stage.nodes, node, "the node to have the config and to be given back", |node| {
            node.is_some_and(|node| {
                let released = annotation(node, annotations::LAST_APPLIED_DRAIN).starts_with("uncordon-");
                released && annotation(node, annotations::CURRENT_CONFIG) != first
            })
        })
        .await;
    }
    assert_eq!(seen.lock().unwrap().most_changing, 1);
    let nodes = [stage.nodes.get("b").await.unwrap(), stage.nodes.get("c").await.unwrap()];
    assert!(nodes.iter().all(|node| node.spec.as_ref().unwrap().unschedulable == Some(true)), "a person cordoned them");
    let serving = stage.nodes.get("a").await.unwrap();
    assert_eq!(annotation(&serving, annotations::DESIRED_CONFIG), first, "two others are unavailable");
}

async fn a_node_whose_kubelet_is_down_is_healed_beside_one_that_is_dead(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["dead", "sick", "well"]).await;
    stage.fleet.inject("dead", Some(Fault::NeverReturns));
    for node in ["dead", "sick"] {
        let down = json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
        stage.nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(down)).await.unwrap();
    }
    wait_for(&stage.pools, "worker", "the pool to see that two are down", |pool| {
        pool.and_then(|pool| pool.status.as_ref()).is_some_and(|status| status.unavailable_machine_count == Some(2))
    })
    .await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    wait_for(&stage.nodes, "sick", "the newest config to reach the node that answers", |node| {
        node.is_some_and(|node| annotation(node, annotations::CURRENT_CONFIG) != first)
    })
    .await;
    for node in ["dead", "well"] {
        let node = stage.nodes.get(node).await.unwrap();
        assert_eq!(annotation(&node, annotations::DESIRED_CONFIG), first);
    }
}
