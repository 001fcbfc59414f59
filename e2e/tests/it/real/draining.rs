//! Drains that do not end.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use testkit::objects::file_config;
use testkit::wait_for_all;

use super::stage::Stage;
use super::web;

/// A person who looks at a node that does not move should not have to look twice.
const TOLD: Duration = Duration::from_secs(5);

/// Both replicas of `web` must stay, and each worker has one, so whichever is first cannot be emptied.
pub(super) async fn a_drain_that_a_budget_holds_is_told_within_seconds(stage: &Stage) {
    let old = stage.running("worker").await;
    web::is_complete(stage).await;
    stage.cluster.apply(&web::budget("web", 2).to_string());
    stage.write(&file_config("70-third", "worker", "/etc/third", "third\n")).await;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let is_cordoned = |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let cordoned = wait_for_all(&nodes, "a worker to be cordoned", |nodes| nodes.iter().any(is_cordoned)).await;
    let since = Instant::now();
    let name = cordoned.iter().find(|node| is_cordoned(node)).unwrap().name_any();
    let told = loop {
        let output = stage.machinist(&["why", "node", &name]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("disruption budget") || since.elapsed() > TOLD {
            break text;
        }
    };
    println!("real: a held drain was told in {:.1} s:\n{told}", since.elapsed().as_secs_f64());
    assert!(since.elapsed() <= TOLD, "told after {:?}: {told}", since.elapsed());
    assert!(told.contains("pod default/web-") && told.contains("is kept by disruption budget"), "{told}");

    // Nothing else went meanwhile, and when the budget allows it the rollout goes on by itself.
    let cordoned = nodes.list(&ListParams::default()).await.unwrap().into_iter().filter(is_cordoned).count();
    assert_eq!(cordoned, 1);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    stage.updated("worker", &old, 2).await;
}
