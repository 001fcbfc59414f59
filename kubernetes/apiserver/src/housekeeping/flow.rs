//! Flow schemas: their status says whether the priority level that they name exists.

use std::sync::Arc;

use serde_json::json;

use crate::{
    object::{Name, text},
    server::Api,
    verbs::now,
};

pub(crate) use builtin::flow::{LEVELS, SCHEMAS};

/// Whose name the status is written under.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

pub(super) async fn settle(api: &Arc<Api>) {
    for schema in super::all(api, SCHEMAS) {
        let value = schema.value();
        let level = text(&value["spec"]["priorityLevelConfiguration"]["name"]);
        let wanted = builtin::flow::condition(&value, api.store.get(LEVELS, &Name::new("", level)).is_some(), &now);
        let conditions = value["status"]["conditions"].as_array().into_iter().flatten();
        let present = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
        if present
            .is_none_or(|present| ["status", "reason", "message"].iter().any(|field| present[*field] != wanted[*field]))
        {
            super::apply_status(api, &schema, MANAGER, &json!({"conditions": [wanted]})).await;
        }
    }
}
