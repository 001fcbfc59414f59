//! What an installation consists of, and what goes when it goes.

use std::collections::BTreeSet;

use operate::machine_api::webhook::Webhook;
use operate::machine_api::{self, Controllers};
use operate::uninstall::{self, Removal, Snapshot};
use operate::{Facts, Id, Installation, Keep, found, installed};
use serde_json::{Value, json};

fn facts() -> Facts {
    Facts {
        api_ca: Some("API".into()),
        server_ca: Some("CA".into()),
        service_addresses: vec!["10.96.0.1".into()],
        ..Facts::default()
    }
}

/// Both halves, and what depends on the cluster.
fn everything(installation: &Installation) -> impl Iterator<Item = operate::Desired> {
    let controllers = Controllers { image: "machinist".into(), provider: "aws".into(), ..Controllers::default() };
    let machine_api = machine_api::installed(installation).into_iter();
    let webhook = Webhook { bundle: String::new(), url: None };
    let kept = machine_api::kept(&installation.machine_namespace, &controllers, Some(&webhook));
    let machine_api = machine_api.chain(kept);
    installed(installation).into_iter().chain(found(installation, &facts())).chain(machine_api)
}

#[test]
fn every_object_is_named_once_and_carries_our_label() {
    let installation = Installation::default();
    let all: Vec<_> = everything(&installation).collect();
    let ids: BTreeSet<Id> = all.iter().map(operate::Desired::id).collect();
    assert_eq!(ids.len(), all.len());
    for one in &all {
        assert_eq!(one.object["metadata"]["labels"]["app.kubernetes.io/part-of"], "machinist", "{}", one.id());
        assert!(!one.id().api_version.is_empty() && !one.id().name.is_empty(), "{}", one.object);
    }
}

#[test]
fn an_installation_can_be_in_another_namespace_and_leaves_the_usual_one_alone() {
    let installation = Installation {
        namespace: "machinist".into(),
        machine_namespace: "machines".into(),
        source_namespace: "machinist".into(),
        ..Installation::default()
    };
    for one in everything(&installation) {
        // Definitions describe fields; everything else would put an object there.
        if one.id().kind != "CustomResourceDefinition" {
            assert!(!one.object.to_string().contains("openshift-machine"), "{}", one.object);
        }
    }
}

#[test]
fn what_install_prints_needs_no_kind_of_ours_to_be_there_before() {
    let installation = Installation::default();
    for one in installed(&installation).into_iter().chain(machine_api::installed(&installation)) {
        let group = one.id().api_version.clone();
        assert!(!group.contains("openshift.io") && !group.contains("machinist.dev"), "{}", one.id());
    }
}

#[test]
fn alert_rules_come_only_where_their_kind_is() {
    let rules = |has_prometheus_rules| {
        let facts = Facts { has_prometheus_rules, ..facts() };
        found(&Installation::default(), &facts).iter().filter(|one| one.id().kind == "PrometheusRule").count()
    };
    assert_eq!((rules(false), rules(true)), (0, 1));
}

#[test]
fn monitors_come_only_where_their_kind_is() {
    let monitors = |has_service_monitors| {
        let facts = Facts { has_service_monitors, ..facts() };
        found(&Installation::default(), &facts).iter().filter(|one| one.id().kind == "ServiceMonitor").count()
    };
    assert_eq!((monitors(false), monitors(true)), (0, 5));
}

#[test]
fn pools_and_settings_belong_to_the_user_once_they_are_there() {
    let keep = |kind: &str| {
        found(&Installation::default(), &facts()).into_iter().find(|one| one.id().kind == kind).map(|one| one.keep)
    };
    assert_eq!(keep("MachineConfigPool"), Some(Keep::Labels));
    assert_eq!(keep("ClusterSettings"), Some(Keep::Once));
    assert_eq!(keep("ControllerConfig"), Some(Keep::Whole));
}

fn object(kind: &str, name: &str, labels: Value) -> Value {
    let api_version = match kind {
        "ClusterOperator" => "config.openshift.io/v1",
        "PoolLedger" | "RenderedProvenance" => "machinist.dev/v1alpha1",
        _ => "machineconfiguration.openshift.io/v1",
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}})
}

#[test]
fn an_uninstallation_takes_what_is_ours_and_keeps_what_the_user_made() {
    let ours = json!({"app.kubernetes.io/part-of": "machinist"});
    let snapshot = Snapshot {
        objects: vec![
            object("MachineConfig", "50-motd", json!({})),
            object("MachineConfig", "rendered-worker-1", json!({"machinist.dev/rendered-for": "worker"})),
            object("MachineConfigPool", "worker", ours.clone()),
            object("MachineConfigPool", "infra", json!({})),
            object("PoolLedger", "worker", json!({})),
            object("ClusterOperator", "machine-config", json!({})),
            object("ClusterOperator", "machine-api", ours.clone()),
            object("ClusterOperator", "etcd", json!({})),
        ],
        nodes: vec![json!({
            "metadata": {"name": "a", "annotations": {"machineconfiguration.openshift.io/state": "Done", "other": "x"}},
            "spec": {"taints": [{"key": "UpdateInProgress"}, {"key": "mine"}]},
        })],
        labelled: Vec::new(),
    };
    let plan = uninstall::plan(&Installation::default(), &snapshot);
    let deleted = |kind: &str, name: &str| {
        plan.iter().any(|one| matches!(one, Removal::Delete(id) if id.kind == kind && id.name == name))
    };
    assert!(deleted("MachineConfig", "rendered-worker-1") && !deleted("MachineConfig", "50-motd"));
    assert!(deleted("MachineConfigPool", "worker") && !deleted("MachineConfigPool", "infra"));
    assert!(deleted("PoolLedger", "worker") && deleted("ClusterOperator", "machine-config"));
    assert!(deleted("ClusterOperator", "machine-api"));
    assert!(!deleted("ClusterOperator", "etcd"));
    let foreign =
        Snapshot { objects: vec![object("ClusterOperator", "machine-api", json!({}))], ..Snapshot::default() };
    let foreign = uninstall::plan(&Installation::default(), &foreign);
    let is_report = |one: &Removal| matches!(one, Removal::Delete(id) if id.kind == "ClusterOperator");
    assert!(!foreign.iter().any(is_report), "the platform's own Machine API keeps its report");
    let definition = |name: &str| deleted("CustomResourceDefinition", name);
    assert!(definition("poolledgers.machinist.dev"), "nobody else has a ledger");
    for kept in ["machineconfigs", "machineconfigpools"] {
        assert!(!definition(&format!("{kept}.machineconfiguration.openshift.io")), "a user's {kept} would go with it");
    }
    assert!(!definition("clusteroperators.config.openshift.io"));
    let of_workload = |one: &Removal| match one {
        Removal::Delete(id) if uninstall::is_workload(id) => Some(id.name.clone()),
        Removal::Delete(_) | Removal::CleanNode { .. } | Removal::Keep { .. } => None,
    };
    let first: Vec<String> = plan.iter().map_while(of_workload).collect();
    assert_eq!(first[..2], ["machine-config-operator", "machine-api-operator"], "they would put back the others");
    assert_eq!(first.len(), 6, "whoever makes objects anew goes before what they make: {first:?}");
    assert_eq!(plan.iter().filter_map(of_workload).count(), 6);
    let clean = json!({
        "metadata": {"annotations": {"machineconfiguration.openshift.io/state": null}}, "spec": {"taints": [{"key": "mine"}]},
    });
    assert!(plan.contains(&Removal::CleanNode { name: "a".into(), patch: clean }));
}
