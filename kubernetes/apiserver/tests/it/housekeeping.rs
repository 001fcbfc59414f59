//! What the control plane does by itself.

use serde_json::{Value, json};

use crate::wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) async fn until(wire: &Wire, path: &str, is: impl Fn(u16, &Value) -> bool) {
    // Long enough for a machine that runs every test at once.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < deadline {
        let reply = wire.get(path).await;
        if is(reply.code, &reply.body) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    panic!("{path} did not come to the state: {}", wire.get(path).await.text);
}

async fn owner_and_dependent(wire: &Wire) {
    let owner = wire.post(MAPS, &json!({"metadata": {"name": "owner"}})).await.body;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
    wire.post(MAPS, &json!({"metadata": {"name": "child", "ownerReferences": [reference]}})).await;
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    for policy in ["Background", "Foreground"] {
        let wire = Wire::start().await;
        owner_and_dependent(&wire).await;
        wire.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": policy})).await;
        until(&wire, &format!("{MAPS}/child"), |code, _| code == 404).await;
        until(&wire, &format!("{MAPS}/owner"), |code, _| code == 404).await;
    }
}

#[tokio::test]
async fn orphans_stay() {
    let wire = Wire::start().await;
    owner_and_dependent(&wire).await;
    wire.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": "Orphan"})).await;
    until(&wire, &format!("{MAPS}/owner"), |code, _| code == 404).await;
    let child = wire.get(&format!("{MAPS}/child")).await;
    assert_eq!((child.code, &child.body["metadata"]["ownerReferences"]), (200, &Value::Null));
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let wire = Wire::start().await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    wire.post(MAPS, &json!({"metadata": {"name": "child", "ownerReferences": [reference]}})).await;
    until(&wire, &format!("{MAPS}/child"), |code, _| code == 404).await;
}

#[tokio::test]
async fn a_namespace_goes_with_its_content() {
    let wire = Wire::start().await;
    wire.post("/api/v1/namespaces", &json!({"metadata": {"name": "x"}})).await;
    until(&wire, "/api/v1/namespaces/x/serviceaccounts/default", |code, _| code == 200).await;
    let maps = "/api/v1/namespaces/x/configmaps";
    wire.post(maps, &json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).await;
    let deleted = wire.delete("/api/v1/namespaces/x", &json!({})).await.body;
    assert_eq!(deleted["status"]["phase"], "Terminating");
    let refused = wire.post(maps, &json!({"metadata": {"name": "new"}})).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains("because it is being terminated"), "{}", refused.message());
    until(&wire, "/api/v1/namespaces/x/serviceaccounts/default", |code, _| code == 404).await;
    assert_eq!(wire.get("/api/v1/namespaces/x").await.code, 200, "it waits for the finalizer");
    wire.patch(&format!("{maps}/held"), "merge", &json!({"metadata": {"finalizers": []}})).await;
    until(&wire, "/api/v1/namespaces/x", |code, _| code == 404).await;
    let kept = wire.delete("/api/v1/namespaces/default", &json!({})).await;
    assert_eq!(kept.code, 403);
}

#[tokio::test]
async fn evictions_respect_a_budget_that_is_kept_current() {
    let wire = Wire::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        wire.post(pods, &pod).await;
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        wire.patch(&format!("{pods}/{name}/status"), "merge", &status).await;
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    wire.post(budgets, &budget).await;
    until(&wire, &format!("{budgets}/b"), |_, body| body["status"]["disruptionsAllowed"] == 1).await;
    let evict = async |name: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}});
        wire.post(&format!("{pods}/{name}/eviction"), &eviction).await
    };
    assert_eq!(evict("a").await.code, 201);
    let refused = evict("b").await;
    assert_eq!(
        (refused.code, refused.message()),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(evict("none").await.code, 404);
    wire.delete(&format!("{budgets}/b"), &json!({})).await;
    assert_eq!(evict("b").await.code, 201);
}
