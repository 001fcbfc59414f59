//! Writes on the wire.

use serde_json::{Value, json};

use crate::wire::{Reply, Wire};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[track_caller]
fn check(reply: &Reply, code: u16, reason: &str, message: &str) {
    assert_eq!(
        (reply.code, reply.body["reason"].as_str().unwrap_or_default(), reply.message()),
        (code, reason, message)
    );
}

#[tokio::test]
async fn a_stale_update_conflicts_and_a_fresh_one_does_not() {
    let wire = Wire::start().await;
    let first = wire.post(MAPS, &map("a")).await.body;
    let mut second = first.clone();
    second["data"]["a"] = "2".into();
    assert_eq!(wire.put(&format!("{MAPS}/a"), &second).await.code, 200);
    let stale = wire.put(&format!("{MAPS}/a"), &second).await;
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    check(&stale, 409, "Conflict", message);
    let other = json!({"metadata": {"name": "a", "uid": "other"}});
    let refused = wire.put(&format!("{MAPS}/a"), &other).await;
    assert_eq!(refused.code, 409);
    assert!(refused.message().contains("Precondition failed: UID in precondition: other"), "{}", refused.message());
}

#[tokio::test]
async fn the_same_content_keeps_the_version() {
    let wire = Wire::start().await;
    let first = wire.post(MAPS, &map("a")).await.body;
    let again = wire.put(&format!("{MAPS}/a"), &first).await.body;
    assert_eq!(first["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
    let apply = format!("{MAPS}/s?fieldManager=me");
    let one = wire.patch(&apply, "apply", &map("s")).await.body;
    let two = wire.patch(&apply, "apply", &map("s")).await.body;
    assert_eq!(one["metadata"], two["metadata"]);
}

#[tokio::test]
async fn names_are_generated_and_dry_runs_leave_no_trace() {
    let wire = Wire::start().await;
    let generated = wire.post(MAPS, &json!({"metadata": {"generateName": "g-"}})).await.body;
    let name = generated["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("g-") && name.len() == 7, "{name}");
    let dry = wire.post(&format!("{MAPS}?dryRun=All"), &map("dry")).await;
    assert_eq!((dry.code, dry.body["metadata"]["uid"].is_string()), (201, true));
    check(&wire.get(&format!("{MAPS}/dry")).await, 404, "NotFound", "configmaps \"dry\" not found");
    let odd = wire.post(&format!("{MAPS}?dryRun=Some"), &map("dry")).await;
    assert_eq!(odd.code, 422);
}

#[tokio::test]
async fn json_patches_test_and_change() {
    let wire = Wire::start().await;
    wire.post(MAPS, &map("a")).await;
    let path = format!("{MAPS}/a");
    let good = json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]);
    assert_eq!(wire.patch(&path, "json", &good).await.body["data"], json!({"a": "1", "b": "2"}));
    let failing = json!([{"op": "test", "path": "/data/a", "value": "9"}]);
    check(
        &wire.patch(&path, "json", &failing).await,
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
}

#[tokio::test]
async fn strategic_patches_merge_lists_by_their_keys() {
    let wire = Wire::start().await;
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    wire.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}, "spec": {"taints": [taint("a")]}})).await;
    let patched = wire.patch("/api/v1/nodes/n", "strategic-merge", &json!({"spec": {"unschedulable": true}})).await;
    let taints = [taint("a"), taint("node.kubernetes.io/not-ready")];
    assert_eq!(patched.body["spec"], json!({"taints": taints, "unschedulable": true}));
    let conditions = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let status = "/api/v1/nodes/n/status";
    let other = json!({"status": {"conditions": [{"type": "Disk", "status": "True"}]}});
    wire.patch(status, "strategic-merge", &conditions("True")).await;
    wire.patch(status, "strategic-merge", &other).await;
    let last = wire.patch(status, "strategic-merge", &conditions("False")).await.body;
    assert_eq!(last["status"]["conditions"].as_array().unwrap().len(), 2, "{last}");
}

#[tokio::test]
async fn finalizers_hold_a_deleted_object_until_they_are_gone() {
    let wire = Wire::start().await;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    wire.post(MAPS, &held).await;
    let path = format!("{MAPS}/a");
    let deleted = wire.delete(&path, &json!({})).await;
    assert!(deleted.body["metadata"]["deletionTimestamp"].is_string(), "{}", deleted.text);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = wire.patch(&path, "merge", &more).await;
    assert_eq!(refused.code, 422);
    assert!(
        refused.message().contains("no new finalizers can be added if the object is being deleted"),
        "{}",
        refused.message()
    );
    assert_eq!(wire.patch(&path, "merge", &json!({"metadata": {"finalizers": null}})).await.code, 200);
    assert_eq!(wire.get(&path).await.code, 404);
}

