//! CSIDrivers.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::set,
    kind::Check,
    table::{Row, or},
    text,
    validate::csi,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy {
        generation: Generation::FromFirstChange,
        unconditional: false,
        returns_deleted: true,
        ..Strategy::PLAIN
    },
    columns: "Name, ?AttachRequired, ?PodInfoOnMount, ?StorageCapacity, TokenRequests, ?RequiresRepublish, Modes, Age",
    cells,
    default: |value, _| default(&mut value["spec"]),
    validate: Check::Change(csi::driver),
    judged: true,
    ..Kind::plain("storage.k8s.io/csidrivers")
};

fn default(spec: &mut Value) {
    // A feature that is still off in the real server.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("preventPodSchedulingIfMissing");
    }
    set(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set(spec, field, false);
    }
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let flag = |key: &str, default: bool| spec[key].as_bool().unwrap_or(default);
    let audiences = spec["tokenRequests"].as_array().into_iter().flatten().map(|t| text(&t["audience"]));
    let audiences = audiences.collect::<Vec<_>>().join(",");
    let modes: Vec<&str> = match spec["volumeLifecycleModes"].as_array() {
        Some(modes) => modes.iter().map(text).collect(),
        None => vec!["<unset>"],
    };
    json!([
        row.name,
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        or(&audiences, "<unset>"),
        flag("requiresRepublish", false),
        modes.join(","),
        row.age
    ])
}
