//! Several operator processes: which one leads, and what happens to one that was suspended for too long.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use testkit::{Kind, needs, wait_for};

use super::installing::{URL, machinist};
use super::stage::{CONTROLLER, NAMESPACE, Stage};
use crate::controllers::on_both;
use crate::elections::{a_dead_leader_is_replaced, ends, leads};
use crate::processes::operator;

on_both!(an_operator_that_dies_is_replaced_within_its_lease_and_one_that_slept_stands_down);

async fn an_operator_that_dies_is_replaced_within_its_lease_and_one_that_slept_stands_down(kind: Kind) {
    if !needs::kubectl() {
        return;
    }
    let Some(stage) = Stage::start(kind).await else { return };
    stage.control_plane.apply(&machinist(&["install", URL]));
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let lease = api::names::LEASE_OPERATOR;
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| operator(&stage.control_plane, folder.path(), name, &[URL]);
    let second = a_dead_leader_is_replaced(&leases, lease, start).await;
    stage.available().await;
    deleted_comes_back(&stage).await;

    // A process that was suspended beyond the end of its Lease finds another leader, and exits.
    second.signal("STOP");
    let _third = start("third");
    leads(&leases, lease, "third").await;
    second.signal("CONT");
    deleted_comes_back(&stage).await;
    ends(second).await;
    leads(&leases, lease, "third").await;
}

/// Checks that the current leader repairs objects.
async fn deleted_comes_back(stage: &Stage) {
    let before = wait_for(&stage.deployments, CONTROLLER, "the Deployment", |one| one.is_some()).await.unwrap();
    stage.deployments.delete(CONTROLLER, &DeleteParams::default()).await.unwrap();
    wait_for(&stage.deployments, CONTROLLER, "the Deployment to come back", |one| {
        one.is_some_and(|one| one.metadata.uid != before.metadata.uid)
    })
    .await;
}
