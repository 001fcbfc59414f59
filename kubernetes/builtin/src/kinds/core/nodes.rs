//! Nodes.

use serde_json::{Map, Value, json};

use crate::{
    Kind, Strategy,
    defaults::set,
    fields::Read,
    kind::Check,
    table::{NONE, Row, or},
    text,
    validate::cluster,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { keeps_status: true, ..Strategy::PLAIN },
    fields: &[("spec.unschedulable", Read::Or("false"))],
    columns: "Name, Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, +Container-Runtime",
    cells,
    default: |value, _| default(value),
    update: |update| {
        if update.subresource.is_empty() && update.new["spec"].is_null() {
            update.new["spec"] = Map::new().into();
        }
    },
    validate: Check::Change(cluster::node),
    judged: true,
    ..Kind::plain("/nodes")
};

fn default(value: &mut Value) {
    let spec = &mut value["spec"];
    if spec.is_null() {
        *spec = Map::new().into();
    }
    // One range and the first of all are the same; the one wins.
    let range = text(&spec["podCIDR"]).to_owned();
    let first = text(&spec["podCIDRs"][0]).to_owned();
    if !range.is_empty() && first != range {
        spec["podCIDRs"] = json!([range]);
    } else if range.is_empty() && !first.is_empty() {
        spec["podCIDR"] = first.into();
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("configSource");
        spec.retain(|_, field| !field.is_null());
    }
    if let Some(capacity) = value.get("status").and_then(|status| status.get("capacity")).cloned() {
        set(&mut value["status"], "allocatable", capacity);
    }
}

fn cells(row: &Row<'_>) -> Value {
    let object = row.object;
    let status = &object["status"];
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let mut state = match conditions().rfind(|c| c["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => "Ready".to_string(),
        Some(_) => "NotReady".to_string(),
        None => "Unknown".to_string(),
    };
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|r| !r.is_empty()) {
            roles.push(role);
        } else if key == "kubernetes.io/role" && !text(value).is_empty() {
            roles.push(text(value));
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let list = status["addresses"].as_array().into_iter().flatten();
        list.filter(|a| a["type"] == kind).map(|a| text(&a["address"])).next().unwrap_or(NONE).to_string()
    };
    let info = &status["nodeInfo"];
    let known = |key: &str| or(text(&info[key]), "<unknown>").to_string();
    let mut kernel = known("kernelVersion");
    if !text(&info["architecture"]).is_empty() {
        kernel.push_str(&format!(" ({})", text(&info["architecture"])));
    }
    json!([
        row.name,
        state,
        or(&roles.join(","), NONE),
        row.age,
        text(&info["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        kernel,
        known("containerRuntimeVersion"),
    ])
}
