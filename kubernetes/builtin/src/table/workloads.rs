//! The cells of what runs pods: deployments and their like, jobs.

use serde_json::{Value, json};

use super::print::{NONE, containers, labels, number, or, selector, size, text};

/// The cells of an object of these kinds; `None` if it is of another.
pub(super) fn cells(group: &str, plural: &str, object: &Value, age: &str, now: &str) -> Option<Value> {
    let name = &object["metadata"]["name"];
    let (spec, status) = (&object["spec"], &object["status"]);
    Some(match (group, plural) {
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            let (names, images) = containers(&spec["template"]);
            let selector = match plural {
                "replicasets" => selector(&spec["selector"]),
                _ => labels(&spec["selector"]),
            };
            let counts = [&spec["replicas"], &status["replicas"], &status["readyReplicas"]].map(number);
            json!([name, counts[0], counts[1], counts[2], age, names, images, selector])
        }
        ("apps", "controllerrevisions") => json!([name, controller(object), number(&object["revision"]), age]),
        ("apps", "daemonsets") => {
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
            json!([name, counts[0], counts[1], counts[2], counts[3], counts[4], nodes, age, names, images, selector])
        }
        ("apps", "deployments") => {
            let (names, images) = containers(&spec["template"]);
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            let (updated, available) = (number(&status["updatedReplicas"]), number(&status["availableReplicas"]));
            json!([name, ready, updated, available, age, names, images, selector(&spec["selector"])])
        }
        ("apps", "statefulsets") => {
            let (names, images) = containers(&spec["template"]);
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            json!([name, ready, age, names, images])
        }
        ("batch", "cronjobs") => {
            let job = &spec["jobTemplate"]["spec"];
            let (names, images) = containers(&job["template"]);
            let suspended = match &spec["suspend"] {
                Value::Bool(true) => "True",
                Value::Bool(false) => "False",
                _ => "<unset>",
            };
            let last = match status["lastScheduleTime"].as_str() {
                Some(time) => super::age::since(time, now).unwrap_or_default(),
                None => NONE.to_string(),
            };
            let zone = or(text(&spec["timeZone"]), NONE);
            let active = size(&status["active"]);
            json!([
                name,
                text(&spec["schedule"]),
                zone,
                suspended,
                active,
                last,
                age,
                names,
                images,
                selector(&job["selector"])
            ])
        }
        ("batch", "jobs") => job(object, age, now),
        _ => return None,
    })
}

fn job(object: &Value, age: &str, now: &str) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let end = status["completionTime"].as_str().unwrap_or(now);
    let duration = status["startTime"].as_str().and_then(|start| super::age::since(start, end)).unwrap_or_default();
    let has = |kind: &str| {
        let list = status["conditions"].as_array().into_iter().flatten();
        list.filter(|c| c["type"] == kind).any(|c| c["status"] == "True")
    };
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let (names, images) = containers(&spec["template"]);
    json!([object["metadata"]["name"], state, completions, duration, age, names, images, selector(&spec["selector"])])
}

fn controller(object: &Value) -> String {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    match owners.find(|owner| owner["controller"] == true) {
        Some(owner) => {
            let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        }
        None => NONE.to_string(),
    }
}
