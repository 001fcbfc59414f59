//! HorizontalPodAutoscalers: what they look at, and how fast they go up and down. They are stored in the second version.

mod cells;
mod convert;

use serde_json::{Value, json};

use crate::{
    Kind, Write,
    defaults::set,
    kind::{Check, View},
    validate::{Findings, Place, autoscaling},
};

pub(super) static KIND: Kind = Kind {
    view: Some(View { stored_as: STORED, store: convert::stored, show: convert::to_first, field: |field| field }),
    columns: "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
    cells: cells::cells,
    default: |value, _| {
        set(&mut value["spec"], "minReplicas", 1);
        if value["apiVersion"] == STORED {
            default(&mut value["spec"]);
        }
    },
    create: |value, _| {
        let first = value["apiVersion"] == "autoscaling/v1";
        let other = if first { ("currentReplicas", json!(0)) } else { ("currentMetrics", Value::Null) };
        value["status"] = json!({"desiredReplicas": 0, other.0: other.1});
    },
    validate: Check::Write(validate),
    judged: true,
    ..Kind::plain("autoscaling/horizontalpodautoscalers")
};

const STORED: &str = "autoscaling/v2";

/// Percent of the processor that is asked for, where nothing else is.
pub(crate) const UTILIZATION: i64 = 80;

fn default(spec: &mut Value) {
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([processor(UTILIZATION)]);
    }
    if !spec["behavior"].is_object() {
        return;
    }
    let up = json!([
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]);
    let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        let rules = &mut spec["behavior"][direction];
        set(rules, "selectPolicy", "Max");
        set(rules, "policies", policies);
    }
    set(&mut spec["behavior"]["scaleUp"], "stabilizationWindowSeconds", 0);
}

/// The metric that every autoscaler knows: the average use of the processor, in percent.
pub(crate) fn processor(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
    }})
}

/// Both versions are judged in the terms of the second.
fn validate(write: &Write<'_>, findings: &mut Findings) {
    let as_stored = |value: &Value| match value["apiVersion"] == STORED {
        true => value.clone(),
        false => convert::stored(value.clone()),
    };
    let (new, old) = (as_stored(write.value), write.old.map(as_stored));
    autoscaling::check(&Place::root(&new), old.as_ref(), findings);
}
