//! A Machine goes after its node is empty and its hooks are gone.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for};

use crate::on_both;
use crate::stage::Stage;

on_both!(
    a_pod_that_may_not_go_holds_its_machine_and_is_named_on_it,
    hooks_hold_the_drain_and_then_the_instance,
    a_machine_that_is_excluded_is_not_drained,
    the_controllers_stay_where_no_other_node_takes_them_and_leave_last_where_one_does,
);

async fn the_controllers_stay_where_no_other_node_takes_them_and_leave_last_where_one_does(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    stage.place("web", "a", json!({})).await;
    let pods = stage.place_in(crate::stage::NAMESPACE, "ours", "a", json!({"k8s-app": "controller"})).await;
    stage.delete_machine("a").await;
    stage.machine_gone("a").await;
    stage.event("DrainSucceeded", "Node drain succeeded").await;
    assert!(pods.get("ours").await.unwrap().metadata.deletion_timestamp.is_none(), "it had nowhere to go");

    for name in ["b", "c"] {
        stage.create_machine(name, json!({})).await;
        stage.running(name).await;
    }
    // As the node controller does, which does not run here.
    let untainted = Patch::Merge(json!({"spec": {"taints": null}}));
    stage.nodes.patch("c", &PatchParams::default(), &untainted).await.unwrap();
    let pods = stage.place_in(crate::stage::NAMESPACE, "theirs", "b", json!({"k8s-app": "controller"})).await;
    stage.delete_machine("b").await;
    wait_for(&pods, "theirs", "the pod to be gone", |pod| pod.is_none()).await;
    stage.machine_gone("b").await;
}

async fn a_pod_that_may_not_go_holds_its_machine_and_is_named_on_it(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    let pods = stage.place("web", "a", json!({"app": "web"})).await;

    stage.delete_machine("a").await;
    let held = stage.says("a", "Drained", "False", "default/web").await;
    assert_eq!(crate::stage::phase(&held), Some("Deleting"));
    assert_eq!(stage.nodes.get("a").await.unwrap().spec.unwrap().unschedulable, Some(true));
    assert_eq!(stage.instances(), ["a"], "the instance waits for the drain");
    assert!(pods.get_opt("web").await.unwrap().is_some());

    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    stage.machine_gone("a").await;
    wait_for(&pods, "web", "the pod to be gone", |pod| pod.is_none()).await;
    assert_eq!(stage.instances(), Vec::<String>::new());
    assert!(stage.nodes.get_opt("a").await.unwrap().is_none());
    stage.event("DrainSucceeded", "Node drain succeeded").await;
}

async fn hooks_hold_the_drain_and_then_the_instance(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let hook = json!([{"name": "test.dev/hold", "owner": "test"}]);
    let hooks = json!({"preDrain": hook, "preTerminate": hook});
    stage.create_machine("a", json!({"spec": {"lifecycleHooks": hooks}})).await;
    stage.running("a").await;
    stage.delete_machine("a").await;
    stage.says("a", "Drainable", "False", "Name:test.dev/hold Owner:test").await;
    stage.event("DrainBlocked", "pre-drain hook").await;
    assert_eq!(stage.nodes.get("a").await.unwrap().spec.unwrap().unschedulable, None);

    stage.patch_machine("a", json!({"spec": {"lifecycleHooks": {"preDrain": null}}})).await;
    stage.says("a", "Drained", "True", "Drain finished successfully").await;
    assert_eq!(stage.instances(), ["a"]);

    stage.patch_machine("a", json!({"spec": {"lifecycleHooks": null}})).await;
    stage.machine_gone("a").await;
    assert_eq!(stage.instances(), Vec::<String>::new());
}

async fn a_machine_that_is_excluded_is_not_drained(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let excluded = json!({api::annotations::EXCLUDE_NODE_DRAINING: ""});
    stage.create_machine("a", json!({"metadata": {"annotations": excluded}})).await;
    stage.running("a").await;
    let pods = stage.place("web", "a", json!({})).await;
    stage.delete_machine("a").await;
    stage.machine_gone("a").await;
    stage.event("DrainSkipped", "Node drain skipped").await;
    assert!(pods.get("web").await.unwrap().metadata.deletion_timestamp.is_none(), "nobody evicted it");
}
