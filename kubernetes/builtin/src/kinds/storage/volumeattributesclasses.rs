//! VolumeAttributesClasses.

use serde_json::json;

use crate::{Kind, Strategy, kind::Check, text, validate::classes};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, protection: Some("kubernetes.io/vac-protection"), ..Strategy::PLAIN },
    columns: "Name, DriverName, Age",
    cells: |row| json!([row.name, text(&row.object["driverName"]), row.age]),
    validate: Check::Change(classes::volume_attributes),
    judged: true,
    checks_finalizers: true,
    ..Kind::plain("storage.k8s.io/volumeattributesclasses")
};
