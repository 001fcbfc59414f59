//! Jobs.

use serde_json::{Map, Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{fill, labels_from_template, list_or_none, pods::template, set},
    fields::Read,
    kind::Check,
    table::{Row, containers, number, selector},
    validate::jobs,
    warnings::{self, Holder, LookedAt},
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    fields: &[("status.successful", Read::Or("0"))],
    columns: "Name, Status, Completions, Duration, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| {
        // Others get theirs with those that the server adds to the template.
        if value["spec"]["manualSelector"] == true {
            labels_from_template(value);
        }
        default(&mut value["spec"]);
    },
    create: |value, _| {
        value["status"] = json!({});
        job_selector(value);
    },
    update: |update| {
        if update.subresource.is_empty() {
            labels_of_pods(update.new);
        }
    },
    validate: Check::Change(jobs::job),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("batch/jobs")
};

const HOLDER: Holder =
    Holder { place: &["spec", "template"], named: Some("Pod names and hostnames"), looked_at: LookedAt::Counted };

fn default(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    let replaced = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", replaced);
    job_template(spec);
}

/// What a job has in any place, also in the template of a cron job.
pub(super) fn job_template(spec: &mut Value) {
    if let Some(policy) = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut)
        && policy.get("rules").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        policy.insert("rules".into(), Value::Null);
    }
    for rule in spec.get_mut("podFailurePolicy").map(|policy| list_or_none(policy, "rules")).unwrap_or_default() {
        for pattern in list_or_none(rule, "onPodConditions") {
            fill(pattern, "status", "True");
        }
    }
    template(spec);
}

/// A job finds its pods by its own uid, unless its author chose a selector.
fn job_selector(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    if job["spec"]["manualSelector"] == true {
        return;
    }
    job["spec"]["manualSelector"] = false.into();
    for prefix in ["", "batch.kubernetes.io/"] {
        job["spec"]["template"]["metadata"]["labels"][format!("{prefix}job-name")] = name.clone();
        job["spec"]["template"]["metadata"]["labels"][format!("{prefix}controller-uid")] = uid.clone();
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
    labels_of_pods(job);
}

/// A job without labels of its own has those of its pods.
fn labels_of_pods(job: &mut Value) {
    if job["metadata"]["labels"].as_object().is_none_or(Map::is_empty) {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
}

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = status["completionTime"].as_str().unwrap_or(row.now);
    let duration = status["startTime"].as_str().and_then(|start| schema::table::since(start, end)).unwrap_or_default();
    let has = |kind: &str| {
        let list = status["conditions"].as_array().into_iter().flatten();
        list.filter(|c| c["type"] == kind).any(|c| c["status"] == "True")
    };
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !row.object["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(&spec["template"]);
    json!([row.name, state, completions, duration, row.age, names, images, selector(&spec["selector"])])
}
