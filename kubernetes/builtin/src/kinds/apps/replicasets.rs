//! ReplicaSets.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{pods::template, set},
    fields::Read,
    kind::Check,
    table::{Row, containers, number, selector},
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    fields: &[("status.replicas", Read::Or("0"))],
    columns: "Name, #Desired, #Current, #Ready, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| {
        set(&mut value["spec"], "replicas", 1);
        template(&mut value["spec"]);
    },
    create: |value, _| value["status"] = json!({"replicas": 0}),
    validate: Check::Change(workloads::replica_set),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("apps/replicasets")
};

const HOLDER: Holder =
    Holder { place: &["spec", "template"], named: Some("Pod names and hostnames"), looked_at: LookedAt::Counted };

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let (names, images) = containers(&spec["template"]);
    let counts = [&spec["replicas"], &status["replicas"], &status["readyReplicas"]].map(number);
    json!([row.name, counts[0], counts[1], counts[2], row.age, names, images, selector(&spec["selector"])])
}
