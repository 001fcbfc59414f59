//! StorageClasses.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::set,
    kind::Check,
    table::{Row, marked, or},
    text,
    validate::storage,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
    cells,
    default: |value, _| {
        set(value, "reclaimPolicy", "Delete");
        set(value, "volumeBindingMode", "Immediate");
    },
    validate: Check::Change(storage::class),
    judged: true,
    ..Kind::plain("storage.k8s.io/storageclasses")
};

fn cells(row: &Row<'_>) -> Value {
    let object = row.object;
    json!([
        marked(object, "storageclass.kubernetes.io/is-default-class"),
        text(&object["provisioner"]),
        or(text(&object["reclaimPolicy"]), "Delete"),
        or(text(&object["volumeBindingMode"]), "Immediate"),
        object["allowVolumeExpansion"] == true,
        row.age
    ])
}
