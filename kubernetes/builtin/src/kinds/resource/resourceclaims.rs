//! ResourceClaims.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::{empty_is_null, list_or_none, set_zero},
    kind::Check,
    table::size,
    text,
    validate::{Place, devices},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, status_only: true, ..Strategy::PLAIN },
    columns: "Name, State, Age",
    cells: |row| json!([row.name, state(row.object), row.age]),
    default: |value, _| {
        claim(&mut value["spec"]);
        if let Some(status) = value.get_mut("status") {
            list_or_none(status, "devices").iter_mut().for_each(|own| empty_is_null(own, "conditions"));
        }
    },
    create: |value, _| value["status"] = json!({}),
    update: |update| {
        if update.subresource == "status" {
            forget(update.old, update.new);
        }
    },
    validate: Check::Write(|write, findings| {
        devices::claim(&Place::root(write.value), write.old, write.subresource, findings);
    }),
    judged: true,
    ..Kind::plain("resource.k8s.io/resourceclaims")
};

/// Requests of devices ask for one each, unless they say otherwise.
pub(super) fn claim(spec: &mut Value) {
    fn count(request: &mut Value) {
        if text(&request["allocationMode"]).is_empty() {
            request["allocationMode"] = "ExactCount".into();
        }
        if request["allocationMode"] == "ExactCount" {
            set_zero(request, "count", 1);
        }
    }
    let Some(devices) = spec.get_mut("devices") else { return };
    empty_is_null(devices, "requests");
    for request in list_or_none(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            count(exactly);
        }
        list_or_none(request, "firstAvailable").iter_mut().for_each(count);
    }
}

/// Takes what is said of devices out of the status of a claim that no longer has them.
fn forget(old: &Value, new: &mut Value) {
    let given = |claim: &Value| -> Vec<[String; 4]> {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        results.into_iter().flatten().map(id).collect()
    };
    let (before, kept) = (given(old), given(new));
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) {
        devices.retain(|device| {
            let id = id(device);
            kept.contains(&id) || !before.contains(&id)
        });
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

fn id(device: &Value) -> [String; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| text(&device[field]).to_owned())
}

/// How far a claim for devices is.
fn state(object: &Value) -> String {
    let (deleted, status) = (!object["metadata"]["deletionTimestamp"].is_null(), &object["status"]);
    let allocated = !status["allocation"].is_null();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && size(&status["reservedFor"]) > 0, "reserved"),
    ];
    let shown: Vec<&str> = states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect();
    shown.join(",")
}
