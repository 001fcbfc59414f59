//! CronJobs.

use serde_json::{Value, json};

use crate::{
    Generation, Kind, Strategy,
    defaults::{fill, set},
    kind::Check,
    table::{NONE, Row, containers, or, selector, size},
    text,
    validate::jobs,
    warnings::{self, Holder, LookedAt},
};

use super::jobs::job_template;

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, ..Strategy::PLAIN },
    columns: "Name, Schedule, Timezone, ?Suspend, #Active, Last Schedule, Age, +Containers, +Images, +Selector",
    cells,
    default: |value, _| {
        let spec = &mut value["spec"];
        fill(spec, "concurrencyPolicy", "Allow");
        set(spec, "suspend", false);
        set(spec, "successfulJobsHistoryLimit", 3);
        set(spec, "failedJobsHistoryLimit", 1);
        job_template(&mut spec["jobTemplate"]["spec"]);
    },
    create: |value, _| value["status"] = json!({}),
    validate: Check::Change(jobs::cron_job),
    judged: true,
    warnings: |old, new| warnings::of_pods(&HOLDER, old, new),
    ..Kind::plain("batch/cronjobs")
};

const HOLDER: Holder = Holder {
    place: &["spec", "jobTemplate", "spec", "template"],
    named: Some("Pod names and hostnames"),
    looked_at: LookedAt::Counted,
};

fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let job = &spec["jobTemplate"]["spec"];
    let (names, images) = containers(&job["template"]);
    let suspended = match &spec["suspend"] {
        Value::Bool(true) => "True",
        Value::Bool(false) => "False",
        _ => "<unset>",
    };
    let last = match status["lastScheduleTime"].as_str() {
        Some(time) => schema::table::since(time, row.now).unwrap_or_default(),
        None => NONE.to_string(),
    };
    let zone = or(text(&spec["timeZone"]), NONE);
    let active = size(&status["active"]);
    json!([
        row.name,
        text(&spec["schedule"]),
        zone,
        suspended,
        active,
        last,
        row.age,
        names,
        images,
        selector(&job["selector"])
    ])
}
