//! `pool-status`: every count and condition of a pool.

use rollout::plan;
use serde_json::{Map, Value, json};

use super::fleet::{Seen, list, name, snapshot};
use super::judge::{Expected, Judge, Rule};
use super::same;

pub(crate) struct PoolStatus;

impl Judge for PoolStatus {
    fn file(&self) -> &'static str {
        "pool-status"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let status = plan(&snapshot(input)?).status;
        let mut status = serde_json::to_value(status).map_err(|error| error.to_string())?;
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            without_progress(condition);
        }
        let source: Vec<_> = list(&status["configuration"]["source"]).map(|source| source["name"].clone()).collect();
        status["configuration"] = json!({"name": status["configuration"]["name"], "source": source});
        Ok(status)
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(&keyed(expected), &keyed(ours))
    }
}

/// Removes our sentence about the progress, which follows upstream's text.
fn without_progress(condition: &mut Value) {
    let message = condition["message"].as_str().unwrap_or_default();
    if let Some((sentence, progress)) = message.split_once("; ")
        && sentence.starts_with("All nodes are updating to ")
        && progress.contains(" done")
    {
        condition["message"] = json!(sentence);
    }
}

/// Conditions by type, without their times.
fn keyed(status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = list(&status["conditions"]).map(|condition| {
        let mut condition = condition.as_object().cloned().unwrap_or_default();
        condition.remove("lastTransitionTime");
        (condition["type"].as_str().unwrap_or_default().to_owned(), Value::Object(condition))
    });
    status["conditions"] = Value::Object(conditions.collect::<Map<_, _>>());
    status
}

const RULES: &[Rule] = &[
    Rule { name: "every-report-is-read", covers: |input| reports(input).any(is_empty), answer: read_all },
    Rule { name: "one-text-per-degraded-node", covers: |_| true, answer: one_text },
    Rule { name: "render-failures-are-told", covers: |_| true, answer: tell_render },
    Rule {
        name: "an-interrupted-build-is-not-an-update",
        covers: |input| built(input, "Interrupted"),
        answer: not_updated,
    },
];

fn reports(input: &Value) -> impl Iterator<Item = &Value> {
    list(&input["machineConfigNodes"])
}

fn is_empty(report: &Value) -> bool {
    list(&report["status"]["conditions"]).next().is_none()
}

fn holds(conditions: &Value, type_: &str) -> bool {
    list(conditions).any(|condition| condition["type"] == json!(type_) && condition["status"] == json!("True"))
}

fn built(input: &Value, stage: &str) -> bool {
    holds(&input["machineOSBuild"]["status"]["conditions"], stage)
}

fn by_gate(input: &Value) -> bool {
    input["imageModeStatusReporting"] == json!(true)
}

fn condition<'a>(output: &'a mut Value, type_: &str) -> Option<&'a mut Value> {
    output["conditions"].as_array_mut()?.iter_mut().find(|condition| condition["type"] == json!(type_))
}

/// Upstream stops at the first MachineConfigNode without conditions; ours skips it.
fn read_all(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let read: Vec<_> = reports(input).filter(|report| !is_empty(report)).collect();
    let pinned = read.iter().filter(|report| {
        list(&report["status"]["pinnedImageSets"]).all(|set| {
            let desired = set["desiredGeneration"].as_i64().unwrap_or(0);
            desired > 0 && set["currentGeneration"].as_i64().unwrap_or(0) == desired
        })
    });
    output["poolSynchronizersStatus"][0]["updatedMachineCount"] = json!(pinned.count());
    if by_gate(input) {
        let degraded = |report: &Value| holds(&report["status"]["conditions"], "NodeDegraded");
        let target = &input["pool"]["spec"]["configuration"]["name"];
        let updated = read.iter().filter(|report| {
            !degraded(report)
                && holds(&report["status"]["conditions"], "Updated")
                && report["status"]["configVersion"]["desired"] == *target
                && report["status"]["configImage"]["desiredImage"].as_str().unwrap_or_default().is_empty()
        });
        // In the vectors, pools that build an image only have nodes with conditions.
        if input["machineOSConfig"].is_null() && input["machineOSBuild"].is_null() {
            output["updatedMachineCount"] = json!(updated.count());
        }
        output["degradedMachineCount"] = json!(read.iter().filter(|report| degraded(report)).count());
        recount(input, &mut output);
    }
    Expected::Output(output)
}

