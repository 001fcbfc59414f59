//! Conversion reviews: objects that a webhook is asked to convert, and what it may change about them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    object::text,
    registry::Conversion,
    server::Api,
    status::{Answer, Failure},
    webhook,
};

/// How long the real server waits for a conversion.
const LIMIT: Duration = Duration::from_secs(30);

/// The objects in the wanted version. Those that have it already are not asked about.
pub(super) async fn convert(
    api: &Api,
    conversion: &Conversion,
    wanted: &str,
    mut values: Vec<Value>,
) -> Answer<Vec<Value>> {
    let Conversion::Webhook(config) = conversion else { return Ok(values) };
    let others: Vec<usize> = (0..values.len()).filter(|at| text(&values[*at]["apiVersion"]) != wanted).collect();
    let Some(first) = others.first() else { return Ok(values) };
    let subject = format!("{}, Kind={}", text(&values[*first]["apiVersion"]), text(&values[*first]["kind"]));
    let failed = |why: String| Failure::untyped(format!("conversion webhook for {subject} {why}"));
    let uid = uuid::Uuid::new_v4().to_string();
    let objects: Vec<&Value> = others.iter().map(|at| &values[*at]).collect();
    let request = json!({"uid": uid, "desiredAPIVersion": wanted, "objects": objects});
    let review = json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request,
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
    });
    let answer = webhook::post(api, config, "?timeout=30s", LIMIT, &review).await;
    let mut answer = answer.map_err(|why| failed(format!("failed: {why}")))?;
    check(&answer, &uid).map_err(|why| failed(format!("failed: {why}")))?;
    let converted = match answer["response"]["convertedObjects"].take() {
        Value::Array(converted) => converted,
        _ => Vec::new(),
    };
    if converted.len() != others.len() {
        return Err(failed(format!("returned {} objects, expected {}", converted.len(), others.len())));
    }
    for (number, (at, new)) in others.into_iter().zip(converted).enumerate() {
        values[at] = accept(&values[at], new, wanted, number).map_err(|why| failed(format!("returned {why}")))?;
    }
    Ok(values)
}

fn check(answer: &Value, uid: &str) -> Result<(), String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let own = text(&response["uid"]);
    if own != uid {
        return Err(format!("expected response.uid={uid:?}, got {own:?}"));
    }
    let result = &response["result"];
    match (text(&result["status"]), text(&result["message"])) {
        ("Success", _) => Ok(()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// A converted object with the metadata it had; only labels and annotations may have changed.
fn accept(old: &Value, mut new: Value, wanted: &str, number: usize) -> Result<Value, String> {
    let (version, kind) = (text(&new["apiVersion"]), text(&new["kind"]));
    if version != wanted {
        let why = format!("invalid groupVersion (expected {wanted}, received {version})");
        return Err(format!("invalid object at index {number}: {why}"));
    }
    if kind != text(&old["kind"]) {
        let why = format!("invalid kind (expected {}, received {kind})", text(&old["kind"]));
        return Err(format!("invalid object at index {number}: {why}"));
    }
    let (before, after) = (&old["metadata"], &new["metadata"]);
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (text(&before[field]), text(&after[field]));
        if before != after {
            return Err(format!("invalid object: must have the same {shown}: {before} != {after}"));
        }
    }
    let mut metadata = before.clone();
    for field in ["labels", "annotations"] {
        match after[field].as_object() {
            Some(map) if !map.is_empty() => metadata[field] = after[field].clone(),
            _ => drop(metadata.as_object_mut().and_then(|metadata| metadata.remove(field))),
        }
    }
    new["metadata"] = metadata;
    Ok(new)
}
