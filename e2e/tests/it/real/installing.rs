//! The release in a cluster: `machinist install | kubectl apply -f -`.

use std::time::Instant;

use api::config::ClusterOperator;
use kube::api::Api;
use testkit::wait_for;

use super::stage::{IMAGE, Stage};

pub(super) async fn the_release_becomes_ready_pods(stage: &Stage) {
    let start = Instant::now();
    install(stage);
    let count = i32::try_from(stage.cluster.nodes().len()).unwrap();
    for name in ["machine-config-operator", "machine-config-controller"] {
        stage.deployed(&stage.deployments(), name).await;
    }
    stage.on_nodes("machine-config-daemon", count).await;
    stage.on_nodes("machine-config-server", 1).await;
    println!("real: installed and ready in {:.1} s", start.elapsed().as_secs_f64());
    available(stage).await;
}

/// Applies what `machinist install` prints.
pub(super) fn install(stage: &Stage) {
    let output = stage.machinist(&["install", "--image", IMAGE]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stage.cluster.apply(&String::from_utf8(output.stdout).unwrap());
}

/// Waits until the operator says that all is well. Whether a rollout goes on is another matter.
pub(super) async fn available(stage: &Stage) {
    let operators: Api<ClusterOperator> = Api::all(stage.client.clone());
    let is_well = |operator: Option<&ClusterOperator>| {
        let conditions = operator.and_then(|operator| operator.status.as_ref()).map(|status| &status.conditions);
        let says = |type_: &str, value: &str| {
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == type_ && one.status == value))
        };
        says("Available", "True") && says("Degraded", "False")
    };
    wait_for(&operators, api::names::CLUSTER_OPERATOR, "the operator to be available", is_well).await;
}
