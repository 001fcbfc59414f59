//! ResourceQuotas.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy, amounts,
    kind::Check,
    table::{Row, or},
    text,
    validate::config,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Request, Limit, Age",
    cells,
    default: |value, _| {
        if let Some(hard) = value.pointer_mut("/spec/hard") {
            amounts::round(hard);
        }
    },
    create: |value, _| value["status"] = json!({}),
    validate: Check::Change(config::quota),
    judged: true,
    ..Kind::plain("/resourcequotas")
};

fn cells(row: &Row<'_>) -> Value {
    let status = row.status;
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = or(text(&status["used"][resource]), "0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    json!([row.name, requests.join(", "), limits.join(", "), row.age])
}
