//! MachineHealthChecks: who is replaced, and what holds them back.

use api::healthchecking::MachineHealthCheck as LegacyCheck;
use api::machine::{Machine, MachineHealthCheck};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use testkit::{Kind, wait_for, wait_until};

use crate::on_both;
use crate::stage::{NAMESPACE, Stage, names, set_ready};

on_both!(
    a_machine_whose_node_stays_unready_is_replaced,
    nothing_is_replaced_while_more_than_max_unhealthy_are,
    a_tenth_of_the_machines_is_replaced_at_once,
    nothing_is_judged_while_nodes_cannot_be_listed,
    a_check_of_2019_goes_by_its_config_map,
    another_controller_is_asked_where_the_check_names_its_template,
    the_brake_holds_for_two_processes_that_both_lead,
    nothing_is_told_of_a_deletion_that_was_refused,
    a_machine_that_got_the_name_of_a_sick_one_is_not_power_cycled,
);

pub(crate) async fn check(stage: &Stage, more: Value) -> Api<MachineHealthCheck> {
    let checks: Api<MachineHealthCheck> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut spec = json!({
        "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machineset": "worker"}},
        "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "1s"}],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "check"}, "spec": spec});
    checks.create(&PostParams::default(), &serde_json::from_value(check).unwrap()).await.unwrap();
    checks
}

async fn machines(stage: &Stage) -> Vec<String> {
    names(&stage.machines.list(&ListParams::default()).await.unwrap().items)
}

/// Waits until the check counts so many machines and so many healthy ones.
async fn counts(checks: &Api<MachineHealthCheck>, expected: i64, healthy: i64) {
    wait_for(checks, "check", &format!("{healthy} of {expected} healthy"), |check| {
        let status = check.and_then(|check| check.status.as_ref());
        status.is_some_and(|it| it.expected_machines == Some(expected) && it.current_healthy == Some(healthy))
    })
    .await;
}

async fn a_machine_whose_node_stays_unready_is_replaced(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 3).await;
    let checks = check(&stage, json!({})).await;
    stage.available("worker", 3).await;
    counts(&checks, 3, 3).await;
    let sick = machines(&stage).await[1].clone();
    let uid = stage.machines.get(&sick).await.unwrap().uid();

    set_ready(&stage.nodes, &sick, "False").await;
    stage.event("DetectedUnhealthy", &format!("{NAMESPACE}/check/{sick}/{sick} has unhealthy node {sick}")).await;
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{sick}/{sick} has been remediated")).await;
    wait_for(&stage.machines, &sick, "the sick machine to be gone", |machine| {
        machine.is_none_or(|machine| machine.uid() != uid)
    })
    .await;
    stage.available("worker", 3).await;
    counts(&checks, 3, 3).await;
    assert_eq!(stage.account.lock().unwrap().creations, 4);
    assert_eq!(stage.instances().len(), 3);
}

async fn nothing_is_replaced_while_more_than_max_unhealthy_are(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 3).await;
    stage.available("worker", 3).await;
    let all = machines(&stage).await;
    for sick in &all[..2] {
        set_ready(&stage.nodes, sick, "False").await;
    }
    let checks = check(&stage, json!({"maxUnhealthy": "40%"})).await;
    stage.event("RemediationRestricted", "(total: 3, unhealthy: 2, maxUnhealthy: 40%)").await;
    wait_for(&checks, "check", "the restriction in its status", |check| {
        let Some(status) = check.and_then(|check| check.status.as_ref()) else { return false };
        let allowed = status.conditions.iter().find(|condition| condition.type_ == "RemediationAllowed");
        allowed.is_some_and(|it| it.status == "False" && it.reason.as_deref() == Some("TooManyUnhealthy"))
    })
    .await;
    assert_eq!(machines(&stage).await, all);
    // One of them recovers, so the other is replaced.
    set_ready(&stage.nodes, &all[0], "True").await;
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{}/", all[1])).await;
    stage.available("worker", 3).await;
    counts(&checks, 3, 3).await;
    assert_eq!(stage.account.lock().unwrap().creations, 4);
}

async fn a_tenth_of_the_machines_is_replaced_at_once(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let mut held = crate::stage::set("worker", 4);
    let hooks = json!({"preTerminate": [{"name": "test.dev/hold", "owner": "test"}]});
    let spec = held.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.lifecycle_hooks = Some(serde_json::from_value(hooks).unwrap());
    stage.sets.create(&PostParams::default(), &held).await.unwrap();
    stage.available("worker", 4).await;
    let all = machines(&stage).await;
    for sick in &all[..2] {
        set_ready(&stage.nodes, sick, "False").await;
    }
    let _checks = check(&stage, json!({})).await;
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{}/", all[0])).await;
    // The set has made a replacement, so the check has had its time, and the first one is still there.
    wait_for(&stage.sets, "worker", "the replacement to be ready", |set| {
        let status = set.and_then(|set| set.status.as_ref());
        status.is_some_and(|status| status.replicas == Some(4) && status.ready_replicas == Some(3))
    })
    .await;
    let is_leaving = |machine: &&Machine| machine.metadata.deletion_timestamp.is_some();
    let now = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(now.iter().filter(is_leaving).map(ResourceExt::name_any).collect::<Vec<_>>(), [all[0].clone()]);

    stage.patch_machine(&all[0], json!({"spec": {"lifecycleHooks": null}})).await;
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{}/", all[1])).await;
    stage.patch_machine(&all[1], json!({"spec": {"lifecycleHooks": null}})).await;
    stage.available("worker", 4).await;
}

