//! The cells of an autoscaler: what it scales, and how far each of its metrics is from its target.

use serde_json::{Value, json};

use crate::{
    table::{NONE, Row, number},
    text,
};

/// So many metrics are shown; the others are counted.
const SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";

pub(super) fn cells(row: &Row<'_>) -> Value {
    let (spec, status) = (row.spec, row.status);
    let target = &spec["scaleTargetRef"];
    let reference = format!("{}/{}", text(&target["kind"]), text(&target["name"]));
    let least = spec["minReplicas"].as_i64().map_or("<unset>".to_string(), |least| least.to_string());
    let metrics = metrics(&spec["metrics"], &status["currentMetrics"]);
    let current = number(&status["currentReplicas"]);
    json!([row.name, reference, metrics, least, number(&spec["maxReplicas"]), current, row.age])
}

fn metrics(specs: &Value, statuses: &Value) -> String {
    let specs = specs.as_array().map_or(&[][..], Vec::as_slice);
    if specs.is_empty() {
        return NONE.to_string();
    }
    let shown: Vec<String> =
        specs.iter().take(SHOWN).enumerate().map(|(at, spec)| metric(spec, &statuses[at])).collect();
    let shown = shown.join(", ");
    if specs.len() > SHOWN { format!("{shown} + {} more...", specs.len() - SHOWN) } else { shown }
}

fn metric(spec: &Value, status: &Value) -> String {
    let field = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_string(),
    };
    let (spec, target) = (&spec[field], &spec[field]["target"]);
    let seen = &status[field];
    let current = &seen["current"];
    let averaged = !target["averageValue"].is_null();
    // A metric that was seen has a value, be it nothing.
    let quantity = |value: &Value, known: bool| match value.as_str() {
        Some(value) => value.to_string(),
        None if known => "<nil>".to_string(),
        None => UNKNOWN.to_string(),
    };
    let percent = |value: &Value, other: &str| value.as_i64().map_or(other.to_string(), |value| format!("{value}%"));
    match field {
        "resource" | "containerResource" => {
            let (current, target) = match averaged {
                true => (quantity(&current["averageValue"], !seen.is_null()), quantity(&target["averageValue"], true)),
                false => {
                    (percent(&current["averageUtilization"], UNKNOWN), percent(&target["averageUtilization"], "<auto>"))
                }
            };
            format!("{}: {current}/{target}", text(&spec["name"]))
        }
        "pods" => {
            let current = quantity(&current["averageValue"], !seen.is_null());
            format!("{current}/{}", quantity(&target["averageValue"], true))
        }
        _ if averaged => {
            format!("{}/{} (avg)", quantity(&current["averageValue"], false), quantity(&target["averageValue"], true))
        }
        _ => format!("{}/{}", quantity(&current["value"], !seen.is_null()), quantity(&target["value"], true)),
    }
}
