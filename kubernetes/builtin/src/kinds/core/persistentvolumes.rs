//! PersistentVolumes.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::set,
    kind::Check,
    table::{Row, modes, or},
    text,
    validate::storage,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, protection: Some("kubernetes.io/pv-protection"), ..Strategy::PLAIN },
    columns: "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, +VolumeMode",
    cells,
    default: |value, _| default(&mut value["spec"]),
    create: |value, now| value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now()}),
    update: |update| {
        if update.subresource == "status" && update.old["status"]["phase"] != update.new["status"]["phase"] {
            update.new["status"]["lastPhaseTransitionTime"] = (update.now)().into();
        }
    },
    validate: Check::Change(storage::volume),
    judged: true,
    ..Kind::plain("/persistentvolumes")
};

fn default(spec: &mut Value) {
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    if spec["hostPath"].is_object() {
        set(&mut spec["hostPath"], "type", "");
    } else if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, field| !field.is_null());
    }
}

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let claim = &spec["claimRef"];
    let claim = match claim.is_object() {
        true => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        false => String::new(),
    };
    json!([
        row.name,
        text(&spec["capacity"]["storage"]),
        modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        text(&status["phase"]),
        claim,
        text(&spec["storageClassName"]),
        or(text(&spec["volumeAttributesClassName"]), "<unset>"),
        text(&status["reason"]),
        row.age,
        or(text(&spec["volumeMode"]), "<unset>")
    ])
}