async fn nothing_is_judged_while_nodes_cannot_be_listed(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_set("worker", 2).await;
    stage.available("worker", 2).await;
    first.kill().await;
    let all = machines(&stage).await;
    let sick = &all[0];
    stage.nodes.delete(sick, &DeleteParams::default()).await.unwrap();
    let _checks = check(&stage, json!({})).await;
    stage.faults.fail("nodes", 503);
    let _second = stage.control();
    stage.event("CannotWatch", "cannot watch nodes").await;
    assert_eq!(machines(&stage).await, all);
    assert!(stage.machines.get(sick).await.unwrap().metadata.deletion_timestamp.is_none());
    stage.faults.mend("nodes");
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{sick}/")).await;
    stage.available("worker", 2).await;
}

async fn a_check_of_2019_goes_by_its_config_map(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    stage.settings.listen = Some(address);
    stage.faults.fail("configmaps", 503);
    let _controllers = stage.control();
    stage.create_set("worker", 2).await;
    stage.available("worker", 2).await;
    // Without quotes the status is a boolean, as in the README of the time.
    let conditions = "items:\n- {name: NetworkUnavailable, status: True, timeout: 1s}\n";
    let config_maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let config_map = json!({"metadata": {"name": "node-unhealthy-conditions"}, "data": {"conditions": conditions}});
    config_maps.create(&PostParams::default(), &serde_json::from_value(config_map).unwrap()).await.unwrap();
    let checks: Api<LegacyCheck> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let selector = json!({"matchLabels": {"machine.openshift.io/cluster-api-machineset": "worker"}});
    let check = json!({"apiVersion": "healthchecking.openshift.io/v1alpha1", "kind": "MachineHealthCheck",
        "metadata": {"name": "old"}, "spec": {"selector": selector}});
    checks.create(&PostParams::default(), &serde_json::from_value(check).unwrap()).await.unwrap();
    stage.event("ReconcileError", "cannot read configmaps").await;
    let sick = machines(&stage).await[0].clone();
    let uid = stage.machines.get(&sick).await.unwrap().uid();
    let condition = json!({"type": "NetworkUnavailable", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "reason": "Test", "message": ""});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    stage.nodes.patch_status(&sick, &PatchParams::default(), &patch).await.unwrap();
    stage.faults.mend("configmaps");
    stage.event("MachineDeleted", &format!("{NAMESPACE}/old/{sick}/")).await;
    wait_for(&stage.machines, &sick, "the sick machine to be gone", |machine| {
        machine.is_none_or(|machine| machine.uid() != uid)
    })
    .await;
    stage.available("worker", 2).await;
    let counter = r#"mapi_machinehealthcheck_remediation_success_total{name="old",namespace="openshift-machine-api"}"#;
    let is_counted = async || crate::measuring::scrape(address).await.lines().any(|line| line.starts_with(counter));
    wait_until("its counter", || async { is_counted().await.then_some(()) }).await;
    checks.delete("old", &DeleteParams::default()).await.unwrap();
    wait_until("its counter to be gone with it", || async { (!is_counted().await).then_some(()) }).await;
}

