//! MachineDeployments: a new template replaces machines step by step.

use api::annotations::REVISION;
use api::machine::{MachineDeployment, MachineSet};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{Kind, wait_for, wait_for_all};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage};

on_both!(
    a_new_template_replaces_every_machine_and_the_old_one_can_come_back,
    a_deployment_that_cannot_be_acted_on_says_so,
    a_set_of_the_history_that_somebody_changes_is_not_deleted_unseen,
);

async fn a_set_of_the_history_that_somebody_changes_is_not_deleted_unseen(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    let deployments: Api<MachineDeployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut object = deployment(1, 1);
    object["spec"]["revisionHistoryLimit"] = json!(0);
    deployments.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    complete(&deployments, 1, "1").await;
    let old = stage.sets.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let delete = format!("DELETE /apis/machine.openshift.io/v1beta1/namespaces/{NAMESPACE}/machinesets/{old}");
    controllers.life.hold(Some(&delete));
    let template = json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"size": 2}}}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(template)).await.unwrap();
    controllers.life.sent_again(&delete, 0).await;
    let touched = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    stage.sets.patch(&old, &PatchParams::default(), &touched).await.unwrap();
    controllers.life.hold(None);
    wait_for(&stage.sets, &old, "the old set to be gone", |set| set.is_none()).await;
    assert!(controllers.life.count(&delete) > 1, "the first deletion was planned on an older view of the set");
}

fn deployment(replicas: i32, size: i32) -> Value {
    let labels = json!({"machine.openshift.io/cluster-api-cluster": "c", "app": "web"});
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": {"size": size}}}},
        },
    })
}

async fn complete(deployments: &Api<MachineDeployment>, replicas: i32, revision: &str) {
    wait_for(deployments, "web", &format!("{replicas} machines of revision {revision}"), |deployment| {
        let Some(deployment) = deployment else { return false };
        let status = deployment.status.clone().unwrap_or_default();
        let numbers = [status.replicas, status.updated_replicas, status.available_replicas];
        status.observed_generation == deployment.metadata.generation
            && deployment.annotations().get(REVISION).is_some_and(|is| is == revision)
            && numbers.iter().all(|number| number.unwrap_or(0) == replicas)
    })
    .await;
}

fn sizes(sets: &[MachineSet]) -> Vec<(i64, i32)> {
    let size = |set: &MachineSet| {
        let spec = set.spec.template.as_ref()?.spec.as_ref()?.provider_spec.as_ref()?;
        spec.value.as_ref()?["size"].as_i64()
    };
    let mut all: Vec<_> = sets.iter().map(|set| (size(set).unwrap(), set.spec.replicas.unwrap())).collect();
    all.sort_unstable();
    all
}

async fn a_new_template_replaces_every_machine_and_the_old_one_can_come_back(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let deployments: Api<MachineDeployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment(3, 1)).unwrap()).await.unwrap();
    complete(&deployments, 3, "1").await;

    let template =
        |size: i32| Patch::Merge(json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"size": size}}}}}}));
    deployments.patch("web", &PatchParams::default(), &template(2)).await.unwrap();
    complete(&deployments, 3, "2").await;
    wait_for_all(&stage.sets, "the old set to be empty", |sets| sizes(sets) == [(1, 0), (2, 3)]).await;
    wait_for_all(&stage.machines, "three machines", |machines| machines.len() == 3).await;
    assert_eq!(stage.instances().len(), 3);
    assert_eq!(stage.account.lock().unwrap().creations, 6);

    deployments.patch("web", &PatchParams::default(), &template(1)).await.unwrap();
    complete(&deployments, 3, "3").await;
    wait_for_all(&stage.sets, "the first set to be back", |sets| sizes(sets) == [(1, 3), (2, 0)]).await;

    let scaled = Patch::Merge(json!({"spec": {"replicas": 1}}));
    deployments.patch_scale("web", &PatchParams::default(), &scaled).await.unwrap();
    complete(&deployments, 1, "3").await;
    wait_for_all(&stage.machines, "one machine", |machines| machines.len() == 1).await;
    assert_eq!(stage.instances().len(), 1);
}

async fn a_deployment_that_cannot_be_acted_on_says_so(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let deployments: Api<MachineDeployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut broken = deployment(1, 1);
    broken["spec"]["strategy"] = json!({"type": "Recreate"});
    deployments.create(&PostParams::default(), &serde_json::from_value(broken).unwrap()).await.unwrap();
    stage.event("ReconcileError", "spec.strategy.type must be RollingUpdate").await;
    wait_for(&deployments, "web", "the condition", |deployment| {
        let conditions = deployment.and_then(|it| it.annotations().get("machinist.dev/conditions").cloned());
        conditions.is_some_and(|text| text.contains(r#""reason":"InvalidSpec""#))
    })
    .await;
    assert_eq!(stage.sets.list(&ListParams::default()).await.unwrap().items.len(), 0);
}
