//! Which nodes get a config, when, and how they recover.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use sandbox::fleet::{Behaviour, Fault};
use serde_json::json;
use testkit::objects::{file_config, pool};
use testkit::{Kind, wait_for, wait_for_all, wait_until};

use super::on_both;
use super::stage::Stage;
use crate::watching::{annotation, watch_fleet};

on_both!(
    reverting_a_bad_config_heals_the_node_it_broke,
    the_newest_config_reaches_a_node_that_hangs,
    a_relabelled_node_follows_its_new_pool,
    a_percentage_is_a_budget,
    a_node_that_a_person_sends_to_an_older_config_is_held_there_until_it_is_let_go,
);

async fn reverting_a_bad_config_heals_the_node_it_broke(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b"]).await;
    stage.fleet.inject("a", Some(Fault::Fail));
    stage.fleet.inject("b", Some(Fault::Fail));
    let bad = file_config("50-bad", "worker", "/etc/bad", "bad");
    stage.write(&bad).await;
    let text = stage.condition("worker", "NodeDegraded", &["the simulated update failed"]).await;
    let broken = if text.contains("Node a") { "a" } else { "b" };
    stage.condition("worker", "Degraded", &["the simulated update failed"]).await;

    // Deleting the fragment is enough to recover; no annotation is edited.
    stage.delete("50-bad").await;
    stage.node_at(broken, &first).await;
    stage.well("worker", "Degraded").await;
    wait_for(&stage.pools, "worker", "both nodes to be updated", |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| status.updated_machine_count == Some(2) && status.degraded_machine_count == Some(0))
    })
    .await;
}

async fn the_newest_config_reaches_a_node_that_hangs(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    stage.fleet.inject("a", Some(Fault::Hang));
    stage.write(&file_config("50-one", "worker", "/etc/one", "one")).await;
    wait_for(&stage.nodes, "a", "the node to work", |node| {
        node.is_some_and(|node| annotation(node, api::annotations::STATE) == "Working")
    })
    .await;
    stage.write(&file_config("50-two", "worker", "/etc/two", "two")).await;
    let newest = wait_for(&stage.pools, "worker", "a third config", |pool| {
        let target = pool.and_then(|pool| pool.spec.configuration.as_ref()).map(|it| it.source.len());
        target == Some(3)
    });
    let newest = newest.await.unwrap().spec.configuration.unwrap().name.unwrap();
    wait_for(&stage.nodes, "a", "the newest config to be wanted", |node| {
        node.is_some_and(|node| annotation(node, api::annotations::DESIRED_CONFIG) == newest)
    })
    .await;
    stage.fleet.inject("a", None);
    assert_eq!(stage.updated("worker", &first, 1).await, newest);
}

async fn a_relabelled_node_follows_its_new_pool(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let worker = stage.settled_pool("worker", &["a", "b"]).await;
    stage.write(&file_config("10-infra", "infra", "/etc/infra", "infra")).await;
    stage.pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    stage.relabel("a", json!({ "node-role.kubernetes.io/infra": "" })).await;
    let infra = stage.updated("infra", "", 1).await;
    stage.node_at("a", &infra).await;
    stage.relabel("a", json!({ "node-role.kubernetes.io/infra": null })).await;
    stage.node_at("a", &worker).await;

    // Two custom pools select the node: it follows neither, the conflict names both, and the rest of the fleet
    // continues.
    stage.pools.create(&PostParams::default(), &pool("gpu")).await.unwrap();
    wait_for(&stage.pools, "gpu", "the new pool to be known", |pool| pool.is_some_and(|pool| pool.status.is_some()))
        .await;
    let both = json!({ "node-role.kubernetes.io/infra": "", "node-role.kubernetes.io/gpu": "" });
    stage.relabel("a", both).await;
    stage.event("MultipleCustomPools", &["node a belongs to 2 custom roles", "gpu", "infra"]).await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    let newer = stage.updated("worker", &worker, 1).await;
    stage.node_at("b", &newer).await;
    assert_eq!(annotation(&stage.nodes.get("a").await.unwrap(), api::annotations::CURRENT_CONFIG), worker);
}

