//! CSINodes.

use serde_json::json;

use crate::{
    Kind, Strategy,
    defaults::{empty_is_null, list_or_none},
    kind::Check,
    table::size,
    validate::csi,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, #Drivers, Age",
    cells: |row| json!([row.name, size(&row.spec["drivers"]), row.age]),
    default: |value, _| {
        list_or_none(&mut value["spec"], "drivers").iter_mut().for_each(|own| empty_is_null(own, "topologyKeys"));
        empty_is_null(&mut value["spec"], "drivers");
    },
    validate: Check::Change(csi::node),
    judged: true,
    ..Kind::plain("storage.k8s.io/csinodes")
};
