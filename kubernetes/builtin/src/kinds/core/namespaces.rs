//! Namespaces.

use serde_json::{Map, Value, json};

use crate::{
    Kind, Strategy, Update,
    fields::{Read, at},
    text,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, deletion_period: false, ..Strategy::PLAIN },
    fields: &[("status.phase", Read::Plain), ("name", Read::By(|namespace| at(namespace, "metadata.name")))],
    columns: "Name, Status, Age",
    cells: |row| json!([row.name, text(&row.status["phase"]), row.age]),
    default: |value, _| default(value),
    create: |value, _| create(value),
    update,
    deleting: |value, _| value["status"]["phase"] = "Terminating".into(),
    judged: true,
    ..Kind::plain("/namespaces")
};

fn default(value: &mut Value) {
    if value["spec"].is_null() {
        value["spec"] = Map::new().into();
    }
    let name = text(&value["metadata"]["name"]).to_owned();
    if !name.is_empty() {
        value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
}

fn create(value: &mut Value) {
    if !value["spec"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|item| item == "kubernetes")) {
        let mut list = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        list.push("kubernetes".into());
        value["spec"]["finalizers"] = list.into();
    }
    value["status"] = json!({"phase": "Active"});
}

fn update(update: &mut Update<'_>) {
    let Update { subresource, old, new, .. } = update;
    match *subresource {
        "" | "status" => {
            new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            let name = text(&new["metadata"]["name"]).to_owned();
            new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            if !new["status"]["phase"].is_string() {
                new["status"] = old["status"].clone();
            }
        }
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].clone();
            let mut kept = (*old).clone();
            kept["spec"]["finalizers"] = if finalizers.is_null() { json!([]) } else { finalizers };
            **new = kept;
        }
        _ => {}
    }
}

/// Namespaces wait for the finalizers in their spec, not only for those in metadata.
#[must_use]
pub fn has_spec_finalizers(value: &Value) -> bool {
    value["kind"] == "Namespace"
        && value["apiVersion"] == "v1"
        && value["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}
