//! Flow schemas: their status says whether the priority level that they name exists.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    object::{Name, text},
    server::Api,
    verbs::now,
};

pub(crate) const SCHEMAS: &str = "flowcontrol.apiserver.k8s.io/flowschemas";
pub(crate) const LEVELS: &str = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations";

/// Whose name the status is written under.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

pub(super) async fn settle(api: &Arc<Api>) {
    for schema in super::all(api, SCHEMAS) {
        let value = schema.value();
        let level = text(&value["spec"]["priorityLevelConfiguration"]["name"]);
        let wanted = condition(&value, api.store.get(LEVELS, &Name::new("", level)).is_some());
        let conditions = value["status"]["conditions"].as_array().into_iter().flatten();
        let present = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
        if present
            .is_none_or(|present| ["status", "reason", "message"].iter().any(|field| present[*field] != wanted[*field]))
        {
            super::apply_status(api, &schema, MANAGER, &json!({"conditions": [wanted]})).await;
        }
    }
}

/// What a flow schema says about its priority level.
pub(crate) fn condition(schema: &Value, exists: bool) -> Value {
    let level = text(&schema["spec"]["priorityLevelConfiguration"]["name"]);
    let (status, reason, end) =
        if exists { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
    json!({"type": "Dangling", "status": status, "reason": reason, "message": message, "lastTransitionTime": now()})
}
