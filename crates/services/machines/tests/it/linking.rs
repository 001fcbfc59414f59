//! What a node gets from its Machine.

use api::annotations;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage};

on_both!(
    a_node_gets_the_labels_and_taints_of_its_machine_and_loses_them_again,
    a_node_that_two_machines_match_is_linked_to_neither,
    machines_that_claim_one_node_by_its_address_both_say_so_until_one_of_them_goes,
);

async fn a_node_gets_the_labels_and_taints_of_its_machine_and_loses_them_again(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let taint = json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"});
    let spec = json!({"metadata": {"labels": {"tier": "gold"}}, "taints": [taint]});
    stage.create_machine("a", json!({"spec": spec})).await;
    stage.running("a").await;
    wait_for(&stage.nodes, "a", "what the machine wants for it", |node| {
        let Some(node) = node else { return false };
        let tainted = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|it| it.key == "dedicated");
        tainted && node.labels().get("tier").is_some_and(|tier| tier == "gold")
    })
    .await;
    let node = stage.nodes.get("a").await.unwrap();
    assert_eq!(node.annotations()[annotations::MACHINE], format!("{NAMESPACE}/a"));
    // The stage has the groups of 2019 too, and whoever uses them looks for the older name.
    assert_eq!(node.annotations()["machine"], format!("{NAMESPACE}/a"));

    stage.patch_machine("a", json!({"spec": {"metadata": {"labels": {"tier": null}}, "taints": []}})).await;
    wait_for(&stage.nodes, "a", "what the machine no longer wants to be gone", |node| {
        let Some(node) = node else { return false };
        let tainted = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|it| it.key == "dedicated");
        !tainted && !node.labels().contains_key("tier")
    })
    .await;
}

async fn a_node_that_two_machines_match_is_linked_to_neither(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    for name in ["a", "b"] {
        stage.create_machine(name, json!({"spec": {"providerID": "fake:///7"}})).await;
    }
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": "fake:///7"}});
    stage.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let _controllers = stage.control();
    stage
        .event("AmbiguousMachine", "expected 1 machine, got 2 (openshift-machine-api/a, openshift-machine-api/b)")
        .await;
    assert!(!stage.nodes.get("n").await.unwrap().annotations().contains_key(annotations::MACHINE));
    for name in ["a", "b"] {
        let machine = stage.says(name, "InstanceUnique", "False", "fake:///7").await;
        assert!(machine.status.unwrap().node_ref.is_none());
    }
}

async fn machines_that_claim_one_node_by_its_address_both_say_so_until_one_of_them_goes(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.account.lock().unwrap().one_address = true;
    for name in ["a", "b"] {
        stage.create_machine(name, json!({"spec": {"providerSpec": {"value": {"boots": false}}}})).await;
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    stage.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let addresses = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}});
    stage.nodes.patch_status("n", &PatchParams::default(), &Patch::Merge(addresses)).await.unwrap();
    stage.says("a", "NodeUnique", "False", "openshift-machine-api/b").await;
    stage.says("b", "NodeUnique", "False", "openshift-machine-api/a").await;
    stage.delete_machine("b").await;
    stage.machine_gone("b").await;
    let alone = |machine: &api::machine::Machine| crate::stage::condition(machine, "NodeUnique").is_none();
    stage.machine_is("a", "alone again", alone).await;
}
