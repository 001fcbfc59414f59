//! Watches on the wire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"a": label}}})
}

/// Reads events until `count` have come or the watch ends.
async fn events(wire: &Wire, query: &str, count: usize) -> Vec<Value> {
    let mut response = wire.request("GET", &format!("{MAPS}?watch=1&{query}"), "", "").send().await.unwrap();
    let mut text = Vec::new();
    let mut events = Vec::new();
    while events.len() < count {
        let chunk = tokio::time::timeout(Duration::from_secs(10), response.chunk()).await;
        let Some(chunk) = chunk.expect("events come in time").unwrap() else { break };
        text.extend_from_slice(&chunk);
        events = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
    }
    events
}

fn shown(events: &[Value]) -> Vec<String> {
    let name = |event: &Value| event["object"]["metadata"]["name"].as_str().unwrap_or("-").to_owned();
    events.iter().map(|event| format!("{} {}", event["type"].as_str().unwrap(), name(event))).collect()
}

#[tokio::test]
async fn a_watch_from_a_version_sends_what_came_after_it() {
    let wire = Wire::start().await;
    let first = wire.post(MAPS, &map("a", "1")).await.body;
    let version = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    wire.post(MAPS, &map("b", "1")).await;
    wire.patch(&format!("{MAPS}/a"), "merge", &json!({"data": {"x": "y"}})).await;
    wire.delete(&format!("{MAPS}/b"), &json!({})).await;
    let seen = events(&wire, &format!("resourceVersion={version}"), 3).await;
    assert_eq!(shown(&seen), ["ADDED b", "MODIFIED a", "DELETED b"]);
    let versions: Vec<u64> = seen
        .iter()
        .map(|event| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
}

#[tokio::test]
async fn leaving_and_entering_a_selection_look_like_deletion_and_creation() {
    let wire = Wire::start().await;
    let version = wire.post(MAPS, &map("a", "1")).await.body["metadata"]["resourceVersion"].clone();
    for label in ["2", "1"] {
        wire.patch(&format!("{MAPS}/a"), "merge", &json!({"metadata": {"labels": {"a": label}}})).await;
    }
    let query = format!("labelSelector=a%3D1&resourceVersion={}", version.as_str().unwrap());
    assert_eq!(shown(&events(&wire, &query, 2).await), ["DELETED a", "ADDED a"]);
}

#[tokio::test]
async fn a_streamed_list_ends_with_its_bookmark() {
    let wire = Wire::start().await;
    wire.post(MAPS, &map("a", "1")).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=a";
    let seen = events(&wire, query, 2).await;
    assert_eq!(shown(&seen), ["ADDED a", "BOOKMARK -"]);
    assert_eq!(seen[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let wire = Wire::start().await;
    let query = "allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone";
    let seen = events(&wire, query, usize::MAX).await;
    assert_eq!(shown(&seen), ["BOOKMARK -"]);
}

#[tokio::test]
async fn versions_that_are_too_old_are_refused_and_those_to_come_are_waited_for() {
    let wire = Wire::start().await;
    for _ in 0..70 {
        // More than the history keeps: the objects are large.
        let fill = json!({"metadata": {"name": "big"}, "data": {"x": "x".repeat(400_000)}});
        if wire.put(&format!("{MAPS}/big"), &fill).await.code == 404 {
            wire.post(MAPS, &fill).await;
        }
        wire.patch(&format!("{MAPS}/big"), "merge", &json!({"data": {"x": "y".repeat(400_000)}})).await;
    }
    let old = wire.get(&format!("{MAPS}?watch=1&resourceVersion=1")).await;
    assert_eq!((old.code, old.body["reason"].as_str()), (410, Some("Expired")), "{}", old.text);
    assert!(old.message().starts_with("too old resource version: 1 ("), "{}", old.message());
    let new = wire.get(&format!("{MAPS}?watch=1&resourceVersion=999999&timeoutSeconds=1")).await;
    assert_eq!((new.code, new.text.as_str()), (200, ""), "it waits for its version");
    let odd = wire.get(&format!("{MAPS}?watch=1&resourceVersion=abc")).await;
    assert_eq!(odd.code, 500);
}

#[tokio::test]
async fn metadata_and_tables_can_be_watched() {
    let wire = Wire::start().await;
    wire.post(MAPS, &map("a", "1")).await;
    for (shape, kind) in [("PartialObjectMetadata", "PartialObjectMetadata"), ("Table", "Table")] {
        let accept = format!("application/json;as={shape};g=meta.k8s.io;v=v1");
        let path = format!("{MAPS}?watch=1&labelSelector=a");
        let mut response = wire.request("GET", &path, "", "").header("accept", accept).send().await.unwrap();
        let chunk = response.chunk().await.unwrap().unwrap();
        let event: Value = serde_json::from_slice(&chunk).unwrap();
        assert_eq!(event["object"]["kind"], kind);
        assert_eq!(event["type"], "ADDED");
    }
}
