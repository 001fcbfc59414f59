//! PriorityLevelConfigurations.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{set, set_zero},
    flow::LEVELS,
    kind::Check,
    table::{NONE, Row},
    text,
    validate::flow,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, status_only: true, ..Strategy::PLAIN },
    columns: "Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age",
    cells,
    default: |value, _| default(&mut value["spec"]),
    create: |value, _| value["status"] = json!({}),
    validate: Check::Object(flow::level),
    judged: true,
    ..Kind::plain(LEVELS)
};

fn default(spec: &mut Value) {
    if let Some(exempt) = spec.get_mut("exempt").filter(|exempt| exempt.is_object()) {
        set(exempt, "nominalConcurrencyShares", 0);
        set(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = spec.get_mut("limited").filter(|limited| limited.is_object()) {
        set(limited, "nominalConcurrencyShares", 30);
        set(limited, "lendablePercent", 0);
        if limited["limitResponse"]["queuing"].is_object() {
            let queuing = &mut limited["limitResponse"]["queuing"];
            set_zero(queuing, "handSize", 8);
            set_zero(queuing, "queues", 64);
            set_zero(queuing, "queueLengthLimit", 50);
        }
    }
}

fn cells(row: &Row<'_>) -> Value {
    let limited = &row.spec["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    let shown = |value: &Value| if value.is_null() { json!(NONE) } else { value.clone() };
    let [shares, queues, hand, length] =
        [&limited["nominalConcurrencyShares"], &queuing["queues"], &queuing["handSize"], &queuing["queueLengthLimit"]]
            .map(shown);
    json!([row.name, text(&row.spec["type"]), shares, queues, hand, length, row.age])
}
