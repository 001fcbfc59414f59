//! ConfigMaps.

use serde_json::json;

use crate::{Kind, kind::Check, table::size, validate::config};

pub(super) static KIND: Kind = Kind {
    columns: "Name, Data, Age",
    cells: |row| json!([row.name, size(&row.object["data"]) + size(&row.object["binaryData"]), row.age]),
    validate: Check::Change(config::config_map),
    judged: true,
    ..Kind::plain("/configmaps")
};
