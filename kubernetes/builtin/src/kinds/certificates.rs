//! CertificateSigningRequests: who may set which condition, and when it came about.

use serde_json::{Value, json};

use crate::{
    Kind, Now, Strategy, Update,
    fields::Read,
    kind::Check,
    move_field,
    table::{NONE, Row, or},
    text,
    validate::{Place, certificates},
};

pub(super) static KIND: Kind = Kind {
    // Nobody changes what was asked to be signed.
    strategy: Strategy { reset: &["spec", "status"], ..Strategy::PLAIN },
    fields: &[("spec.signerName", Read::Plain)],
    columns: "Name, Age, SignerName, Requestor, RequestedDuration, Condition",
    cells,
    create: |value, _| value["status"] = json!({}),
    update: |update| {
        let Update { subresource, old, new, now } = update;
        match *subresource {
            "" => move_field(old, new, "spec"),
            "approval" => approve(old, new, *now),
            "status" => answer(old, new, *now),
            _ => {}
        }
    },
    validate: Check::Write(|write, findings| {
        certificates::request(&Place::root(write.value), write.old, write.subresource, findings);
    }),
    judged: true,
    ..Kind::plain("certificates.k8s.io/certificatesigningrequests")
};

/// An approval sets conditions and nothing else.
fn approve(old: &Value, new: &mut Value, now: Now<'_>) {
    stamp(old, new, now);
    let conditions = new.pointer_mut("/status/conditions").map(Value::take).unwrap_or_default();
    let mut kept = old.clone();
    kept["metadata"] = new["metadata"].take();
    if !kept["status"].is_object() {
        kept["status"] = serde_json::Map::new().into();
    }
    if let Some(status) = kept["status"].as_object_mut() {
        match conditions.is_null() {
            true => status.remove("conditions"),
            false => status.insert("conditions".to_owned(), conditions),
        };
    }
    *new = kept;
}

/// The one who signs leaves conditions of approval as they are.
fn answer(old: &Value, new: &mut Value, now: Now<'_>) {
    for kind in ["Approved", "Denied"] {
        let is = |condition: &&Value| condition["type"] == kind;
        let before: Vec<Value> = all(old).iter().filter(is).cloned().collect();
        if before.len() == all(new).iter().filter(is).count() {
            let own = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
            for (own, before) in own.filter(|condition| condition["type"] == kind).zip(before) {
                *own = before;
            }
        }
    }
    stamp(old, new, now);
}

fn all(request: &Value) -> &[Value] {
    request["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Conditions without times get them from the server; one that stays as it was keeps the time of its last change.
fn stamp(old: &Value, new: &mut Value, now: Now<'_>) {
    let now: Value = now().into();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter(|condition| condition.is_object()) {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.clone();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = |before: &&Value| {
                ["type", "status"].iter().all(|field| text(&before[*field]) == text(&condition[*field]))
                    && before["lastTransitionTime"].is_string()
            };
            let before = all(old).iter().find(same).map(|before| before["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = before.unwrap_or_else(|| now.clone());
        }
    }
}

fn cells(row: &Row<'_>) -> Value {
    let spec = row.spec;
    let duration = spec["expirationSeconds"].as_i64().map_or(NONE.to_string(), schema::table::human);
    let signer = or(text(&spec["signerName"]), NONE);
    json!([row.name, row.age, signer, text(&spec["username"]), duration, request_condition(row.status)])
}

fn request_condition(status: &Value) -> String {
    let has = |kind: &str| status["conditions"].as_array().is_some_and(|l| l.iter().any(|c| c["type"] == kind));
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_string();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        shown.push_str(",Issued");
    }
    shown
}
