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
    events_at(wire, MAPS, query, count).await
}

async fn events_at(wire: &Wire, path: &str, query: &str, count: usize) -> Vec<Value> {
    let mut response = wire.request("GET", &format!("{path}?watch=1&{query}"), "", "").send().await.unwrap();
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
    for _ in 0..36 {
        // More than the history keeps: the objects are large.
        let fill = json!({"metadata": {"name": "big"}, "data": {"x": "x".repeat(130_000)}});
        if wire.put(&format!("{MAPS}/big"), &fill).await.code == 404 {
            wire.post(MAPS, &fill).await;
        }
        wire.patch(&format!("{MAPS}/big"), "merge", &json!({"data": {"x": "y".repeat(130_000)}})).await;
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

const NODES: &str = "/api/v1/nodes";

/// Opens a watch, so that it is there before the changes it is to see.
async fn open(wire: &Wire, path: &str, query: &str) -> reqwest::Response {
    wire.request("GET", &format!("{path}?watch=1&{query}"), "", "").send().await.unwrap()
}

/// The events of an open watch up to the one about `last`.
async fn until(mut response: reqwest::Response, last: &str) -> Vec<String> {
    let mut text = Vec::new();
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(10), response.chunk()).await;
        text.extend_from_slice(&chunk.expect("events come in time").unwrap().expect("the watch goes on"));
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let seen = shown(&events);
        if seen.last().is_some_and(|event| event == last) {
            return seen;
        }
    }
}

async fn annotate(wire: &Wire, path: &str, value: &str) {
    wire.patch(path, "merge", &json!({"metadata": {"annotations": {"a": value}}})).await;
}

#[tokio::test]
async fn a_watch_of_one_name_gets_the_events_of_that_object_and_no_others() {
    let wire = Wire::start().await;
    let node = |name: &str| json!({"metadata": {"name": name}});
    wire.post(NODES, &node("a")).await;
    wire.post(NODES, &node("ab")).await;
    let version = wire.get(NODES).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let before = open(&wire, NODES, "fieldSelector=metadata.name%3Da").await;
    for (name, value) in [("ab", "1"), ("a", "1"), ("ab", "2")] {
        annotate(&wire, &format!("{NODES}/{name}"), value).await;
    }
    for name in ["a", "ab"] {
        wire.delete(&format!("{NODES}/{name}"), &json!({})).await;
    }
    wire.post(NODES, &node("b")).await;
    wire.post(NODES, &node("a")).await;
    annotate(&wire, &format!("{NODES}/a"), "2").await;
    wire.delete(&format!("{NODES}/b"), &json!({})).await;
    wire.delete(&format!("{NODES}/a"), &json!({})).await;
    wire.post(NODES, &node("a")).await;
    let changes = ["MODIFIED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a", "ADDED a"];
    let seen = until(before, "ADDED a").await;
    assert_eq!(seen[0], "ADDED a", "what was there comes first");
    // The first `until` may have stopped at an earlier ADDED; what follows is asked for again from the history.
    let query = format!("fieldSelector=metadata.name%3Da&resourceVersion={version}");
    assert_eq!(shown(&events_at(&wire, NODES, &query, changes.len()).await), changes);
    let (path, query) = ("/api/v1/watch/nodes/a", format!("resourceVersion={version}"));
    assert_eq!(shown(&events_at(&wire, path, &query, changes.len()).await), changes);
}

#[tokio::test]
async fn a_watch_of_one_name_is_of_one_namespace() {
    let wire = Wire::start().await;
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    let query = "fieldSelector=metadata.name%3Da";
    let (here, there) = (open(&wire, MAPS, query).await, open(&wire, elsewhere, query).await);
    let everywhere = open(&wire, "/api/v1/configmaps", query).await;
    wire.post(elsewhere, &map("a", "1")).await;
    wire.post(MAPS, &map("a", "1")).await;
    annotate(&wire, &format!("{MAPS}/a"), "1").await;
    wire.delete(&format!("{elsewhere}/a"), &json!({})).await;
    assert_eq!(until(here, "MODIFIED a").await, ["ADDED a", "MODIFIED a"]);
    assert_eq!(until(there, "DELETED a").await, ["ADDED a", "DELETED a"]);
    assert_eq!(until(everywhere, "DELETED a").await, ["ADDED a", "ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn an_object_enters_and_leaves_a_watch_of_its_name_by_its_labels_and_fields() {
    let wire = Wire::start().await;
    wire.post(NODES, &json!({"metadata": {"name": "a"}})).await;
    wire.post(NODES, &json!({"metadata": {"name": "b"}})).await;
    let by_field = open(&wire, NODES, "fieldSelector=metadata.name%3Da,spec.unschedulable%3Dtrue").await;
    let by_label = open(&wire, NODES, "fieldSelector=metadata.name%3Da&labelSelector=in").await;
    let set = async |name: &str, patch: Value| {
        assert_eq!(wire.patch(&format!("{NODES}/{name}"), "merge", &patch).await.code, 200);
    };
    for name in ["b", "a"] {
        set(name, json!({"spec": {"unschedulable": true}})).await;
        set(name, json!({"metadata": {"labels": {"in": "1"}}})).await;
    }
    set("a", json!({"spec": {"unschedulable": null}})).await;
    set("a", json!({"metadata": {"labels": {"in": null}}})).await;
    assert_eq!(until(by_field, "DELETED a").await, ["ADDED a", "MODIFIED a", "DELETED a"]);
    assert_eq!(until(by_label, "DELETED a").await, ["ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn a_watch_of_one_name_outlasts_the_changes_of_others() {
    let wire = Wire::start().await;
    wire.post(MAPS, &map("a", "1")).await;
    wire.post(MAPS, &json!({"metadata": {"name": "big"}, "data": {"x": "x".repeat(130_000)}})).await;
    let version = wire.get(MAPS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = open(&wire, MAPS, &format!("fieldSelector=metadata.name%3Da&resourceVersion={version}")).await;
    // More than the history keeps.
    for turn in 0..70 {
        annotate(&wire, &format!("{MAPS}/big"), &turn.to_string()).await;
    }
    let old = wire.get(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(old.code, 410, "the history has gone on");
    annotate(&wire, &format!("{MAPS}/a"), "1").await;
    assert_eq!(until(watch, "MODIFIED a").await, ["MODIFIED a"]);
}
