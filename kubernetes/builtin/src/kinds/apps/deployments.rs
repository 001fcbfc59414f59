//! Deployments.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{pods::template, set, strategy_type},
    kind::Check,
    table::{Row, containers, number, selector},
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy {
        generation: Generation::Counted,
        // Annotations of a Deployment reach its pods' template through its controller.
        counted_metadata: Some("annotations"),
        kept_by_status: Some("labels"),
        reset_by_status: &["spec", "metadata.labels"],
        ..Strategy::PLAIN
    },
    columns: "Name, Ready, Up-to-date, Available, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| default(&mut value["spec"]),
    create: |value, _| value["status"] = json!({}),
    validate: Check::Change(workloads::deployment),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("apps/deployments")
};

const HOLDER: Holder =
    Holder { place: &["spec", "template"], named: Some("Pod names and hostnames"), looked_at: LookedAt::Counted };

fn default(spec: &mut Value) {
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    strategy_type(spec, "strategy");
    if spec["strategy"]["type"] == "RollingUpdate" {
        set(&mut spec["strategy"]["rollingUpdate"], "maxSurge", "25%");
        set(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", "25%");
    }
    template(spec);
}

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let (names, images) = containers(&spec["template"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
    let (updated, available) = (number(&status["updatedReplicas"]), number(&status["availableReplicas"]));
    json!([row.name, ready, updated, available, row.age, names, images, selector(&spec["selector"])])
}
