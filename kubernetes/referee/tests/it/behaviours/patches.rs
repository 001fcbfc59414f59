//! Patches: merge, JSON, strategic.

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{JSON_PATCH, MERGE, STRATEGIC, version};

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
        {"name": "one", "image": "a"}, {"name": "two", "image": "b"}]}})
}

behaviours! {
    a_merge_patch_sets_and_removes_fields(s) {
        s.config_map("a").await?;
        let map = s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"key": null, "new": "1"}})).await?.expect(200)?;
        same!(map["data"], json!({"new": "1"}));
    }
    a_merge_patch_replaces_lists(s) {
        s.post(&s.core("pods"), &pod("a")).await?.expect(201)?;
        let body = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
        s.patch(&s.core("pods/a"), MERGE, &body).await?.expect(200)?;
        let patched = s.patch(&s.core("pods/a"), MERGE, &json!({"metadata": {"finalizers": ["example.com/b"]}})).await?.expect(200)?;
        same!(patched["metadata"]["finalizers"], json!(["example.com/b"]));
    }
    a_json_patch_adds_replaces_and_removes(s) {
        s.config_map("a").await?;
        let patch = json!([
            {"op": "test", "path": "/data/key", "value": "value"},
            {"op": "add", "path": "/data/new", "value": "1"},
            {"op": "replace", "path": "/data/key", "value": "2"},
            {"op": "copy", "from": "/data/key", "path": "/data/copy"},
            {"op": "remove", "path": "/data/new"},
        ]);
        let map = s.patch(&s.core("configmaps/a"), JSON_PATCH, &patch).await?.expect(200)?;
        same!(map["data"], json!({"copy": "2", "key": "2"}));
    }
    a_json_patch_whose_test_fails_changes_nothing(s) {
        s.config_map("a").await?;
        let patch = json!([{"op": "test", "path": "/data/key", "value": "other"}, {"op": "remove", "path": "/data/key"}]);
        let message = s.patch(&s.core("configmaps/a"), JSON_PATCH, &patch).await?.refused(422, "Invalid")?;
        same!(message, "the server rejected our request due to an error in our request");
        same!(s.get(&s.core("configmaps/a")).await?.expect(200)?["data"]["key"], "value");
    }
    a_json_patch_of_a_missing_path_is_refused(s) {
        s.config_map("a").await?;
        let patch = json!([{"op": "remove", "path": "/data/missing"}]);
        s.patch(&s.core("configmaps/a"), JSON_PATCH, &patch).await?.refused(422, "Invalid")?;
    }
    a_patch_that_is_no_json_is_refused(s) {
        s.config_map("a").await?;
        for kind in [MERGE, JSON_PATCH] {
            let answer = s.send(Method::PATCH, &s.core("configmaps/a"), &[("Content-Type", kind)], b"{".to_vec()).await?;
            answer.refused(400, "BadRequest")?;
        }
    }
    a_json_patch_must_be_a_list(s) {
        s.config_map("a").await?;
        s.patch(&s.core("configmaps/a"), JSON_PATCH, &json!({"op": "remove"})).await?.refused(400, "BadRequest")?;
    }
    a_patch_of_an_unknown_type_is_refused(s) {
        s.config_map("a").await?;
        let message = s.patch(&s.core("configmaps/a"), "application/json", &json!({})).await?.refused(415, "UnsupportedMediaType")?;
        same!(message, "415: Unsupported Media Type");
    }
    a_patch_of_a_missing_object_is_not_found(s) {
        same!(s.patch(&s.core("configmaps/a"), MERGE, &json!({})).await?.refused(404, "NotFound")?, "configmaps \"a\" not found");
    }
    a_patch_that_changes_nothing_keeps_the_version(s) {
        let map = s.config_map("a").await?;
        let patched = s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"key": "value"}})).await?.expect(200)?;
        same!(version(&patched), version(&map));
    }
    a_patch_with_an_old_version_conflicts(s) {
        let map = s.config_map("a").await?;
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"key": "2"}})).await?.expect(200)?;
        let patch = json!({"metadata": {"resourceVersion": version(&map)}, "data": {"key": "3"}});
        s.patch(&s.core("configmaps/a"), MERGE, &patch).await?.refused(409, "Conflict")?;
    }
    a_patch_cannot_rename(s) {
        s.config_map("a").await?;
        let answer = s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"name": "b"}})).await?;
        let message = answer.refused(400, "BadRequest")?;
        same!(message, "the name of the object (b) does not match the name on the URL (a)");
    }
    a_strategic_patch_merges_lists_by_key(s) {
        s.post(&s.core("pods"), &pod("a")).await?.expect(201)?;
        let patch = json!({"spec": {"containers": [{"name": "two", "image": "c"}]}});
        let patched = s.patch(&s.core("pods/a"), STRATEGIC, &patch).await?.expect(200)?;
        let images: Vec<_> = patched["spec"]["containers"].as_array().into_iter().flatten().map(|c| c["image"].clone()).collect();
        same!(images, [json!("a"), json!("c")]);
    }
    a_strategic_patch_leaves_alone_what_it_does_not_name(s) {
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": s.unique("node")}, "spec": {"taints": [
            {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}});
        node = s.post("/api/v1/nodes", &node).await?.expect(201)?;
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap_or_default());
        let patch = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"unschedulable": true}});
        let patched = s.patch(&path, STRATEGIC, &patch).await?.expect(200)?;
        same!((&patched["spec"]["unschedulable"], &patched["metadata"]["labels"]["x"]), (&json!(true), &json!("y")));
        let patched = s.patch(&path, STRATEGIC, &json!({"spec": {"unschedulable": null}})).await?.expect(200)?;
        same!(patched["spec"]["unschedulable"], Value::Null);
        let taints: Vec<_> = patched["spec"]["taints"].as_array().into_iter().flatten().map(|taint| taint["key"].clone()).collect();
        holds!(taints.contains(&json!("a")) && taints.contains(&json!("b")), "{taints:?}");
    }
    a_strategic_patch_updates_conditions_by_type(s) {
        let name = s.unique("node");
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?.expect(201)?;
        let path = format!("/api/v1/nodes/{name}/status");
        let set = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "r", "message": "m", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
        s.patch(&path, STRATEGIC, &set("True")).await?.expect(200)?;
        let patched = s.patch(&path, STRATEGIC, &set("False")).await?.expect(200)?;
        let conditions = &patched["status"]["conditions"];
        same!((conditions.as_array().map(Vec::len), &conditions[0]["status"]), (Some(1), &json!("False")));
    }
    a_strategic_patch_can_replace_a_map(s) {
        s.config_map("a").await?;
        let map = s.patch(&s.core("configmaps/a"), STRATEGIC, &json!({"data": {"$patch": "replace", "only": "1"}})).await?.expect(200)?;
        same!(map["data"], json!({"only": "1"}));
    }
    a_patch_with_strict_validation_refuses_unknown_fields(s) {
        s.config_map("a").await?;
        let answer = s.patch(&format!("{}?fieldValidation=Strict", s.core("configmaps/a")), MERGE, &json!({"color": "red"})).await?;
        holds!(answer.code == 400 || answer.code == 422, "{answer:?}");
        holds!(answer.text.contains("unknown field \\\"color\\\""), "{answer:?}");
    }
    a_dry_run_of_a_patch_changes_nothing(s) {
        let map = s.config_map("a").await?;
        let patched = s.patch(&format!("{}?dryRun=All", s.core("configmaps/a")), MERGE, &json!({"data": {"key": "2"}})).await?.expect(200)?;
        same!(patched["data"]["key"], "2");
        same!(s.get(&s.core("configmaps/a")).await?.expect(200)?, map);
    }
    a_scale_is_patched_through_its_own_endpoint(s) {
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let path = s.path("apps/v1", "deployments");
        s.post(&path, &body).await?.expect(201)?;
        let scale = s.get(&format!("{path}/a/scale")).await?.expect(200)?;
        same!((&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!("Scale"), &json!(1), &json!("a=b")));
        let scale = s.patch(&format!("{path}/a/scale"), MERGE, &json!({"spec": {"replicas": 4}})).await?.expect(200)?;
        same!(scale["spec"]["replicas"], 4);
        same!(s.get(&format!("{path}/a")).await?.expect(200)?["spec"]["replicas"], 4);
    }
}
