//! Defaults of an autoscaler: what it looks at, and how fast it goes up and down.

use serde_json::{Value, json};

use super::set;

/// Percent of the processor that is asked for, where nothing else is.
pub(crate) const UTILIZATION: i64 = 80;

pub(super) fn default(spec: &mut Value) {
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
