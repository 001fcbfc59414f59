//! Several controller processes: which one leads, and what a deposed leader can still do.

use std::time::Duration;

use api::annotations;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use sandbox::fleet::{Behaviour, Fleet};
use testkit::objects::{file_config, pool};
use testkit::{Kind, control_plane, wait_for_all};

use super::on_both;
use crate::elections::{a_dead_leader_is_replaced, ends, leads};
use crate::processes::controller;
use crate::watching::{annotation, watch_fleet};

on_both!(
    a_leader_that_was_stopped_and_wakes_up_late_cannot_exceed_the_budget,
    a_leader_that_dies_is_replaced_within_its_lease,
);

async fn a_leader_that_dies_is_replaced_within_its_lease(kind: Kind) {
    let Some(control_plane) = control_plane(kind).await else { return };
    control_plane.install().await;
    let folder = tempfile::tempdir().unwrap();
    let leases: Api<Lease> = Api::namespaced(control_plane.client().await, api::names::NAMESPACE);
    let start = |name: &str| controller(&control_plane, folder.path(), name, &[]);
    a_dead_leader_is_replaced(&leases, api::names::LEASE_CONTROLLER, start).await;
}

async fn a_leader_that_was_stopped_and_wakes_up_late_cannot_exceed_the_budget(kind: Kind) {
    let Some(control_plane) = control_plane(kind).await else { return };
    control_plane.install().await;
    let folder = tempfile::tempdir().unwrap();
    let client = control_plane.client().await;
    let first = controller(&control_plane, folder.path(), "first", &[]);
    let leases: Api<Lease> = Api::namespaced(client.clone(), api::names::NAMESPACE);
    leads(&leases, api::names::LEASE_CONTROLLER, "first").await;
    let _second = controller(&control_plane, folder.path(), "second", &[]);

    let behaviour = Behaviour { update: Duration::from_millis(300), ..Behaviour::default() };
    let fleet = Fleet::new(client.clone(), "leading", behaviour);
    let names: Vec<String> = (0..12).map(|n| format!("node-{n:02}")).collect();
    fleet.create(names, &["worker"], Some("rendered-worker-none")).await.unwrap();
    tokio::spawn(fleet.run());
    let nodes: Api<Node> = Api::all(client.clone());
    let seen = watch_fleet(nodes.clone());
    let pools = Api::all(client.clone());
    pools.create(&PostParams::default(), &pool("worker")).await.unwrap();
    let fragment = file_config("00-worker", "worker", "/etc/base", "base");
    Api::all(client.clone()).create(&PostParams::default(), &fragment).await.unwrap();

    let targeted = |config: &str| config.starts_with("rendered-worker-") && config != "rendered-worker-none";
    wait_for_all(&nodes, "the rollout to begin", |nodes| {
        nodes.iter().any(|node| targeted(&annotation(node, annotations::DESIRED_CONFIG)))
    })
    .await;
    first.signal("STOP");
    leads(&leases, api::names::LEASE_CONTROLLER, "second").await;
    first.signal("CONT");
    wait_for_all(&nodes, "every node to be updated", |nodes| {
        nodes.iter().all(|node| targeted(&annotation(node, annotations::CURRENT_CONFIG)))
    })
    .await;
    assert_eq!(seen.lock().unwrap().most_down, 1, "the budget is never exceeded");
    ends(first).await;
}
