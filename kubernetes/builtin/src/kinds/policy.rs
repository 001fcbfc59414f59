//! PodDisruptionBudgets.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    kind::Check,
    table::{Row, number},
    validate::cluster,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, unconditional: false, ..Strategy::PLAIN },
    columns: "Name, Min Available, Max Unavailable, #Allowed Disruptions, Age",
    cells,
    create: |value, _| {
        value["status"] = json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        });
    },
    validate: Check::Object(cluster::budget),
    judged: true,
    ..Kind::plain("policy/poddisruptionbudgets")
};

fn cells(row: &Row<'_>) -> Value {
    let limit = |value: &Value| match value {
        Value::Null => "N/A".to_string(),
        other => schema::go_plain(other),
    };
    let allowed = number(&row.status["disruptionsAllowed"]);
    json!([row.name, limit(&row.spec["minAvailable"]), limit(&row.spec["maxUnavailable"]), allowed, row.age])
}
