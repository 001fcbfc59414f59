//! VolumeAttachments.

use serde_json::{Value, json};

use crate::{Kind, Strategy, kind::Check, table::Row, text, validate::csi};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, returns_deleted: true, status_only: true, ..Strategy::PLAIN },
    columns: "Name, Attacher, PV, Node, ?Attached, Age",
    cells,
    create: |value, _| value["status"] = json!({"attached": false}),
    validate: Check::Change(csi::attachment),
    judged: true,
    ..Kind::plain("storage.k8s.io/volumeattachments")
};

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let volume = text(&spec["source"]["persistentVolumeName"]);
    let attached = row.status["attached"] == true;
    json!([row.name, text(&spec["attacher"]), volume, text(&spec["nodeName"]), attached, row.age])
}
