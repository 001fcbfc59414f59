//! `machine-drain`: the drain of a Machine's node, on nodes without pods.

use api::machine::Machine;
use k8s_openapi::api::core::v1::Node;
use machine::draining::{Action, Emptying, Next, Snapshot, plan};
use serde_json::{Value, json};

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::machines::{object, plains, untimed};
use super::same;

pub(crate) struct MachineDrain;

impl Judge for MachineDrain {
    fn file(&self) -> &'static str {
        "machine-drain"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let machine: Machine = object(&input["machine"])?;
        let nodes: Vec<Node> = plains(&input["nodes"])?;
        let nodes: Vec<_> = nodes.iter().collect();
        let now = "2026-03-01T12:00:00Z".parse().map_err(|error: jiff::Error| error.to_string())?;
        let mut snapshot = Snapshot::from_objects(&machine, Some(&nodes), |_| None, Vec::new(), now);
        let (mut cordoned, mut events) = (false, Vec::new());
        loop {
            let plan = plan(&snapshot);
            for action in plan.actions {
                match action {
                    Action::Cordon { .. } => cordoned = true,
                    Action::Event { warning, reason, message } => {
                        let kind = if warning { "Warning" } else { "Normal" };
                        events.push(format!("{kind} {reason} {message}"));
                    }
                }
            }
            let requeue = match plan.next {
                Next::Empty { .. } => {
                    snapshot.emptying = Some(Emptying::default());
                    continue;
                }
                Next::After(delay, _) => json!(delay.as_secs_f64()),
                Next::OnChange(_) => Value::Null,
            };
            let conditions = same::as_set(&untimed(json!(plan.status))["conditions"]);
            return Ok(json!({
                "conditions": conditions, "cordoned": cordoned, "events": events, "requeueAfterSeconds": requeue,
            }));
        }
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let mut expected = expected.clone();
        expected["conditions"] = same::as_set(&expected["conditions"]);
        same::object_difference(&expected, ours)
    }
}

const RULES: &[Rule] = &[
    Rule { name: "hooks-that-were-not-waited-for-are-named", covers: |_| true, answer: named },
    Rule { name: "a-refused-drain-says-who-goes-first", covers: |_| true, answer: refused },
    Rule { name: "a-drain-is-announced-once", covers: |_| true, answer: once },
    // Upstream goes by the condition alone; the node may have registered again and taken pods since.
    Rule { name: "a-node-that-is-not-cordoned-is-not-drained", covers: is_uncordoned_since, answer: taken_back },
];

/// The machine says that its node is drained, and the node takes pods.
pub(super) fn is_uncordoned_since(input: &Value) -> bool {
    let status = &input["machine"]["status"];
    let says = list(&status["conditions"]).any(|it| it["type"] == json!("Drained") && it["status"] == json!("True"));
    let node = list(&input["nodes"]).find(|node| node["metadata"]["name"] == status["nodeRef"]["name"]);
    says && node.is_some_and(|node| node["spec"]["unschedulable"] != json!(true))
}

fn taken_back(_: &Value, _: Expected) -> Expected {
    Expected::Checked(Check(|_, ours| {
        let is_drained = |it: &Value| it["type"] == json!("Drained") && it["status"] == json!("True");
        list(&ours["conditions"]).any(is_drained).then(|| "a node that takes pods counts as drained".to_owned())
    }))
}

fn drained(output: &mut Value, condition: Value) {
    let others = list(&output["conditions"]).filter(|other| other["type"] != json!("Drained")).cloned();
    let all: Vec<_> = others.chain([condition]).collect();
    output["conditions"] = json!(all);
}

fn has_event(output: &Value, reason: &str) -> bool {
    list(&output["events"]).filter_map(Value::as_str).any(|event| event.split(' ').nth(1) == Some(reason))
}

fn named(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let hooks: Vec<_> = list(&input["machine"]["spec"]["lifecycleHooks"]["preDrain"])
        .map(|hook| {
            format!("{{Name:{} Owner:{}}}", hook["name"].as_str().unwrap_or(""), hook["owner"].as_str().unwrap_or(""))
        })
        .collect();
    if has_event(&output, "DrainSkipped") && !hooks.is_empty() {
        let message = format!("Node drain skipped, without waiting for pre-drain hooks [{}]", hooks.join(" "));
        drained(&mut output, json!({"type": "Drained", "status": "True", "message": message}));
    }
    Expected::Output(output)
}

fn refused(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if has_event(&output, "DrainRequeued") {
        let own = &input["machine"]["status"]["nodeRef"]["name"];
        let control_plane = |node: &Value| {
            let labels = &node["metadata"]["labels"];
            ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]
                .iter()
                .any(|key| !labels[key].is_null())
        };
        let first = list(&input["nodes"]).find(|node| {
            node["metadata"]["name"] != *own && control_plane(node) && node["spec"]["unschedulable"] == json!(true)
        });
        let first = first.map_or("", |node| node["metadata"]["name"].as_str().unwrap_or_default());
        let why = format!("waiting for control-plane node {first}: only one may be taken away at a time");
        output["events"] = json!([format!("Normal DrainRequeued Node drain requeued: {why}")]);
        let condition = json!({"type": "Drained", "status": "False", "severity": "Warning", "reason": "DrainError", "message": why});
        drained(&mut output, condition);
    }
    Expected::Output(output)
}

/// Upstream announces every reconcile; a reconcile of a cordoned node with a condition continues a drain that was
/// announced before.
fn once(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let own = &input["machine"]["status"]["nodeRef"]["name"];
    let node = list(&input["nodes"]).find(|node| node["metadata"]["name"] == *own);
    let continues = node.is_some_and(|node| node["spec"]["unschedulable"] == json!(true))
        && list(&input["machine"]["status"]["conditions"]).any(|condition| condition["type"] == json!("Drained"));
    if continues {
        let others =
            list(&output["events"]).filter(|event| !event.as_str().unwrap_or_default().contains(" DrainProceeds "));
        output["events"] = others.cloned().collect();
    }
    Expected::Output(output)
}
