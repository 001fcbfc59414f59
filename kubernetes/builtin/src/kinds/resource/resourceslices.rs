//! ResourceSlices.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Now, Strategy,
    defaults::{list_or_none, set},
    kind::Check,
    table::Row,
    text,
    validate::devices,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Node, Driver, Pool, Age",
    cells,
    default: |value, now| default(&mut value["spec"], now),
    validate: Check::Change(devices::slice),
    judged: true,
    ..Kind::plain("resource.k8s.io/resourceslices")
};

fn default(spec: &mut Value, now: Now<'_>) {
    for device in list_or_none(spec, "devices") {
        for taint in list_or_none(device, "taints") {
            set(taint, "timeAdded", now());
        }
        amounts(device, "capacity");
        switched_off(device);
        list_or_none(device, "consumesCounters").iter_mut().for_each(|set| amounts(set, "counters"));
    }
    list_or_none(spec, "sharedCounters").iter_mut().for_each(|set| amounts(set, "counters"));
}

/// What is counted without a number is nothing.
fn amounts(parent: &mut Value, field: &str) {
    for amount in entries(parent, field) {
        set(amount, "value", "0");
        if let Some(policy) = amount.get_mut("requestPolicy").and_then(Value::as_object_mut) {
            policy.entry("default").or_insert(Value::Null);
        }
    }
}

/// Takes away what belongs to features of devices that are still off in the real server.
fn switched_off(device: &mut Value) {
    for attribute in entries(device, "attributes").filter_map(Value::as_object_mut) {
        attribute.retain(|name, _| !matches!(name.as_str(), "bools" | "ints" | "strings" | "versions"));
    }
    if let Some(device) = device.as_object_mut() {
        device.remove("nodeAllocatableResourceMappings");
    }
}

fn entries<'a>(parent: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let all = parent.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten();
    all.map(|(_, value)| value).filter(|value| value.is_object())
}

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    json!([row.name, text(&spec["nodeName"]), text(&spec["driver"]), text(&spec["pool"]["name"]), row.age])
}
