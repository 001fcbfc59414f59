//! Events, which two APIs show in two forms; they are stored in the older.

use schema::{FieldError, names};
use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    fields::Read,
    kind::{Check, View, Write},
    table::{Row, age_of, number, or},
    text,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, ..Strategy::PLAIN },
    view: Some(View { stored_as: "v1", store, show, field }),
    fields: &[
        ("involvedObject.kind", Read::Plain),
        ("involvedObject.namespace", Read::Plain),
        ("involvedObject.name", Read::Plain),
        ("involvedObject.uid", Read::Plain),
        ("involvedObject.apiVersion", Read::Plain),
        ("involvedObject.resourceVersion", Read::Plain),
        ("involvedObject.fieldPath", Read::Plain),
        ("reason", Read::Plain),
        ("reportingComponent", Read::Plain),
        ("source", Read::By(source)),
        ("type", Read::Plain),
    ],
    columns: "Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name",
    cells,
    validate: Check::Write(validate),
    judged: true,
    ..Kind::plain("/events")
};

/// Names of one field in `events.k8s.io/v1` and in core `v1`.
const FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn store(mut value: Value) -> Value {
    value["apiVersion"] = "v1".into();
    FIELDS.iter().for_each(|(view, stored)| rename(&mut value, view, stored));
    value
}

fn show(value: &mut Value) {
    FIELDS.iter().for_each(|(view, stored)| rename(value, stored, view));
}

fn rename(value: &mut Value, from: &str, to: &str) {
    let Some(object) = value.as_object_mut() else { return };
    if let Some(field) = object.remove(from) {
        object.insert(to.to_owned(), field);
    }
}

fn field(field: &str) -> &str {
    match field {
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "reportingController" => "reportingComponent",
        field => field,
    }
}

fn source(event: &Value) -> String {
    let component = text(&event["source"]["component"]);
    or(component, text(&event["reportingComponent"])).to_owned()
}

/// The older of the two APIs asks for little, the newer for whole events that stay as they are.
fn validate(write: &Write<'_>, errors: &mut Vec<FieldError>) {
    // Both are told of the fields by the names of the older.
    let newer = !write.group.is_empty();
    let as_stored = |value: &Value| if newer { store(value.clone()) } else { value.clone() };
    let event = as_stored(write.value);
    both(&event, newer, errors);
    if !newer {
        return;
    }
    let Some(old) = write.old.map(as_stored) else {
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

fn cells(row: &Row<'_>) -> Value {
    let (object, now) = (row.object, row.now);
    let modern = !object["regarding"].is_null();
    let pick = |old: &'static str, new: &'static str| if modern { &object[new] } else { &object[old] };
    let involved = pick("involvedObject", "regarding");
    let ago = |time: &Value| age_of(time, now);
    let first_time = pick("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if first_time.is_null() { ago(&object["eventTime"]) } else { ago(first_time) };
    let last_time = pick("lastTimestamp", "deprecatedLastTimestamp");
    let mut last = if last_time.is_null() { first.clone() } else { ago(last_time) };
    let mut count = number(pick("count", "deprecatedCount")).max(1);
    if object["series"].is_object() {
        last = ago(&object["series"]["lastObservedTime"]);
        count = number(&object["series"]["count"]);
    }
    let kind = text(&involved["kind"]).to_lowercase();
    let target = match text(&involved["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = pick("source", "deprecatedSource");
    let component = or(text(&source["component"]), text(pick("reportingComponent", "reportingController")));
    let instance = or(text(&source["host"]), text(&object["reportingInstance"]));
    let source = if instance.is_empty() { component.to_string() } else { format!("{component}, {instance}") };
    let message = text(pick("message", "note")).trim();
    json!([
        last,
        text(&object["type"]),
        text(&object["reason"]),
        target,
        text(&involved["fieldPath"]),
        source,
        message,
        first,
        count,
        row.name,
    ])
}
