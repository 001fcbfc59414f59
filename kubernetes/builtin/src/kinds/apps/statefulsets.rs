//! StatefulSets.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{fill, list_or_none, pods::template, set, storage, strategy_type},
    kind::Check,
    table::{Row, containers, number},
    text,
    validate::workloads,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, Ready, Age, +Containers, +Images",
    cells,
    default: |value, _| default(&mut value["spec"]),
    create: |value, _| value["status"] = json!({"availableReplicas": 0, "replicas": 0}),
    validate: Check::Change(workloads::stateful_set),
    judged: true,
    warnings: said_of,
    ..Kind::plain("apps/statefulsets")
};

const HOLDER: Holder = Holder { place: &["spec", "template"], named: None, looked_at: LookedAt::Counted };

fn default(spec: &mut Value) {
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    fill(spec, "podManagementPolicy", "OrderedReady");
    let chosen = !text(&spec["updateStrategy"]["type"]).is_empty();
    strategy_type(spec, "updateStrategy");
    let rolls = spec["updateStrategy"].get("rollingUpdate").is_some_and(Value::is_object);
    if spec["updateStrategy"]["type"] == "RollingUpdate" && (rolls || !chosen) {
        set(&mut spec["updateStrategy"]["rollingUpdate"], "partition", 0);
    }
    if let Some(rolling) = spec["updateStrategy"].get_mut("rollingUpdate").and_then(Value::as_object_mut) {
        // The real server does not know it until it is switched on.
        rolling.remove("maxUnavailable");
    }
    let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set(policy, "whenDeleted", "Retain");
    set(policy, "whenScaled", "Retain");
    list_or_none(spec, "volumeClaimTemplates").iter_mut().for_each(storage::claim_template);
    template(spec);
}

fn said_of(old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut said = warnings::of_pods(&HOLDER, old, new);
    if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let what = "a negative value retains all historical revisions; a value >= 0 is recommended";
        said.push(format!("spec.revisionHistoryLimit: {what}"));
    }
    said
}

fn cells(row: &Row<'_>) -> Value {
    let (names, images) = containers(&row.spec["template"]);
    let ready = format!("{}/{}", number(&row.status["readyReplicas"]), number(&row.spec["replicas"]));
    json!([row.name, ready, row.age, names, images])
}
