//! What the two kinds of webhook configurations share.

use serde_json::{Map, Value, json};

use crate::{
    defaults::{list_or_none, set},
    table::{Row, size},
};

pub(super) fn default(value: &mut Value, mutating: bool) {
    for webhook in list_or_none(value, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", Map::new());
        set(webhook, "objectSelector", Map::new());
        set(webhook, "timeoutSeconds", 10);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        if !webhook["clientConfig"]["service"].is_null() {
            set(&mut webhook["clientConfig"]["service"], "port", 443);
        }
        for rule in list_or_none(webhook, "rules") {
            set(rule, "scope", "*");
        }
    }
}

pub(super) fn cells(row: &Row<'_>) -> Value {
    json!([row.name, size(&row.object["webhooks"]), row.age])
}