#[tokio::test]
async fn deletes_honour_preconditions_and_grace() {
    let wire = Wire::start().await;
    let created = wire.post(MAPS, &map("a")).await.body;
    let path = format!("{MAPS}/a");
    let refused = wire.delete(&path, &json!({"preconditions": {"uid": "x"}})).await;
    assert_eq!(refused.code, 409);
    let version = &created["metadata"]["resourceVersion"];
    let deleted = wire.delete(&path, &json!({"preconditions": {"resourceVersion": version}})).await;
    assert_eq!(deleted.body["status"], "Success");
    assert_eq!(deleted.body["details"]["uid"], created["metadata"]["uid"]);

    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    wire.post("/api/v1/namespaces/default/pods", &pod).await;
    let path = "/api/v1/namespaces/default/pods/p";
    let pending = wire.delete(path, &json!({})).await.body;
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(wire.get(path).await.code, 200);
    wire.delete(path, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(wire.get(path).await.code, 404);
}

#[tokio::test]
async fn status_and_spec_are_written_at_their_own_endpoints() {
    let wire = Wire::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let body = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        "status": {"replicas": 9},
    });
    let created = wire.post(deployments, &body).await.body;
    assert_eq!((&created["metadata"]["generation"], &created["spec"]["replicas"]), (&json!(1), &json!(1)));
    assert!(created["status"]["replicas"].is_null());
    let path = format!("{deployments}/d");
    let status = json!({"spec": {"replicas": 5}, "status": {"replicas": 3}});
    let reported = wire.patch(&format!("{path}/status"), "merge", &status).await.body;
    assert_eq!((&reported["spec"]["replicas"], &reported["status"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(reported["metadata"]["generation"], 1);
    let scaled = wire.patch(&format!("{path}/scale"), "merge", &json!({"spec": {"replicas": 4}})).await.body;
    assert_eq!((scaled["kind"].as_str(), &scaled["spec"]["replicas"]), (Some("Scale"), &json!(4)));
    let last = wire.get(&path).await.body;
    assert_eq!((&last["metadata"]["generation"], &last["status"]["replicas"]), (&json!(2), &json!(3)));
}

#[tokio::test]
async fn apply_conflicts_name_the_other_manager_and_force_takes_over() {
    let wire = Wire::start().await;
    let path = |manager: &str, force: &str| format!("{MAPS}/a?fieldManager={manager}{force}");
    wire.patch(&path("one", ""), "apply", &map("a")).await;
    let mut other = map("a");
    other["data"]["a"] = "2".into();
    let refused = wire.patch(&path("two", ""), "apply", &other).await;
    check(&refused, 409, "Conflict", "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let forced = wire.patch(&path("two", "&force=true"), "apply", &other).await.body;
    assert_eq!(forced["data"]["a"], "2");
    let nameless = wire.patch(&format!("{MAPS}/a"), "apply", &map("a")).await;
    check(
        &nameless,
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
}

#[tokio::test]
async fn a_collection_is_deleted_by_selection() {
    let wire = Wire::start().await;
    for name in ["a", "b", "c"] {
        let mut value = map(name);
        value["metadata"]["labels"] = json!({"keep": (name == "c").to_string()});
        wire.post(MAPS, &value).await;
    }
    let deleted = wire.delete(&format!("{MAPS}?labelSelector=keep%3Dfalse"), &json!({})).await;
    assert_eq!((deleted.code, deleted.body["items"].as_array().unwrap().len()), (200, 2));
    assert_eq!(wire.get(&format!("{MAPS}/c")).await.code, 200);
}

#[tokio::test]
async fn both_event_apis_show_one_event() {
    let wire = Wire::start().await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"},
        "reason": "Because", "message": "said", "type": "Normal", "source": {"component": "me"},
    });
    assert_eq!(wire.post("/api/v1/namespaces/default/events", &event).await.code, 201);
    let other = wire.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.body;
    assert_eq!((other["note"].as_str(), other["regarding"]["name"].as_str()), (Some("said"), Some("n")));
    let selected = wire.get("/api/v1/events?fieldSelector=involvedObject.name%3Dn,reason%3DBecause").await.body;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
}
