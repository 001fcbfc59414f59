//! ServiceCIDRs.

use serde_json::{Value, json};

use crate::{Kind, Strategy, kind::Check, table::Row, text, validate::addresses};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { status_only: true, ..Strategy::PLAIN },
    columns: "Name, CIDRs, Age",
    cells,
    create: |value, _| value["status"] = json!({}),
    validate: Check::Change(addresses::range),
    judged: true,
    ..Kind::plain("networking.k8s.io/servicecidrs")
};

fn cells(row: &Row<'_>) -> Value {
    let ranges: Vec<&str> = row.spec["cidrs"].as_array().into_iter().flatten().map(text).collect();
    json!([row.name, ranges.join(","), row.age])
}
