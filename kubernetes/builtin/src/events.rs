//! Checks of events. The older of their two APIs asks for little, the newer for whole events that stay as they are.

use schema::{FieldError, names};
use serde_json::Value;

use crate::{object::text, registry::Resource, verbs::convert};

pub(super) fn validate(resource: &Resource, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // Both are told of the fields by the names of the older.
    let event = convert::as_stored(resource, value.clone());
    let newer = !resource.group.is_empty();
    both(&event, newer, errors);
    if !newer {
        return;
    }
    let Some(old) = old.map(|old| convert::as_stored(resource, old.clone())) else {
        series(&event["series"], errors);
        created(&event, errors);
        return;
    };
    if event["series"] != old["series"] {
        series(&event["series"], errors);
    }
    const KEPT: [(&str, &str); 14] = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (field, told) in KEPT.into_iter().filter(|(field, _)| event[*field] != old[*field]) {
        // A text that is gone is empty.
        let shown = if event[field].is_null() && old[field].is_string() && !field.ends_with("Time") {
            "".into()
        } else {
            event[field].clone()
        };
        errors.push(FieldError::invalid(told, shown, "field is immutable"));
    }
}

fn both(event: &Value, newer: bool, errors: &mut Vec<FieldError>) {
    let namespace = text(&event["metadata"]["namespace"]);
    let about = text(&event["involvedObject"]["namespace"]);
    let dated = !event["eventTime"].is_null();
    let fits = match about {
        "" => namespace.is_empty() || namespace == "default" || dated && namespace == "kube-system",
        about => dated || about == namespace,
    };
    if !fits {
        errors.push(FieldError::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
    if !dated {
        return;
    }
    let controller = text(&event["reportingComponent"]);
    let field = if newer { "reportingController" } else { "reportingComponent" };
    if controller.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    errors.extend(
        names::is_qualified_name(controller).into_iter().map(|why| FieldError::invalid(field, controller, why)),
    );
    for (field, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)] {
        let length = text(&event[field]).len();
        if length == 0 && field != "message" {
            errors.push(FieldError::required(field, ""));
        }
        if length > most {
            errors.push(FieldError::invalid(field, "", format!("can have at most {most} characters")));
        }
    }
}

fn series(series: &Value, errors: &mut Vec<FieldError>) {
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn created(event: &Value, errors: &mut Vec<FieldError>) {
    if event["eventTime"].is_null() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let source = &event["source"];
    let unset = [
        ("firstTimestamp", event["firstTimestamp"].is_null()),
        ("lastTimestamp", event["lastTimestamp"].is_null()),
        ("count", event["count"].as_i64().unwrap_or(0) == 0),
        ("source", text(&source["component"]).is_empty() && text(&source["host"]).is_empty()),
    ];
    for (field, _) in unset.into_iter().filter(|(_, unset)| !unset) {
        errors.push(FieldError::invalid(field, "", "needs to be unset"));
    }
}
