//! The table of rights is enough for everything that the controllers do.

use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for, wait_for_all};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage, set_ready};

on_both!(the_table_of_rights_is_enough);

async fn the_table_of_rights_is_enough(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let secret = json!({"metadata": {"name": "user-data"}, "stringData": {"userData": "the words"}});
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let _controllers = stage.control_with_rights().await;
    // A deployment makes a set, the set makes machines, and their nodes are linked and labelled.
    let labels = json!({"machine.openshift.io/cluster-api-cluster": "c", "app": "web"});
    let provider = json!({"value": {"userDataSecret": {"name": "user-data"}}});
    let spec = json!({"providerSpec": provider, "metadata": {"labels": {"tier": "gold"}}});
    let deployment = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    let deployments: Api<api::machine::MachineDeployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    wait_for_all(&stage.nodes, "two nodes with their label", |nodes| {
        nodes.len() == 2 && nodes.iter().all(|node| node.labels().contains_key("tier"))
    })
    .await;
    wait_for_all(&stage.machines, "two machines that run", |machines| {
        machines.iter().all(|machine| crate::stage::phase(machine) == Some("Running"))
    })
    .await;
    // A check with a template that nobody may read says so, and counts.
    let template = json!({"apiVersion": "example.org/v1", "kind": "RemedyTemplate", "name": "kick"});
    crate::health::install(&stage, "Remedy", "remedies").await;
    crate::health::install(&stage, "RemedyTemplate", "remedytemplates").await;
    let checks = crate::health::check(&stage, json!({"selector": {}, "remediationTemplate": template})).await;
    wait_for(&checks, "check", "a word about the template", |check| {
        let Some(status) = check.and_then(|check| check.status.as_ref()) else { return false };
        let told = status.conditions.iter().filter_map(|condition| condition.message.as_deref());
        status.expected_machines == Some(2)
            && told.into_iter().any(|it| it.contains("remedytemplates") && it.contains("forbidden"))
    })
    .await;
    checks.delete("check", &kube::api::DeleteParams::default()).await.unwrap();
    // A check has a sick machine drained and replaced.
    let sick = stage.machines.list(&ListParams::default()).await.unwrap().items[0].clone();
    let pods = stage.place("web", &sick.name_any(), json!({})).await;
    set_ready(&stage.nodes, &sick.name_any(), "False").await;
    let checks: Api<api::machine::MachineHealthCheck> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let unhealthy = json!([{"type": "Ready", "status": "False", "timeout": "1s"}]);
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "check"}, "spec": {"selector": {}, "unhealthyConditions": unhealthy}});
    checks.create(&PostParams::default(), &serde_json::from_value(check).unwrap()).await.unwrap();
    wait_for(&stage.machines, &sick.name_any(), "the sick machine to be gone", |machine| {
        machine.is_none_or(|machine| machine.uid() != sick.uid())
    })
    .await;
    wait_for(&pods, "web", "its pod to be gone", |pod| pod.is_none()).await;
    stage.event("MachineDeleted", "has been remediated").await;
    let events: Api<Event> = Api::all(stage.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let note = |event: &&Event| event.note.clone().unwrap_or_default();
    let refused = events.iter().filter(|event| note(event).contains("forbidden") && !note(event).contains("remed"));
    assert_eq!(refused.filter_map(|event| event.note.clone()).collect::<Vec<_>>(), Vec::<String>::new());
}
