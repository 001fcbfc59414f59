//! Eviction and the budgets that guard it.

use anyhow::Result;
use serde_json::{Value, json};

use super::wire::{Answer, STRATEGIC, Scope};

/// A pod that counts as healthy.
async fn ready_pod(s: &Scope, name: &str) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    s.post(&s.core("pods"), &pod).await?.expect(201)?;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    s.patch(&s.core(&format!("pods/{name}/status")), STRATEGIC, &status).await?.expect(200)?;
    Ok(())
}

async fn budget(s: &Scope, name: &str, spec: Value) -> Result<String> {
    let mut body =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
    body["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    s.post(&s.path("policy/v1", "poddisruptionbudgets"), &body).await?.expect(201)?;
    Ok(s.path("policy/v1", &format!("poddisruptionbudgets/{name}")))
}

async fn evict(s: &Scope, name: &str) -> Result<Answer> {
    let body =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": s.namespace}});
    s.post(&s.core(&format!("pods/{name}/eviction")), &body).await
}

behaviours! {
    a_pod_without_a_budget_is_evicted(s) {
        ready_pod(&s, "a").await?;
        let status = evict(&s, "a").await?.expect(201)?;
        same!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
        same!(s.get(&s.core("pods/a")).await?.code, 404);
    }
    a_missing_pod_cannot_be_evicted(s) {
        same!(evict(&s, "nobody").await?.refused(404, "NotFound")?, "pods \"nobody\" not found");
    }
    a_budget_keeps_its_status_current(s) {
        for name in ["a", "b", "c"] {
            ready_pod(&s, name).await?;
        }
        let path = budget(&s, "guard", json!({"minAvailable": 2})).await?;
        let status = s.until(&path, "a status", |answer| answer.body["status"]["currentHealthy"] == 3).await?.body["status"].clone();
        same!((&status["disruptionsAllowed"], &status["desiredHealthy"], &status["expectedPods"]), (&json!(1), &json!(2), &json!(3)));
        same!(status["observedGeneration"], 1);
        same!((&status["conditions"][0]["type"], &status["conditions"][0]["status"]), (&json!("DisruptionAllowed"), &json!("True")));
    }
    a_budget_refuses_what_would_break_it(s) {
        ready_pod(&s, "a").await?;
        let path = budget(&s, "guard", json!({"minAvailable": 1})).await?;
        s.until(&path, "a status", |answer| answer.body["status"]["currentHealthy"] == 1).await?;
        let answer = evict(&s, "a").await?;
        same!(answer.body["details"]["causes"][0]["reason"], "DisruptionBudget");
        same!(answer.body["details"]["causes"][0]["message"], "The disruption budget guard needs 1 healthy pods and has 1 currently");
        same!(answer.refused(429, "TooManyRequests")?, "Cannot evict pod as it would violate the pod's disruption budget.");
    }
    a_budget_allows_what_it_can_spare(s) {
        for name in ["a", "b"] {
            ready_pod(&s, name).await?;
        }
        let path = budget(&s, "guard", json!({"minAvailable": 1})).await?;
        s.until(&path, "room", |answer| answer.body["status"]["disruptionsAllowed"] == 1).await?;
        evict(&s, "a").await?.expect(201)?;
        s.until(&path, "the room to be used up", |answer| answer.body["status"]["currentHealthy"] == 1).await?;
        evict(&s, "b").await?.refused(429, "TooManyRequests")?;
    }
    a_finished_pod_is_evicted_whatever_the_budget(s) {
        ready_pod(&s, "a").await?;
        let path = budget(&s, "guard", json!({"minAvailable": 1})).await?;
        s.until(&path, "a status", |answer| answer.body["status"]["currentHealthy"] == 1).await?;
        s.patch(&s.core("pods/a/status"), STRATEGIC, &json!({"status": {"phase": "Succeeded"}})).await?.expect(200)?;
        evict(&s, "a").await?.expect(201)?;
    }
    two_budgets_for_one_pod_are_an_error(s) {
        ready_pod(&s, "a").await?;
        for name in ["one", "two"] {
            let path = budget(&s, name, json!({"minAvailable": 0})).await?;
            s.until(&path, "a status", |answer| answer.body["status"]["observedGeneration"] == 1).await?;
        }
        let answer = evict(&s, "a").await?;
        same!((answer.code, answer.body["message"].as_str()), (500, Some("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")));
    }
    a_dry_run_evicts_nobody(s) {
        ready_pod(&s, "a").await?;
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}});
        s.post(&s.core("pods/a/eviction"), &body).await?.expect(201)?;
        same!(s.get(&s.core("pods/a")).await?.code, 200);
    }
    a_budget_has_one_limit_only(s) {
        let body = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
        let message = s.post(&s.path("policy/v1", "poddisruptionbudgets"), &body).await?.refused(422, "Invalid")?;
        holds!(message.contains("minAvailable and maxUnavailable cannot be both set"), "{message}");
    }
}