async fn a_percentage_is_a_budget(kind: Kind) {
    let behaviour = Behaviour { update: std::time::Duration::from_millis(200), ..Behaviour::default() };
    let Some(stage) = Stage::start(kind, behaviour).await else { return };
    let names: Vec<String> = (0..10).map(|n| format!("node-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = stage.settled_pool("worker", &names).await;
    stage.patch_pool("worker", json!({ "spec": { "maxUnavailable": "35%" } })).await;
    // A held node keeps its config, and a paused pool starts nothing.
    stage.annotate("node-9", json!({ "machinist.dev/hold": "inspection" })).await;
    stage.patch_pool("worker", json!({ "spec": { "paused": true } })).await;
    let seen = watch_fleet(stage.nodes.clone());
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    wait_for(&stage.pools, "worker", "the pool to say that it is paused", |pool| {
        super::stage::message(pool, "Updating").contains("Pool is paused; will not update to MachineConfig")
    })
    .await;
    assert!(seen.lock().unwrap().targeted.iter().all(|(_, config)| *config == first), "nothing moves while paused");
    stage.patch_pool("worker", json!({ "spec": { "paused": false } })).await;
    let target = stage.target("worker").await;
    wait_for_all(&stage.nodes, "nine nodes at the new config", |nodes| {
        nodes.iter().filter(|node| annotation(node, api::annotations::CURRENT_CONFIG) == target).count() == 9
    })
    .await;
    let seen = seen.lock().unwrap().clone();
    assert!(seen.most_down <= 3 && seen.most_down > 1, "3 of 10 may be down: {}", seen.most_down);
    let held = stage.nodes.get("node-9").await.unwrap();
    assert_eq!(held.annotations()[api::annotations::CURRENT_CONFIG], first);
    stage.annotate("node-9", json!({ "machinist.dev/hold": null })).await;
    assert_eq!(stage.updated("worker", &first, 10).await, target);
    // No node waits for an update any more, so none is tainted.
    wait_for_all(&stage.nodes, "no taint to be left", |nodes| {
        let taints = nodes.iter().filter_map(|node| node.spec.as_ref()?.taints.as_ref());
        taints.flatten().all(|taint| taint.key != "UpdateInProgress")
    })
    .await;
}

async fn a_node_that_a_person_sends_to_an_older_config_is_held_there_until_it_is_let_go(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    let first = stage.settled_pool("worker", &["a", "b"]).await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    let second = stage.updated("worker", &first, 2).await;
    // The annotations that a node is created with do not count as a request, and the API server stores whole seconds.
    let created = stage.nodes.get("a").await.unwrap().metadata.creation_timestamp.unwrap().0.as_second();
    wait_until("the second after the node was created", || async {
        (jiff::Timestamp::now().as_second() > created).then_some(())
    })
    .await;
    let by_hand = json!({
        api::annotations::CURRENT_CONFIG: first, api::annotations::DESIRED_CONFIG: first,
    });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": by_hand } }));
    stage.nodes.patch("a", &PatchParams::apply("kubectl-edit"), &patch).await.unwrap();
    let held = wait_for(&stage.nodes, "a", "the hold", |node| {
        node.is_some_and(|node| !annotation(node, api::annotations::HOLD).is_empty())
    });
    let hold = annotation(&held.await.unwrap(), api::annotations::HOLD);
    assert!(hold.starts_with(&format!("kubectl-edit set desiredConfig to {first} at ")), "{hold}");
    stage.node_at("a", &first).await;
    stage.event("DesiredConfigHeld", &["kubectl-edit", &first, "machinist.dev/hold"]).await;
    wait_for(&stage.pools, "worker", "one node not to be updated", |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| status.updated_machine_count == Some(1))
    })
    .await;
    stage.annotate("a", json!({ api::annotations::HOLD: null })).await;
    stage.node_at("a", &second).await;
    let let_go = stage.nodes.get("a").await.unwrap();
    assert_eq!(annotation(&let_go, api::annotations::HELD_CONFIG), "", "the next request is a new one");
}
