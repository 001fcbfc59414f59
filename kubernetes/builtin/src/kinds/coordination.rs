//! Leases.

use serde_json::{Value, json};

use crate::{Kind, Strategy, kind::Check, text, validate::cluster};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, create_on_update: true, ..Strategy::PLAIN },
    columns: "Name, Holder, Age",
    cells: |row| json!([row.name, text(&row.spec["holderIdentity"]), row.age]),
    default: |value, _| {
        // The real server does not know these until they are switched on.
        if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("strategy");
            spec.remove("preferredHolder");
        }
    },
    validate: Check::Object(cluster::lease),
    judged: true,
    ..Kind::plain("coordination.k8s.io/leases")
};