/// Computes `Updated`, `Updating` and the configuration from the counts.
fn recount(input: &Value, output: &mut Value) {
    let total = output["machineCount"].clone();
    let all = output["updatedMachineCount"] == total
        && output["readyMachineCount"] == total
        && output["unavailableMachineCount"] == json!(0);
    let target = input["pool"]["spec"]["configuration"]["name"].as_str().unwrap_or_default();
    if !all || condition(output, "Updated").is_some_and(|updated| updated["status"] == json!("True")) {
        return;
    }
    if let Some(updated) = condition(output, "Updated") {
        *updated = json!({"type": "Updated", "status": "True", "message": format!("All nodes are updated with MachineConfig {target}")});
    }
    if let Some(updating) = condition(output, "Updating") {
        *updating = json!({"type": "Updating", "status": "False"});
    }
    let source: Vec<_> =
        list(&input["pool"]["spec"]["configuration"]["source"]).map(|source| source["name"].clone()).collect();
    output["configuration"] = json!({"name": target, "source": source});
}

/// Each degraded node contributes one text: its reported message, or the reason in its annotation.
fn one_text(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let trouble = |node: &Value| {
        let report = reports(input).find(|report| name(report) == name(node))?;
        let mut conditions = list(&report["status"]["conditions"]);
        let degraded = conditions.find(|it| it["type"] == json!("NodeDegraded") && it["status"] == json!("True"))?;
        Some(degraded["message"].as_str().unwrap_or_default().to_owned())
    };
    let is_counted = |node: &Value| if by_gate(input) { trouble(node).is_some() } else { Seen(node).is_degraded() };
    let counted: Vec<_> = list(&input["nodes"]).filter(|node| is_counted(node)).collect();
    let texts = counted.iter().filter_map(|node| {
        let reason = Some(Seen(node).says("reason").to_owned());
        let text = trouble(node).filter(|text| !text.is_empty()).or(reason).filter(|text| !text.is_empty())?;
        Some(format!("Node {} is reporting: {text:?}", name(node)))
    });
    let message = texts.collect::<Vec<_>>().join(", ");
    if counted.is_empty() {
        if let Some(degraded) = condition(&mut output, "NodeDegraded") {
            *degraded = json!({"type": "NodeDegraded", "status": "False"});
        }
        return Expected::Output(output);
    }
    let reason = format!("{} nodes are reporting degraded status on sync", counted.len());
    if let Some(degraded) = condition(&mut output, "NodeDegraded") {
        *degraded = json!({"type": "NodeDegraded", "status": "True", "reason": reason, "message": message});
    }
    if let Some(degraded) = condition(&mut output, "Degraded") {
        *degraded = json!({"type": "Degraded", "status": "True", "message": message});
    }
    Expected::Output(output)
}

/// `Degraded` repeats the message of rendering, if rendering is the cause.
fn tell_render(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let conditions = output["conditions"].clone();
    if holds(&conditions, "NodeDegraded") || holds(&conditions, "ImageBuildDegraded") {
        return Expected::Output(output);
    }
    let mut earlier = list(&input["pool"]["status"]["conditions"]);
    let render = earlier.find(|it| it["type"] == json!("RenderDegraded") && it["status"] == json!("True"));
    if let (Some(render), Some(degraded)) = (render, condition(&mut output, "Degraded")) {
        degraded["message"] = render["message"].clone();
    }
    Expected::Output(output)
}

fn not_updated(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if let Some(updated) = condition(&mut output, "Updated") {
        *updated = json!({"type": "Updated", "status": "False"});
    }
    let before = &input["pool"]["status"]["configuration"];
    let source: Vec<_> = list(&before["source"]).map(|source| source["name"].clone()).collect();
    output["configuration"] = json!({"name": before["name"], "source": source});
    Expected::Output(output)
}
