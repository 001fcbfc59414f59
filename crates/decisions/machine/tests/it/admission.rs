//! Admission: copies of machines, and what vectors do not cover.

use expect_test::expect;
use machine::admission::{
    adoption_warning, export, review_health_check, review_machine, review_set, settle_copy, skips_provider_checks,
};
use serde_json::{Value, json};

use crate::make::{machine, merge, object};

#[test]
fn a_copy_loses_the_instance_of_the_original() {
    let copy = machine(json!({
        "metadata": {
            "annotations": {"machine.openshift.io/instance-state": "running", "machinist.dev/instance-intent": "{}", "machinist.dev/template-hash": "x", "machinist.dev/matches-template": "true", "keep": "me"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "MachineSet", "name": "a", "uid": "u", "controller": true}],
        },
        "spec": {"providerID": "x:///1"},
    }));
    let change = settle_copy(&copy, Some("ns/original")).unwrap();
    expect!["spec.providerID x:///1 was removed, because machine ns/original holds that instance; a new instance will be made"]
        .assert_eq(&change.warning);
    let settled = change.applied(copy);
    assert_eq!(settled.spec.provider_id, None);
    assert_eq!(settled.metadata.owner_references, None);
    assert_eq!(settled.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["keep"]);
}

#[test]
fn a_machine_whose_instance_nobody_else_holds_stays_as_it_is() {
    let adopted = machine(json!({"spec": {"providerID": "x:///1"}}));
    assert_eq!(settle_copy(&adopted, None), None);
    assert_eq!(settle_copy(&machine(json!({})), Some("ns/original")), None);
}

#[test]
fn nobody_takes_an_instance_by_an_update() {
    let (old, new) = (machine(json!({})), machine(json!({"spec": {"providerID": "x:///1"}})));
    expect![[r#"spec.providerID: Invalid value: "x:///1": machine ns/original holds this instance"#]]
        .assert_eq(&review_machine(Some(&old), &new, Some("ns/original")).errors.join("\n"));
    assert!(review_machine(Some(&new), &new, Some("ns/original")).is_allowed(), "an unchanged claim is told elsewhere");
    assert!(review_machine(Some(&old), &new, None).is_allowed());
}

#[test]
fn an_export_has_neither_what_the_server_wrote_nor_what_names_the_instance() {
    let original = machine(json!({
        "metadata": {
            "resourceVersion": "7", "generation": 3, "managedFields": [],
            "annotations": {"machine.openshift.io/instance-state": "running", "machinist.dev/instance-intent": "{}", "keep": "me"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "MachineSet", "name": "a", "uid": "u", "controller": true}],
        },
        "spec": {"providerID": "x:///1", "providerSpec": {"value": {"instanceType": "large"}}},
    }));
    let exported = export(&original);
    assert_eq!(exported.metadata.uid, None);
    assert_eq!(exported.metadata.resource_version, None);
    assert_eq!(exported.metadata.finalizers, None);
    assert_eq!(exported.metadata.owner_references, None);
    assert_eq!(exported.status, None);
    assert_eq!(exported.spec.provider_id, None, "a copy has to get an instance of its own");
    assert_eq!(exported.spec.provider_spec, original.spec.provider_spec);
    assert_eq!(exported.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["keep"]);
    expect!["MachineSet a takes a copy with the same labels for its own, and then has one machine too many; scale the set to have one more, or change the labels of the copy"]
        .assert_eq(&adoption_warning(&original).unwrap());
    assert_eq!(adoption_warning(&machine(json!({}))), None);
}

#[test]
fn the_spec_of_a_machine_that_only_loses_its_finalizers_is_not_looked_at() {
    let deleting = |finalizers: Value| {
        machine(json!({"metadata": {"deletionTimestamp": "2026-03-01T11:00:00Z", "finalizers": finalizers}}))
    };
    let (old, new) = (deleting(json!(["machine.machine.openshift.io"])), deleting(json!([])));
    assert!(skips_provider_checks(Some(&old), &new));
    let mut changed = new.clone();
    changed.spec.provider_id = Some("x:///1".to_owned());
    assert!(!skips_provider_checks(Some(&old), &changed));
    assert!(!skips_provider_checks(None, &new));
}

#[test]
fn what_cannot_work_is_refused_with_its_field() {
    let set = object(json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": -2, "selector": {"matchLabels": {"a": "1"}}, "template": {"metadata": {"labels": {"a": "1"}}}},
    }));
    expect!["spec.replicas: Invalid value: -2: must not be negative"]
        .assert_eq(&review_set(None, &set).errors.join("\n"));
    let check = object(json!({"metadata": {"name": "mhc"}, "spec": {"maxUnhealthy": "half"}}));
    assert!(review_health_check(&check).errors[0].contains("maxUnhealthy"));
}

#[test]
fn a_control_plane_set_that_could_not_act_is_refused_with_its_field() {
    let set = |over: Value| {
        let labels = json!({"machine.openshift.io/cluster-api-machine-role": "master"});
        let mut value = json!({
            "metadata": {"name": "cluster", "namespace": "ns"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "machineType": "machines_v1beta1_machine_openshift_io",
                    "machines_v1beta1_machine_openshift_io": {
                        "metadata": {"labels": labels}, "spec": {"providerSpec": {"value": {"size": 1}}},
                    },
                },
            },
        });
        merge(&mut value, over);
        let set: api::machine::ControlPlaneMachineSet = object(value);
        machine::admission::review_control_plane_set(&set).errors.join("; ")
    };
    assert_eq!(set(json!({})), "");
    assert!(set(json!({"metadata": {"name": "other"}})).starts_with("metadata.name: "));
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    assert!(set(selector).starts_with("spec.template.machines_v1beta1_machine_openshift_io.metadata.labels: "));
    let template = |machines: Value| json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": machines}}});
    let domains = json!({"failureDomains": {"platform": "Nutanix", "nutanix": [{"name": "a"}]}});
    assert!(set(template(domains)).starts_with("failureDomains.platform: "), "{}", set(template(json!({}))));
    let bare = json!({"spec": {"providerSpec": {"value": null}}});
    assert!(set(template(bare)).contains("providerSpec.value is missing"));
}
