//! PersistentVolumeClaims.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::storage,
    kind::Check,
    table::{Row, modes, or},
    text, validate, warnings,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, protection: Some("kubernetes.io/pvc-protection"), ..Strategy::PLAIN },
    columns: "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode",
    cells,
    default: |value, _| {
        storage::claim(&mut value["spec"]);
        data_sources(&mut value["spec"]);
    },
    create: |value, _| value["status"] = json!({"phase": "Pending"}),
    validate: Check::Change(validate::storage::claim),
    judged: true,
    warnings: |_, claim| said_of(claim),
    ..Kind::plain("/persistentvolumeclaims")
};

/// What a claim is filled from is written down twice, the older way and the newer.
fn data_sources(spec: &mut Value) {
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

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    // Only a claim that has a volume has its size.
    let bound = !text(&spec["volumeName"]).is_empty();
    let storage = if bound { text(&status["capacity"]["storage"]) } else { "" };
    let modes = if bound { modes(&status["accessModes"]) } else { String::new() };
    let class = or(text(&spec["storageClassName"]), "");
    let attributes = or(text(&spec["volumeAttributesClassName"]), "<unset>");
    json!([
        row.name,
        text(&status["phase"]),
        text(&spec["volumeName"]),
        storage,
        modes,
        class,
        attributes,
        row.age,
        or(text(&spec["volumeMode"]), "<unset>")
    ])
}

fn said_of(claim: &Value) -> Vec<String> {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let mut said = Vec::new();
    if claim["metadata"]["annotations"].get(CLASS).is_some() {
        let what = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        said.push(format!("metadata.annotations[{CLASS}]: {what}"));
    }
    for side in ["requests", "limits"] {
        let path = format!("spec.resources.{side}");
        warnings::fractions(&claim["spec"]["resources"][side], &path, "storage", &mut said);
    }
    said
}
