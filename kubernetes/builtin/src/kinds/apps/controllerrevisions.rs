//! ControllerRevisions.

use serde_json::{Value, json};

use crate::{
    Kind,
    kind::Check,
    table::{NONE, number},
    text,
    validate::workloads,
};

pub(super) static KIND: Kind = Kind {
    columns: "Name, Controller, Revision, Age",
    cells: |row| json!([row.name, controller(row.object), number(&row.object["revision"]), row.age]),
    validate: Check::Change(workloads::controller_revision),
    judged: true,
    ..Kind::plain("apps/controllerrevisions")
};

fn controller(object: &Value) -> String {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    match owners.find(|owner| owner["controller"] == true) {
        Some(owner) => {
            let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        }
        None => NONE.to_string(),
    }
}
