//! ComponentStatuses.

use serde_json::{Value, json};

use crate::{Kind, table::Row, text};

pub(super) static KIND: Kind =
    Kind { columns: "Name, Status, Message, Error", cells, ..Kind::plain("/componentstatuses") };

fn cells(row: &Row<'_>) -> Value {
    let conditions = row.object["conditions"].as_array().into_iter().flatten();
    let healthy = conditions.into_iter().find(|condition| condition["type"] == "Healthy");
    let state = match healthy.map(|condition| text(&condition["status"])) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    let said = |field: &str| healthy.map_or("", |condition| text(&condition[field]));
    json!([row.name, state, said("message"), said("error")])
}
