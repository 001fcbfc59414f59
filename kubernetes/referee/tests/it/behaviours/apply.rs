//! Server-side apply: ownership, conflicts, removal.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::definitions::{crd, establish};
use super::wire::{APPLY, Answer, MERGE, Scope, version};

async fn apply(s: &Scope, path: &str, manager: &str, body: &Value) -> Result<Answer> {
    s.patch(&format!("{path}?fieldManager={manager}"), APPLY, body).await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn deployment(containers: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}}})
}

fn managers(object: &Value) -> Vec<(String, String)> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries.map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

behaviours! {
    applying_creates_and_remembers_the_owner(s) {
        let answer = apply(&s, &s.core("configmaps/a"), "one", &map(json!({"key": "1"}))).await?;
        let object = answer.expect(201)?;
        same!(managers(&object), [("one".to_owned(), "Apply".to_owned())]);
        same!(object["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:key": {}}}));
    }
    applying_the_same_again_changes_nothing(s) {
        let path = s.core("configmaps/a");
        let first = apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let again = apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(200)?;
        same!(version(&again), version(&first));
    }
    a_field_no_longer_applied_is_removed(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1", "other": "2"}))).await?.expect(201)?;
        let object = apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(200)?;
        same!(object["data"], json!({"key": "1"}));
    }
    a_field_of_another_owner_is_a_conflict(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let answer = apply(&s, &path, "two", &map(json!({"key": "2"}))).await?;
        let cause = &answer.body["details"]["causes"][0];
        same!((&cause["reason"], &cause["field"]), (&json!("FieldManagerConflict"), &json!(".data.key")));
        same!(cause["message"], "conflict with \"one\"");
        same!(answer.refused(409, "Conflict")?, "Apply failed with 1 conflict: conflict with \"one\": .data.key");
    }
    several_conflicts_are_listed_by_owner(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"k1": "1", "k2": "1"}))).await?.expect(201)?;
        let message = apply(&s, &path, "two", &map(json!({"k1": "2", "k2": "2"}))).await?.refused(409, "Conflict")?;
        same!(message, "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k1\n- .data.k2");
    }
    force_takes_a_field_over(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let object = apply(&s, &path, "two&force=true", &map(json!({"key": "2"}))).await?.expect(200)?;
        same!(object["data"]["key"], "2");
        let owners: Vec<_> = object["metadata"]["managedFields"].as_array().into_iter().flatten().filter(|entry| entry["fieldsV1"]["f:data"]["f:key"].is_object()).map(|entry| entry["manager"].clone()).collect();
        same!(owners, [json!("two")]);
    }
    equal_values_are_owned_by_both(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let object = apply(&s, &path, "two", &map(json!({"key": "1"}))).await?.expect(200)?;
        same!(managers(&object).len(), 2);
        let object = apply(&s, &path, "one", &map(json!({}))).await?.expect(200)?;
        same!(object["data"]["key"], "1");
    }
    an_update_takes_fields_without_asking(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let object = s.patch(&format!("{path}?fieldManager=editor"), MERGE, &json!({"data": {"key": "2"}})).await?.expect(200)?;
        same!(managers(&object).last().cloned(), Some(("editor".to_owned(), "Update".to_owned())));
        let message = apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.refused(409, "Conflict")?;
        holds!(message.starts_with("Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.key") || message.contains("conflict with \"editor\""), "{message}");
    }
    applying_needs_a_field_manager(s) {
        let message = s.patch(&s.core("configmaps/a"), APPLY, &map(json!({}))).await?.refused(422, "Invalid")?;
        holds!(message.contains("fieldManager: Required value: is required for apply patch"), "{message}");
    }
    force_is_only_for_applying(s) {
        s.config_map("a").await?;
        let message = s.patch(&format!("{}?force=true", s.core("configmaps/a")), MERGE, &json!({})).await?.refused(422, "Invalid")?;
        holds!(message.contains("force: Forbidden: may not be specified for non-apply patch"), "{message}");
    }
    managed_fields_cannot_be_applied(s) {
        let mut body = map(json!({}));
        body["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]);
        let message = apply(&s, &s.core("configmaps/a"), "one", &body).await?.refused(400, "BadRequest")?;
        same!(message, "metadata.managedFields must be nil");
    }
    an_applied_configuration_must_name_its_kind(s) {
        let answer = apply(&s, &s.core("configmaps/a"), "one", &json!({"metadata": {"name": "a"}})).await?;
        same!(answer.code, 400);
    }
    an_applied_configuration_must_be_of_the_kind(s) {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        holds!(apply(&s, &s.core("configmaps/a"), "one", &body).await?.code >= 400, "accepted");
    }
    yaml_can_be_applied(s) {
        let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: value\n";
        let path = format!("{}?fieldManager=one", s.core("configmaps/a"));
        let answer = s.send(Method::PATCH, &path, &[("Content-Type", APPLY)], body.into()).await?;
        same!(answer.expect(201)?["data"]["key"], "value");
    }
    list_entries_are_owned_by_their_keys(s) {
        let path = s.path("apps/v1", "deployments/a");
        apply(&s, &path, "one", &deployment(json!([{"name": "x", "image": "1"}]))).await?.expect(201)?;
        let object = apply(&s, &path, "two", &deployment(json!([{"name": "y", "image": "2"}]))).await?.expect(200)?;
        same!(object["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(2));
        let object = apply(&s, &path, "two", &deployment(json!([]))).await?;
        holds!(object.code == 200 || object.code == 422, "{object:?}");
        let object = s.get(&path).await?.expect(200)?;
        let names: Vec<_> = object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten().map(|c| c["name"].clone()).collect();
        same!(names, [json!("x")]);
    }
    owned_list_entries_are_written_with_their_keys(s) {
        let path = s.path("apps/v1", "deployments/a");
        let object = apply(&s, &path, "one", &deployment(json!([{"name": "x", "image": "1", "ports": [{"containerPort": 80}]}]))).await?.expect(201)?;
        let fields = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"x\"}"];
        holds!(fields["f:image"].is_object() && fields["."].is_object(), "{}", object["metadata"]["managedFields"]);
        holds!(fields["f:ports"]["k:{\"containerPort\":80,\"protocol\":\"TCP\"}"].is_object(), "{fields}");
    }
    sets_are_owned_by_their_values(s) {
        let path = s.core("configmaps/a");
        let with = |finalizer: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [finalizer]}});
        apply(&s, &path, "one", &with("example.com/a")).await?.expect(201)?;
        let object = apply(&s, &path, "two", &with("example.com/b")).await?.expect(200)?;
        same!(object["metadata"]["finalizers"], json!(["example.com/a", "example.com/b"]));
        let entry = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:finalizers"];
        holds!(entry["v:\"example.com/a\""].is_object(), "{object}");
    }
    a_status_is_applied_through_its_endpoint(s) {
        let path = s.path("apps/v1", "deployments/a");
        apply(&s, &path, "one", &deployment(json!([{"name": "x", "image": "1"}]))).await?.expect(201)?;
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "status": {"replicas": 2}});
        let object = apply(&s, &format!("{path}/status"), "one", &body).await?.expect(200)?;
        same!(object["status"]["replicas"], 2);
        let entry = object["metadata"]["managedFields"].as_array().into_iter().flatten().find(|entry| entry["subresource"] == "status").cloned();
        same!(entry.unwrap_or_default()["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
    }
    a_dry_run_of_applying_leaves_nothing(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one&dryRun=All", &map(json!({"key": "1"}))).await?.expect(201)?;
        same!(s.get(&path).await?.code, 404);
    }
    custom_objects_are_applied_by_their_schema(s) {
        let schema = json!({"spec": {"type": "object", "properties": {"ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}}}}}});
        let (group, plural) = establish(&s, crd(&s, schema)).await?;
        let path = s.path(&format!("{group}/v1"), &format!("{plural}/a"));
        let with = |port: u16, name: &str| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}, "spec": {"ports": [{"port": port, "name": name}]}});
        apply(&s, &path, "one", &with(80, "x")).await?.expect(201)?;
        let object = apply(&s, &path, "two", &with(81, "y")).await?.expect(200)?;
        same!(object["spec"]["ports"].as_array().map(Vec::len), Some(2));
        let message = apply(&s, &path, "two", &with(80, "z")).await?.refused(409, "Conflict")?;
        same!(message, "Apply failed with 1 conflict: conflict with \"one\": .spec.ports[port=80].name");
    }
    an_atomic_list_has_one_owner(s) {
        let schema = json!({"spec": {"type": "object", "properties": {"words": {"type": "array", "items": {"type": "string"}}}}});
        let (group, plural) = establish(&s, crd(&s, schema)).await?;
        let path = s.path(&format!("{group}/v1"), &format!("{plural}/a"));
        let with = |words: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}, "spec": {"words": words}});
        apply(&s, &path, "one", &with(json!(["a"]))).await?.expect(201)?;
        let message = apply(&s, &path, "two", &with(json!(["b"]))).await?.refused(409, "Conflict")?;
        same!(message, "Apply failed with 1 conflict: conflict with \"one\": .spec.words");
    }
    ownership_can_be_given_up(s) {
        let path = s.core("configmaps/a");
        apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        let object = s.patch(&path, MERGE, &json!({"metadata": {"managedFields": [{}]}})).await?.expect(200)?;
        same!(managers(&object), Vec::<(String, String)>::new());
    }
    an_applied_version_is_checked(s) {
        let path = s.core("configmaps/a");
        let first = apply(&s, &path, "one", &map(json!({"key": "1"}))).await?.expect(201)?;
        s.patch(&path, MERGE, &json!({"data": {"other": "2"}})).await?.expect(200)?;
        let mut body = map(json!({"key": "3"}));
        body["metadata"]["resourceVersion"] = json!(version(&first));
        apply(&s, &path, "one", &body).await?.refused(409, "Conflict")?;
    }
}
