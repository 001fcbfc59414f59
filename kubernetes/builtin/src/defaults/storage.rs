//! Defaults of volumes, the claims to them, and those who provide them.

use serde_json::{Value, json};

use super::set;
use crate::builtin::amounts;

pub(super) fn claim(spec: &mut Value) {
    set(spec, "volumeMode", "Filesystem");
    for side in ["/resources/requests", "/resources/limits"] {
        if let Some(own) = spec.pointer_mut(side) {
            amounts::round(own);
        }
    }
}

/// What a claim is filled from is written down twice, the older way and the newer.
pub(super) fn data_sources(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let is_set = |spec: &serde_json::Map<String, Value>, field: &str| spec.get(field).is_some_and(Value::is_object);
    // The older way knows two kinds only, and forgets the others.
    if is_set(spec, "dataSource") && !is_set(spec, "dataSourceRef") {
        let source = &spec["dataSource"];
        let text = |field: &str| source[field].as_str().unwrap_or_default();
        let known = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
        match known.contains(&(text("apiGroup"), text("kind"))) {
            true => drop(spec.insert("dataSourceRef".into(), spec["dataSource"].clone())),
            false => drop(spec.remove("dataSource")),
        }
    }
    // Sources in other namespaces are not known until they are switched on.
    if spec.get("dataSourceRef").is_some_and(|own| own["namespace"].as_str().is_some_and(|name| !name.is_empty())) {
        spec.remove("dataSourceRef");
    }
    if is_set(spec, "dataSourceRef") && !is_set(spec, "dataSource") {
        spec.insert("dataSource".into(), spec["dataSourceRef"].clone());
    }
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get_mut(field).and_then(Value::as_object_mut) {
            source.entry("apiGroup").or_insert(Value::Null);
        }
    }
}

/// The claims that a StatefulSet makes are written down as objects of their own.
pub(super) fn claim_template(template: &mut Value) {
    template["apiVersion"] = "v1".into();
    template["kind"] = "PersistentVolumeClaim".into();
    claim(&mut template["spec"]);
    set(&mut template["status"], "phase", "Pending");
}

pub(super) fn volume(spec: &mut Value) {
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if spec["hostPath"].is_object() {
        set(&mut spec["hostPath"], "type", "");
    } else if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, field| !field.is_null());
    }
}

pub(super) fn class(value: &mut Value) {
    set(value, "reclaimPolicy", "Delete");
    set(value, "volumeBindingMode", "Immediate");
}

pub(super) fn driver(spec: &mut Value) {
    // A feature that is still off in the real server.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("preventPodSchedulingIfMissing");
    }
    set(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set(spec, field, false);
    }
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}
