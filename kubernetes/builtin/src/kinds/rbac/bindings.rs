//! What the two kinds of role bindings share.

use serde_json::{Map, Value, json};

use crate::{
    defaults::{fill, list_or_none},
    table::Row,
    text,
};

pub(super) const COLUMNS: &str = "Name, Role, Age, +Users, +Groups, +ServiceAccounts";

pub(super) fn default(value: &mut Value) {
    if value["roleRef"].is_null() {
        value["roleRef"] = Map::new().into();
    }
    fill(&mut value["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
    for subject in list_or_none(value, "subjects") {
        if matches!(text(&subject["kind"]), "User" | "Group") {
            fill(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

pub(super) fn cells(row: &Row<'_>) -> Value {
    let object = row.object;
    let role = format!("{}/{}", text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
    let of = |kind: &str| subjects(&object["subjects"], kind);
    json!([row.name, role, row.age, of("User"), of("Group"), of("ServiceAccount")])
}

fn subjects(list: &Value, kind: &str) -> String {
    let matching = list.as_array().into_iter().flatten().filter(|s| s["kind"] == kind);
    let shown = matching.map(|s| match kind {
        "ServiceAccount" => format!("{}/{}", text(&s["namespace"]), text(&s["name"])),
        _ => text(&s["name"]).to_string(),
    });
    shown.collect::<Vec<_>>().join(", ")
}
