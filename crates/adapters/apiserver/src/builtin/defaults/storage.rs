//! Defaults of volumes, the claims to them, and those who provide them.

use serde_json::{Value, json};

use super::set;

pub(super) fn claim(spec: &mut Value) {
    set(spec, "volumeMode", "Filesystem");
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
    set(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set(spec, field, false);
    }
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}
