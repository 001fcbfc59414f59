//! DaemonSets.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy, Update,
    defaults::{pods::template, set, strategy_type},
    kind::Check,
    table::{Row, containers, labels, number, selector},
    text,
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, #Desired, #Current, #Ready, #Up-to-date, #Available, Node Selector, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| default(value),
    create: |value, _| {
        value["status"] = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        });
    },
    update,
    validate: Check::Change(workloads::daemon_set),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("apps/daemonsets")
};

/// How often the template of a DaemonSet has changed.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const HOLDER: Holder = Holder { place: &["spec", "template"], named: None, looked_at: LookedAt::Changed };

fn default(value: &mut Value) {
    set(&mut value["metadata"]["annotations"], TEMPLATE_GENERATION, "1");
    let spec = &mut value["spec"];
    set(spec, "revisionHistoryLimit", 10);
    strategy_type(spec, "updateStrategy");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        set(&mut spec["updateStrategy"]["rollingUpdate"], "maxSurge", 0);
        set(&mut spec["updateStrategy"]["rollingUpdate"], "maxUnavailable", 1);
    }
    template(spec);
}

fn update(update: &mut Update<'_>) {
    let Update { subresource, old, new, .. } = update;
    if subresource.is_empty() {
        let before = text(&old["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().unwrap_or(0);
        let changed = old["spec"]["template"] != new["spec"]["template"];
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = (before + i64::from(changed)).to_string().into();
    }
}

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let (names, images) = containers(&spec["template"]);
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    .map(|key| number(&status[key]));
    let nodes = labels(&spec["template"]["spec"]["nodeSelector"]);
    let selector = selector(&spec["selector"]);
    json!([row.name, counts[0], counts[1], counts[2], counts[3], counts[4], nodes, row.age, names, images, selector])
}
