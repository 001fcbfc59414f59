//! Whose cluster it is.

use api::machineconfiguration::MachineConfigPool;
use kube::api::Api;
use testkit::wait_for;

use crate::stage::{Stage, settings};

async fn workers(stage: &Stage) -> MachineConfigPool {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    wait_for(&pools, "worker", "the workers' pool", |pool| pool.is_some()).await.unwrap()
}

#[tokio::test]
async fn kinds_of_openshift_that_we_install_ourselves_do_not_make_a_cluster_openshift() {
    let stage = Stage::start().await;
    stage.install_definitions().await;
    let _operator = stage.operate(settings());
    let selector = workers(&stage).await.spec.node_selector.unwrap();
    let expression = selector.match_expressions.unwrap_or_default().pop().expect("plain nodes have no role of workers");
    assert_eq!(
        (expression.key.as_str(), expression.operator.as_str()),
        ("node-role.kubernetes.io/control-plane", "DoesNotExist")
    );
}

#[tokio::test]
async fn openshifts_workers_are_known_by_their_role() {
    let stage = Stage::start().await;
    stage.install_infrastructure().await;
    let _operator = stage.operate(settings());
    let selector = workers(&stage).await.spec.node_selector.unwrap();
    assert!(selector.match_labels.unwrap_or_default().contains_key("node-role.kubernetes.io/worker"));
}
