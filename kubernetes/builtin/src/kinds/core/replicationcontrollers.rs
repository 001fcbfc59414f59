//! ReplicationControllers.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{labels_from_template, pods::template, set},
    fields::Read,
    kind::Check,
    table::{Row, containers, labels, number},
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    fields: &[("status.replicas", Read::Or("0"))],
    columns: "Name, #Desired, #Current, #Ready, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| default(value),
    create: |value, _| value["status"] = json!({"replicas": 0}),
    validate: Check::Object(workloads::replication_controller),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("/replicationcontrollers")
};

const HOLDER: Holder = Holder {
    place: &["spec", "template"],
    named: Some("Pod names and hostnames"),
    looked_at: LookedAt::OldWhenCounted,
};

fn default(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        set(&mut value["spec"], "selector", labels);
        labels_from_template(value);
    }
    set(&mut value["spec"], "replicas", 1);
    template(&mut value["spec"]);
}

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let (names, images) = containers(&spec["template"]);
    let counts = [&spec["replicas"], &status["replicas"], &status["readyReplicas"]].map(number);
    json!([row.name, counts[0], counts[1], counts[2], row.age, names, images, labels(&spec["selector"])])
}