async fn another_controller_is_asked_where_the_check_names_its_template(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    for (kind, plural) in [("Remedy", "remedies"), ("RemedyTemplate", "remedytemplates")] {
        install(&stage, kind, plural).await;
    }
    let resource = |kind: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.org", "v1", kind), plural)
    };
    let remedies: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), NAMESPACE, &resource("Remedy", "remedies"));
    let templates: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), NAMESPACE, &resource("RemedyTemplate", "remedytemplates"));
    stage.create_set("worker", 2).await;
    stage.available("worker", 2).await;
    let sick = machines(&stage).await[0].clone();
    set_ready(&stage.nodes, &sick, "False").await;
    let template =
        json!({"apiVersion": "example.org/v1", "kind": "RemedyTemplate", "name": "kick", "namespace": NAMESPACE});
    let checks = check(&stage, json!({"remediationTemplate": template})).await;
    wait_for(&checks, "check", "a word about the template", |check| {
        let conditions = check.and_then(|check| check.status.as_ref()).map(|status| &status.conditions);
        let told = |message: &str| message.contains("example.org/v1, Kind=RemedyTemplate \"kick\" does not exist");
        conditions.into_iter().flatten().any(|it| it.message.as_deref().is_some_and(told))
    })
    .await;
    let kick = json!({"apiVersion": "example.org/v1", "kind": "RemedyTemplate", "metadata": {"name": "kick"},
        "spec": {"template": {"spec": {"how": "hard"}}}});
    templates.create(&PostParams::default(), &serde_json::from_value(kick).unwrap()).await.unwrap();
    // Templates are not watched; the check is looked at when anything about it changes.
    let touched = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    checks.patch("check", &PatchParams::default(), &touched).await.unwrap();
    wait_for(&remedies, &sick, "the request", |request| {
        request.is_some_and(|it| it.data["spec"]["how"] == "hard" && it.owner_references()[0].kind == "Machine")
    })
    .await;
    assert!(stage.machines.get(&sick).await.unwrap().metadata.deletion_timestamp.is_none());
    set_ready(&stage.nodes, &sick, "True").await;
    wait_for(&remedies, &sick, "the request to be taken back", |request| request.is_none()).await;
}

async fn the_brake_holds_for_two_processes_that_both_lead(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_set("worker", 4).await;
    let checks = check(&stage, json!({})).await;
    stage.available("worker", 4).await;
    counts(&checks, 4, 4).await;
    let all = machines(&stage).await;

    // The first process is on its way to delete one machine and is held up.
    first.life.hold(Some("DELETE"));
    set_ready(&stage.nodes, &all[0], "False").await;
    first.life.sent(|request| request.starts_with("DELETE") && request.ends_with(&all[0])).await;
    // That machine recovers and others fall ill. Another process leads by now, and sees nobody under remediation.
    set_ready(&stage.nodes, &all[0], "True").await;
    for sick in &all[1..3] {
        set_ready(&stage.nodes, sick, "False").await;
    }
    stage.settings.identity = "other".into();
    let _second = stage.control();
    stage.event("ClaimedElsewhere", "another process").await;
    let now = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert!(now.iter().all(|machine| machine.metadata.deletion_timestamp.is_none()), "two under remediation");
}

async fn nothing_is_told_of_a_deletion_that_was_refused(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    stage.create_set("worker", 3).await;
    let checks = check(&stage, json!({})).await;
    stage.available("worker", 3).await;
    counts(&checks, 3, 3).await;
    let sick = machines(&stage).await[0].clone();
    controllers.life.refuse_deletions(true);
    set_ready(&stage.nodes, &sick, "False").await;
    stage.event("ReconcileError", "cannot write machine").await;
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(stage.client.clone());
    let told = events.list(&ListParams::default()).await.unwrap().items;
    assert!(told.iter().all(|event| event.reason.as_deref() != Some("MachineDeleted")));
    controllers.life.refuse_deletions(false);
    stage.event("MachineDeleted", &format!("{NAMESPACE}/check/{sick}/")).await;
}

async fn a_machine_that_got_the_name_of_a_sick_one_is_not_power_cycled(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    let labels = json!({"machine.openshift.io/cluster-api-machineset": "worker"});
    stage.create_machine("a", json!({"metadata": {"labels": labels}})).await;
    stage.running("a").await;
    let checks = check(&stage, json!({})).await;
    let strategy =
        json!({"metadata": {"annotations": {"machine.openshift.io/remediation-strategy": "external-baremetal"}}});
    checks.patch("check", &PatchParams::default(), &Patch::Merge(strategy)).await.unwrap();
    let patch = format!("PATCH /apis/machine.openshift.io/v1beta1/namespaces/{NAMESPACE}/machines/a");
    controllers.life.hold(Some(&patch));
    set_ready(&stage.nodes, "a", "False").await;
    let before = controllers.life.count(&patch);
    controllers.life.sent_again(&patch, before).await;
    // While the request is on its way, the machine goes and another one gets its name.
    stage.patch_machine("a", json!({"metadata": {"finalizers": null}})).await;
    stage.delete_machine("a").await;
    stage.machine_gone("a").await;
    let other = stage.create_machine("a", json!({"metadata": {"labels": {"app": "other"}}})).await;
    controllers.life.hold(None);
    // The old node has its name, so it does not become one.
    let running = stage.machine_is("a", "made", |machine| crate::stage::phase(machine) == Some("Provisioned")).await;
    assert_eq!(running.uid(), other.uid());
    assert!(!running.annotations().contains_key("host.metal3.io/external-remediation"), "{:?}", running.annotations());
}

pub(crate) async fn install(stage: &Stage, kind: &str, plural: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let name = format!("{plural}.example.org");
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    wait_for(&crds, &name, "the kind to be served", |crd| {
        let conditions = crd.and_then(|crd| crd.status.as_ref()?.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
    })
    .await;
}
