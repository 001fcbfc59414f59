//! RuntimeClasses.

use serde_json::json;

use crate::{Kind, Strategy, kind::Check, text, validate::classes};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, create_on_update: true, ..Strategy::PLAIN },
    columns: "Name, Handler, Age",
    cells: |row| json!([row.name, text(&row.object["handler"]), row.age]),
    validate: Check::Change(classes::runtime),
    judged: true,
    ..Kind::plain("node.k8s.io/runtimeclasses")
};
