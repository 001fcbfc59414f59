//! Nodes that are lost, vanish or drift during a rollout: each uses up its own share of the budget and delays no other
//! node.

use std::time::Duration;

use api::labels::TAINT_UPDATE_IN_PROGRESS;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use sandbox::fleet::{Behaviour, Fault};
use serde_json::json;
use testkit::objects::file_config;
use testkit::{Kind, wait_for, wait_for_all};

use super::on_both;
use super::stage::{Stage, has, message};
use crate::watching::watch_fleet;

on_both!(nodes_in_trouble_hold_up_nobody_beyond_their_own_share);

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn is_lost(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == TAINT_UPDATE_IN_PROGRESS)
}

async fn nodes_in_trouble_hold_up_nobody_beyond_their_own_share(kind: Kind) {
    let behaviour = Behaviour { update: Duration::from_millis(50), ..Behaviour::default() };
    let Some(stage) = Stage::start(kind, behaviour).await else { return };
    let first = stage.settled_pool("worker", &NODES).await;
    let seen = watch_fleet(stage.nodes.clone());

    // Whichever node is first never returns, which uses up the budget of one.
    NODES.iter().for_each(|node| stage.fleet.inject(node, Some(Fault::NeverReturns)));
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    let nodes = wait_for_all(&stage.nodes, "a node to be lost", |nodes| nodes.iter().any(is_lost)).await;
    let lost = nodes.iter().find(|node| is_lost(node)).unwrap().name_any();
    wait_for_all(&stage.nodes, "those who wait to be tainted", |nodes| {
        nodes.iter().all(|node| is_tainted(node) || is_lost(node))
    })
    .await;
    wait_for(&stage.pools, "worker", "the pool to say who it waits for", |pool| {
        let said = message(pool, "Updating");
        has(pool, "Updating", "True") && said.contains("0 of 5 done") && said.contains(&lost)
    })
    .await;
    assert_eq!(seen.lock().unwrap().most_down, 1);

    // The budget allows one more node, which is removed from the cluster during its update.
    let others: Vec<&str> = NODES.into_iter().filter(|node| *node != lost).collect();
    let (gone, rest) = others.split_first().unwrap();
    others.iter().for_each(|node| stage.fleet.inject(node, None));
    stage.fleet.inject(gone, Some(Fault::Vanish));
    stage.patch_pool("worker", json!({ "spec": { "maxUnavailable": 2 } })).await;
    let second = stage.target("worker").await;
    for node in rest {
        stage.node_at(node, &second).await;
    }
    wait_for(&stage.nodes, gone, "the node to be gone", |node| node.is_none()).await;
    wait_for(&stage.pools, "worker", "three of the four that are left to be done", |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| {
            (status.machine_count, status.updated_machine_count, status.unavailable_machine_count)
                == (Some(4), Some(3), Some(1))
        })
    })
    .await;
    wait_for_all(&stage.nodes, "those who are through to be free of the taint", |nodes| {
        nodes.iter().all(|node| !is_tainted(node) || is_lost(node))
    })
    .await;
    assert!(seen.lock().unwrap().most_down <= 2);

    // The lost node returns and continues its update.
    stage.fleet.inject(&lost, None);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    stage.nodes.patch_status(&lost, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    assert_eq!(stage.updated("worker", &first, 4).await, second);

    // A node whose files were changed is reported, and still gets the config that would repair it.
    stage.fleet.inject(rest[0], Some(Fault::Drift));
    stage.condition("worker", "NodeDegraded", &[rest[0], "content mismatch for file"]).await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "again")).await;
    let target = wait_for(&stage.pools, "worker", "another target", |pool| {
        pool.and_then(|pool| pool.spec.configuration.as_ref()?.name.as_ref()).is_some_and(|name| *name != second)
    });
    let third = target.await.unwrap().spec.configuration.unwrap().name.unwrap();
    stage.node_at(rest[0], &third).await;
    stage.fleet.inject(rest[0], None);
    assert_eq!(stage.updated("worker", &second, 4).await, third);
    stage.well("worker", "Degraded").await;
}
