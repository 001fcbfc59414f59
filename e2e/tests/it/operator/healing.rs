//! Objects that are changed or deleted by hand.

use std::time::{Duration, Instant};

use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::machinist::ClusterSettings;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::json;
use testkit::{Kind, wait_for};

use super::stage::{CONTROLLER, Stage, settings};

/// "Within seconds", on a machine that runs all tests at once.
const SECONDS: Duration = Duration::from_secs(10);

fn image_of(deployment: Option<&Deployment>) -> Option<String> {
    deployment?.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
}

#[tokio::test]
async fn an_empty_cluster_gets_everything_and_hand_edits_are_put_back_unless_the_operator_is_off() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        let _operator = stage.operate(settings());
        stage.available().await;
        what_was_made(&stage).await;
        hand_edits_are_put_back(&stage).await;
        a_pool_is_the_users(&stage).await;
        hand_edits_stand_while_the_operator_is_off(&stage).await;
    }
}

async fn what_was_made(stage: &Stage) {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let worker = pools.get("worker").await.unwrap();
    let expression = worker.spec.node_selector.unwrap().match_expressions.unwrap().remove(0);
    assert_eq!(
        (expression.key.as_str(), expression.operator.as_str()),
        ("node-role.kubernetes.io/control-plane", "DoesNotExist")
    );
    assert!(pools.get("master").await.is_ok());
    let settings: ClusterSettings = Api::all(stage.client.clone()).get("cluster").await.unwrap();
    assert_eq!(settings.spec.runtime_service.as_deref(), Some("containerd.service"), "found from the nodes");
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let config = configs.get("machine-config-controller").await.unwrap();
    let topology = config.spec.infra.unwrap().status.unwrap().control_plane_topology;
    assert_eq!(topology.as_deref(), Some("HighlyAvailable"), "pods have somewhere to go");
    assert!(String::from_utf8(config.spec.root_ca_data.0).unwrap().contains("BEGIN CERTIFICATE"));
    assert!(stage.daemon_sets.get("machine-config-daemon").await.is_ok());
    assert!(stage.daemon_sets.get("machine-config-server").await.is_ok());
    let operator = stage.operators.get("machine-config").await.unwrap().status.unwrap();
    let types: Vec<&str> = operator.conditions.iter().map(|one| one.type_.as_str()).collect();
    for type_ in ["Available", "Progressing", "Degraded", "Upgradeable"] {
        assert!(types.contains(&type_), "{types:?}");
    }
    assert!(operator.extension.unwrap().get("worker").is_some());
    assert!(operator.related_objects.iter().any(|one| one.resource == "machineconfigpools"));
}

async fn hand_edits_are_put_back(stage: &Stage) {
    let began = Instant::now();
    let image = json!([{"name": CONTROLLER, "image": "mine:1"}]);
    let edit = json!({"spec": {"template": {"spec": {"containers": image}}}});
    let patch = Patch::Strategic(edit);
    stage.deployments.patch(CONTROLLER, &PatchParams::default(), &patch).await.unwrap();
    wait_for(&stage.deployments, CONTROLLER, "the image to be put back", |deployment| {
        image_of(deployment).is_some_and(|image| image.starts_with("machinist:"))
    })
    .await;
    assert!(began.elapsed() < SECONDS, "it took {:?}", began.elapsed());

    stage.daemon_sets.delete("machine-config-daemon", &DeleteParams::default()).await.unwrap();
    wait_for(&stage.daemon_sets, "machine-config-daemon", "the DaemonSet to come back", |one| {
        one.is_some_and(|one| one.metadata.deletion_timestamp.is_none())
    })
    .await;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    roles.delete(CONTROLLER, &DeleteParams::default()).await.unwrap();
    wait_for(&roles, CONTROLLER, "the ClusterRole to come back", |one| one.is_some()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "machineconfigpools.machineconfiguration.openshift.io";
    let edit = json!([{"op": "replace", "path": "/spec/names/shortNames", "value": ["mine"]}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(edit).unwrap());
    definitions.patch(name, &PatchParams::default(), &patch).await.unwrap();
    wait_for(&definitions, name, "the short name to come back", |one| {
        one.is_some_and(|one| one.spec.names.short_names == Some(vec!["mcp".to_owned()]))
    })
    .await;
}

async fn a_pool_is_the_users(stage: &Stage) {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let edit = json!({"metadata": {"labels": {"machineconfiguration.openshift.io/mco-built-in": null}}, "spec": {"paused": true}});
    pools.patch("worker", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let label = "machineconfiguration.openshift.io/mco-built-in";
    let pool = wait_for(&pools, "worker", "the label to come back", |pool| {
        pool.is_some_and(|pool| pool.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label)))
    });
    assert_eq!(pool.await.unwrap().spec.paused, Some(true), "the spec is the user's");
}

async fn hand_edits_stand_while_the_operator_is_off(stage: &Stage) {
    stage.scale_operator(0).await;
    let began = Instant::now();
    stage.patch_deployment(CONTROLLER, json!({"spec": {"replicas": 0}})).await;
    // Two seconds are several times what healing took above; a write within that time is a failure.
    let mut events = watcher::watch_object(stage.deployments.clone(), CONTROLLER).boxed();
    let healed = async {
        while let Some(event) = events.next().await {
            if event.is_ok_and(|one| one.is_some_and(|one| one.spec.unwrap().replicas == Some(1))) {
                return;
            }
        }
    };
    let healed = tokio::time::timeout(Duration::from_secs(2), healed).await;
    assert!(healed.is_err(), "it was put back after {:?} although the operator is off", began.elapsed());
    stage.scale_operator(1).await;
    wait_for(&stage.deployments, CONTROLLER, "the replicas to be put back", |deployment| {
        deployment.is_some_and(|deployment| deployment.spec.as_ref().unwrap().replicas == Some(1))
    })
    .await;
}
