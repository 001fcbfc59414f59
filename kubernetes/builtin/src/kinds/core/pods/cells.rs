//! The cells of pods, whose status is a story of its own.

use serde_json::{Value, json};

use crate::{
    table::{Row, number, or},
    text,
};

/// Restarts and the last time one happened.
#[derive(Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += number(&container["restartCount"]);
        let finished = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last = self.last.max(finished);
    }
}

pub(super) fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let (reason, ready, total, restarts) = summary(row.object);
    let shown = match restarts.last.and_then(|last| schema::table::since(last, row.now)) {
        Some(ago) if restarts.count != 0 => format!("{} ({ago} ago)", restarts.count),
        _ => restarts.count.to_string(),
    };
    json!([
        row.name,
        format!("{ready}/{total}"),
        reason,
        shown,
        row.age,
        or(text(&status["podIPs"][0]["ip"]), "<none>"),
        or(text(&spec["nodeName"]), "<none>"),
        or(text(&status["nominatedNodeName"]), "<none>"),
        gates(spec, status),
    ])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn condition<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    list(&status["conditions"]).iter().find(|c| c["type"] == kind)
}

fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|c| c["status"] == "True")
}

/// Status, ready and total containers, restarts.
fn summary(pod: &Value) -> (String, usize, usize, Restarts<'_>) {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(&status["phase"]);
    let mut reason = or(text(&status["reason"]), phase).to_string();
    if condition(status, "PodScheduled").is_some_and(|c| c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_string();
    }
    let init = list(&spec["initContainers"]);
    let restartable = |name: &Value| init.iter().any(|c| c["name"] == *name && c["restartPolicy"] == "Always");
    let total = list(&spec["containers"]).len() + init.iter().filter(|c| restartable(&c["name"])).count();
    let mut ready = 0;
    let (mut restarts, mut sidecar_restarts) = (Restarts::default(), Restarts::default());
    let mut initializing = false;
    for (at, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
        restarts.add(container);
        let sidecar = restartable(&container["name"]);
        if sidecar {
            sidecar_restarts.add(container);
        }
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        reason = match (terminated.is_object(), text(&waiting["reason"])) {
            (true, _) => format!("Init:{}", ended(terminated)),
            (false, "" | "PodInitializing") => format!("Init:{at}/{}", init.len()),
            (false, waiting) => format!("Init:{waiting}"),
        };
        initializing = true;
        break;
    }
    if !initializing || is_true(status, "Initialized") {
        restarts = sidecar_restarts;
        let (mut running, mut failed) = (false, String::new());
        for container in list(&status["containerStatuses"]).iter().rev() {
            restarts.add(container);
            let (terminated, waiting) =
                (&container["state"]["terminated"], text(&container["state"]["waiting"]["reason"]));
            if !waiting.is_empty() {
                reason = waiting.to_string();
            } else if terminated.is_object() {
                reason = ended(terminated);
                if number(&terminated["exitCode"]) != 0 {
                    failed.clone_from(&reason);
                }
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            if running && is_true(status, "Ready") {
                reason = "Running".to_string();
            } else if !failed.is_empty() {
                reason = failed;
            } else if running {
                reason = "NotReady".to_string();
            }
        }
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            reason = "Unknown".to_string();
        } else if phase != "Succeeded" && phase != "Failed" {
            reason = "Terminating".to_string();
        }
    }
    (reason, ready, total, restarts)
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    match (text(&terminated["reason"]), number(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_string(),
    }
}

fn gates(spec: &Value, status: &Value) -> String {
    let gates = list(&spec["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_string();
    }
    let open = gates.iter().filter(|g| is_true(status, text(&g["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pod: Value, expected: &str) {
        let cells = cells(&Row::of(&pod, "2026-01-01T01:00:00Z"));
        let shown: Vec<&str> = (1..4).map(|at| text(&cells[at])).collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn a_pods_status_tells_what_matters_most() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
        check(json!({"metadata": {}, "spec": spec, "status": {"phase": "Pending"}}), "0/2 Pending 0");
        check(
            json!({"metadata": {}, "spec": spec, "status": {"phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}),
            "0/2 Init:0/1 0",
        );
        check(
            json!({"metadata": {}, "spec": spec, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "state": {"running": {}}},
                {"name": "b", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                 "lastState": {"terminated": {"finishedAt": "2026-01-01T00:59:00Z"}}}]}}),
            "1/2 CrashLoopBackOff 3 (60s ago)",
        );
        check(
            json!({"metadata": {"deletionTimestamp": "t"}, "spec": spec, "status": {"phase": "Running"}}),
            "0/2 Terminating 0",
        );
    }
}
