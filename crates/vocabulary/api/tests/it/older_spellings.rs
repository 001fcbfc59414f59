//! Older spellings are accepted, moved to their current place, and reported.

use api::machine::{Machine, MachineSet};
use api::machineconfiguration::MachineConfigPool;
use api::{Translate, Warning, cluster, translate};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Translates an object both as its type and as plain JSON, and expects the same result.
#[track_caller]
fn check<K: Translate + Serialize + DeserializeOwned>(object: Value, expected: Value, warnings: &[&str]) {
    let said = |warnings: Vec<Warning>| warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut plain = object.clone();
    assert_eq!(said(translate(&mut plain)), warnings);
    assert_eq!(plain, expected);
    let mut typed: K = serde_json::from_value(object).unwrap();
    assert_eq!(said(typed.translate()), warnings);
    assert_eq!(serde_json::to_value(&typed).unwrap(), expected);
}

fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "sample" }, "spec": spec })
}

fn pool(spec: Value) -> Value {
    object("machineconfiguration.openshift.io/v1", "MachineConfigPool", spec)
}

#[test]
fn a_pools_machine_selector_becomes_its_node_selector() {
    let selector = json!({ "matchLabels": { "node-role.kubernetes.io/infra": "" } });
    check::<MachineConfigPool>(
        pool(json!({ "machineSelector": selector, "paused": true })),
        pool(json!({ "nodeSelector": selector, "paused": true })),
        &["spec.machineSelector is an older spelling; use spec.nodeSelector"],
    );
}

#[test]
fn todays_spelling_wins_over_the_older_one() {
    let (old, new) = (json!({ "matchLabels": { "a": "old" } }), json!({ "matchLabels": { "a": "new" } }));
    check::<MachineConfigPool>(
        pool(json!({ "machineSelector": old, "nodeSelector": new })),
        pool(json!({ "nodeSelector": new })),
        &["spec.machineSelector is ignored because spec.nodeSelector, its spelling of today, is given too"],
    );
}

#[test]
fn an_empty_provider_spec_does_not_hide_the_older_spelling() {
    let config = json!({ "value": { "instanceType": "m5.large" } });
    let of_today = |spec: Value| object("machine.openshift.io/v1beta1", "Machine", spec);
    let warning = ["spec.providerConfig.value is an older spelling; use spec.providerSpec.value"];
    for empty in [json!({}), json!({ "value": null })] {
        let machine = of_today(json!({ "providerConfig": config, "providerSpec": empty }));
        check::<Machine>(machine, of_today(json!({ "providerSpec": config })), &warning);
        let older = json!({ "providerConfig": config, "providerSpec": empty });
        let machine = object("cluster.k8s.io/v1alpha1", "Machine", older);
        let expected = object("cluster.k8s.io/v1alpha1", "Machine", json!({ "providerSpec": config }));
        check::<cluster::Machine>(machine, expected, &warning);
    }
}

#[test]
fn provider_config_becomes_provider_spec_wherever_machines_are_described() {
    let config = json!({ "value": { "instanceType": "m5.large" } });
    let warning = ["spec.providerConfig.value is an older spelling; use spec.providerSpec.value"];
    for group in ["machine.openshift.io/v1beta1", "cluster.k8s.io/v1alpha1"] {
        let machine = |key: &str| object(group, "Machine", json!({ key: config }));
        if group.starts_with("machine.") {
            check::<Machine>(machine("providerConfig"), machine("providerSpec"), &warning);
        } else {
            check::<cluster::Machine>(machine("providerConfig"), machine("providerSpec"), &warning);
        }
    }
    let in_template =
        ["spec.template.spec.providerConfig.value is an older spelling; use spec.template.spec.providerSpec.value"];
    let template = |key: &str| json!({ "selector": {}, "template": { "spec": { key: config } } });
    let set = |key: &str| object("machine.openshift.io/v1beta1", "MachineSet", template(key));
    check::<MachineSet>(set("providerConfig"), set("providerSpec"), &in_template);
    let set = |key: &str| object("cluster.k8s.io/v1alpha1", "MachineSet", template(key));
    check::<cluster::MachineSet>(set("providerConfig"), set("providerSpec"), &in_template);
    let deployment = |key: &str| object("cluster.k8s.io/v1alpha1", "MachineDeployment", template(key));
    check::<cluster::MachineDeployment>(deployment("providerConfig"), deployment("providerSpec"), &in_template);
    let network = json!({ "services": { "cidrBlocks": [] }, "pods": { "cidrBlocks": [] }, "serviceDomain": "local" });
    let cluster =
        |key: &str| object("cluster.k8s.io/v1alpha1", "Cluster", json!({ "clusterNetwork": network, key: config }));
    check::<cluster::Cluster>(cluster("providerConfig"), cluster("providerSpec"), &warning);
}

#[test]
fn kinds_without_older_spellings_are_not_changed() {
    let today = pool(json!({ "nodeSelector": { "matchLabels": { "a": "b" } } }));
    check::<MachineConfigPool>(today.clone(), today, &[]);
    for stranger in [json!(null), json!([]), json!({ "kind": "Pod" }), json!({ "apiVersion": "v1", "kind": "Pod" })] {
        let mut object = stranger.clone();
        assert!(translate(&mut object).is_empty());
        assert_eq!(object, stranger);
    }
    let mut other = object("example.org/v1", "Machine", json!({ "providerConfig": {} }));
    assert!(translate(&mut other).is_empty());
}
