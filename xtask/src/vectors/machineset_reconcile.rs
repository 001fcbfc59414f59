//! `machineset-reconcile`: what a set creates, deletes, adopts and reports.

use api::machine::{Machine, MachineSet};
use k8s_openapi::api::core::v1::Node;
use machine::set::{Action, Next, Snapshot, Waiting, plan};
use serde_json::{Value, json};

use super::fleet::{list, name};
use super::judge::{Expected, Judge, Rule};
use super::machines::{object, objects, plains, time, untimed};
use super::same;

pub(crate) struct SetReconcile;

impl Judge for SetReconcile {
    fn file(&self) -> &'static str {
        "machineset-reconcile"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let set: MachineSet = object(&input["machineSet"])?;
        let machines: Vec<Machine> = objects(&input["machines"])?;
        let nodes: Vec<Node> = plains(&input["nodes"])?;
        let node = |name: &str| nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let plan = plan(&Snapshot::from_objects(&set, &machines, node, time(&input["now"])?));
        let requeue = match plan.next {
            Next::OnChange(Waiting::Invalid(problem)) => return Err(problem.to_string()),
            Next::OnChange(_) => Value::Null,
            Next::After(delay, _) => json!(delay.as_secs_f64()),
        };
        let [mut created, mut deleted, mut adopted, mut released] = [const { Vec::new() }; 4];
        for action in plan.actions {
            match action {
                Action::Create(machine) => created.push(machine.metadata.name.unwrap_or_default()),
                Action::Delete { name, uid: _ } => deleted.push(name),
                Action::Adopt { name, uid: _ } => adopted.push(name),
                Action::Release { name, uid: _ } => released.push(name),
                Action::Mark { .. } => {}
            }
        }
        Ok(json!({
            "created": created.len(),
            "deleted": same::as_set(&json!(deleted)),
            "adopted": same::as_set(&json!(adopted)),
            "released": same::as_set(&json!(released)),
            "requeueAfterSeconds": requeue,
            "status": untimed(json!(plan.status)),
        }))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(expected, ours)
    }
}

const RULES: &[Rule] = &[
    // Upstream leaves the owner reference on a machine whose labels no longer match, so no other set can adopt it.
    Rule { name: "machines-that-no-longer-match-are-released", covers: |_| true, answer: released },
    // Upstream requeues after the whole of minReadySeconds, and only if every machine is ready.
    Rule { name: "availability-is-noticed-when-it-comes", covers: |_| true, answer: noticed },
    // Upstream does not report machines that failed and still count.
    Rule { name: "failed-machines-are-told", covers: |_| true, answer: told },
    Rule {
        name: "negative-replicas-are-refused",
        covers: |input| input["machineSet"]["spec"]["replicas"].as_i64().is_some_and(|replicas| replicas < 0),
        answer: |_, _| Expected::Refusal(vec!["negative".to_owned()]),
    },
];

fn released(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let uid = &input["machineSet"]["metadata"]["uid"];
    let leaves = |machine: &&Value| {
        let owned = list(&machine["metadata"]["ownerReferences"])
            .any(|owner| owner["controller"] == json!(true) && owner["uid"] == *uid);
        owned && machine["metadata"]["deletionTimestamp"].is_null() && !matches(input, machine)
    };
    let names: Vec<_> = list(&input["machines"]).filter(leaves).map(name).collect();
    output["released"] = same::as_set(&json!(names));
    Expected::Output(output)
}

fn told(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let uid = &input["machineSet"]["metadata"]["uid"];
    let has_failed = |machine: &&Value| {
        let controller = list(&machine["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == json!(true));
        controller.is_none_or(|owner| owner["uid"] == *uid)
            && machine["metadata"]["deletionTimestamp"].is_null()
            && matches(input, machine)
            && ["errorReason", "errorMessage"].iter().any(|key| !machine["status"][key].is_null())
    };
    let mut failed: Vec<_> = list(&input["machines"]).filter(has_failed).map(name).collect();
    failed.sort_unstable();
    if !failed.is_empty() {
        let message = format!(
            "{} machines have failed and still count as replicas: {}; delete them, or let a MachineHealthCheck do it",
            failed.len(),
            failed.join(", ")
        );
        let condition = json!({
            "type": "MachinesHealthy", "status": "False", "severity": "Warning", "reason": "MachinesFailed", "message": message,
        });
        output["status"]["conditions"] = json!([condition]);
    }
    Expected::Output(output)
}

fn noticed(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let min_ready = input["machineSet"]["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    let now = time(&input["now"]).unwrap_or_default();
    let uid = &input["machineSet"]["metadata"]["uid"];
    let mut soonest: Option<f64> = None;
    for machine in list(&input["machines"]) {
        let controller = list(&machine["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == json!(true));
        let ours = controller.is_none_or(|owner| owner["uid"] == *uid);
        if !ours || !machine["metadata"]["deletionTimestamp"].is_null() || !matches(input, machine) {
            continue;
        }
        let node = list(&input["nodes"]).find(|node| node["metadata"]["name"] == machine["status"]["nodeRef"]["name"]);
        let conditions = list(node.map_or(&Value::Null, |node| &node["status"]["conditions"]));
        let ready = conditions.into_iter().find(|condition| condition["type"] == json!("Ready"));
        if let Some(ready) = ready.filter(|ready| ready["status"] == json!("True"))
            && let Ok(since) = time(&ready["lastTransitionTime"])
        {
            let left = min_ready as f64 - now.duration_since(since).as_secs_f64();
            if min_ready > 0 && left >= 0.0 {
                soonest = Some(soonest.map_or(left, |other| other.min(left)));
            }
        }
    }
    output["requeueAfterSeconds"] = json!(soonest.map(|left| left + 1e-9));
    Expected::Output(output)
}

/// Upstream's label matching, for the selectors that occur in the vectors.
fn matches(input: &Value, machine: &Value) -> bool {
    let selector = &input["machineSet"]["spec"]["selector"];
    let labels = &machine["metadata"]["labels"];
    let by_labels = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let by_expressions = list(&selector["matchExpressions"]).all(|expression| {
        let value = &labels[expression["key"].as_str().unwrap_or_default()];
        let listed = list(&expression["values"]).any(|other| other == value);
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => !value.is_null(),
            _ => value.is_null(),
        }
    });
    by_labels && by_expressions
}
