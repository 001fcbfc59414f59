//! Quotas of claims: storage by class, attributes of volumes, devices by class.

use serde_json::{Value, json};

use super::{Scenario, Step, core, delete, patch, post, quota, scoped};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![storage(), attributes(), devices()]
}

fn claim(name: &str, storage: &str, extra: Value) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}});
    extra.as_object().unwrap().iter().for_each(|(key, value)| claim["spec"][key] = value.clone());
    claim
}

fn storage() -> Scenario {
    let claims = core("persistentvolumeclaims");
    let (gold, size) = (json!({"storageClassName": "gold"}), "gold.storageclass.storage.k8s.io/requests.storage");
    let count = "gold.storageclass.storage.k8s.io/persistentvolumeclaims";
    let hard = json!({"persistentvolumeclaims": "3", "requests.storage": "10Gi", size: "4Gi", count: "2"});
    let used = |all: &str, storage: &str, own: &str, of_gold: &str| json!({"persistentvolumeclaims": all, "requests.storage": storage, size: own, count: of_gold});
    let mut old_way = claim("old-way", "4Gi", json!({}));
    old_way["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "gold"});
    let steps = vec![
        post(&core("resourcequotas"), quota("storage", hard)),
        Step::Settled("storage", used("0", "0", "0", "0")),
        post(&claims, claim("plain", "3Gi", json!({"storageClassName": ""}))),
        post(&claims, claim("gold", "2Gi", gold.clone())),
        Step::Settled("storage", used("2", "5Gi", "2Gi", "1")),
        post(&claims, claim("more-gold", "3Gi", gold.clone())),
        post(&claims, old_way),
        post(&claims, claim("vast", "8Gi", json!({"storageClassName": "tin"}))),
        // More was set aside than was asked for, and nobody refuses what has happened.
        patch(
            &format!("{claims}/gold/status"),
            json!({"status": {"phase": "Bound", "allocatedResources": {"storage": "6Gi"}}}),
        ),
        Step::Settled("storage", used("2", "9Gi", "6Gi", "1")),
        patch(&format!("{claims}/gold"), json!({"metadata": {"labels": {"a": "b"}}})),
        post(&claims, claim("byte", "1500m", json!({"storageClassName": "tin"}))),
        Step::Settled("storage", used("3", "9663676418", "6Gi", "1")),
        post(&claims, claim("fourth", "1", gold)),
        delete(&format!("{claims}/byte")),
        Step::Settled("storage", used("2", "9Gi", "6Gi", "1")),
    ];
    Scenario { name: "quota-storage", steps }
}

fn attributes() -> Scenario {
    let (claims, quotas) = (core("persistentvolumeclaims"), core("resourcequotas"));
    let selector = |operator: &str, values: &[&str]| {
        let mut own = json!({"scopeName": "VolumeAttributesClass", "operator": operator});
        if !values.is_empty() {
            own["values"] = json!(values);
        }
        json!({"scopeSelector": {"matchExpressions": [own]}})
    };
    let hard = || json!({"persistentvolumeclaims": "1", "requests.storage": "5Gi"});
    let of = |class: &str| json!({"volumeAttributesClassName": class, "storageClassName": "x"});
    let used = |name: &'static str, count: &str, storage: &str| {
        Step::Settled(name, json!({"persistentvolumeclaims": count, "requests.storage": storage}))
    };
    let steps = vec![
        post(&quotas, scoped("fast", hard(), selector("In", &["fast"]))),
        post(&quotas, scoped("none", hard(), selector("DoesNotExist", &[]))),
        used("fast", "0", "0"),
        used("none", "0", "0"),
        post(&claims, claim("fast", "1Gi", of("fast"))),
        post(&claims, claim("also-fast", "1Gi", of("fast"))),
        post(&claims, claim("slow", "1Gi", of("slow"))),
        post(&claims, claim("plain", "9Gi", json!({}))),
        post(&claims, claim("plain", "2Gi", json!({}))),
        used("fast", "1", "1Gi"),
        used("none", "1", "2Gi"),
        patch(&format!("{claims}/slow/status"), json!({"status": {"currentVolumeAttributesClassName": "fast"}})),
        used("fast", "2", "2Gi"),
        delete(&format!("{claims}/fast")),
        used("fast", "1", "1Gi"),
    ];
    Scenario { name: "quota-attributes", steps }
}

fn devices() -> Scenario {
    let claims = "/apis/resource.k8s.io/v1/namespaces/…/resourceclaims";
    let (size, count) = ("gpu.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io");
    let claim = |name: &str, requests: Value| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": requests}}})
    };
    let exactly = |name: &str, count: i64| json!({"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}});
    let all = json!({"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}});
    let choice = json!({"name": "choice", "firstAvailable": [
        {"name": "a", "deviceClassName": "gpu", "count": 3}, {"name": "b", "deviceClassName": "gpu", "count": 5},
        {"name": "c", "deviceClassName": "other", "count": 7}]});
    let used = |devices: &str, number: &str| Step::Settled("devices", json!({size: devices, count: number}));
    let steps = vec![
        post(&core("resourcequotas"), quota("devices", json!({size: "10", count: "3"}))),
        used("0", "0"),
        post(claims, claim("two", json!([exactly("a", 1), exactly("b", 1)]))),
        used("2", "1"),
        post(claims, claim("all", json!([all]))),
        post(claims, claim("choice", json!([choice]))),
        used("7", "2"),
        post(claims, claim("more", json!([exactly("a", 4)]))),
        post(claims, claim("rest", json!([exactly("a", 3)]))),
        post(claims, claim("last", json!([{"name": "x", "exactly": {"deviceClassName": "other"}}]))),
        delete(&format!("{claims}/choice")),
        used("5", "2"),
    ];
    Scenario { name: "quota-devices", steps }
}
