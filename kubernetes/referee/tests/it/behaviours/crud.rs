//! Create, get, update: identity, versions, conflicts, names.

use serde_json::json;

use super::wire::{config_map, version};

fn deployment(name: &str) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

behaviours! {
    a_created_object_has_an_identity(s) {
        let map = s.config_map("a").await?;
        let metadata = &map["metadata"];
        holds!(metadata["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{metadata}");
        holds!(version(&map).parse::<u64>().is_ok(), "{metadata}");
        holds!(metadata["creationTimestamp"].as_str().is_some_and(|time| time.len() == 20), "{metadata}");
        same!(metadata["namespace"], s.namespace.as_str());
        holds!(metadata.get("selfLink").is_none() && metadata.get("generation").is_none(), "{metadata}");
    }
    what_was_created_is_what_is_read(s) {
        let map = s.config_map("a").await?;
        same!(s.get(&s.core("configmaps/a")).await?.expect(200)?, map);
    }
    a_second_object_of_the_same_name_is_refused(s) {
        s.config_map("a").await?;
        let answer = s.post(&s.core("configmaps"), &config_map("a")).await?;
        same!(answer.body["details"], json!({"name": "a", "kind": "configmaps"}));
        same!(answer.refused(409, "AlreadyExists")?, "configmaps \"a\" already exists");
    }
    a_missing_object_is_not_found(s) {
        let answer = s.get(&s.core("configmaps/nobody")).await?;
        same!(answer.body["details"], json!({"name": "nobody", "kind": "configmaps"}));
        same!(answer.refused(404, "NotFound")?, "configmaps \"nobody\" not found");
        let answer = s.get(&s.path("apps/v1", "deployments/nobody")).await?;
        same!(answer.body["details"]["group"], "apps");
        same!(answer.refused(404, "NotFound")?, "deployments.apps \"nobody\" not found");
    }
    a_generated_name_starts_with_what_was_asked_for(s) {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}});
        let one = s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let two = s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        holds!(name.starts_with("some-") && name.len() == 10, "{name}");
        holds!(one["metadata"]["name"] != two["metadata"]["name"], "{name} twice");
    }
    an_object_without_a_name_is_refused(s) {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(422, "Invalid")?;
        same!(message, "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required");
    }
    a_name_that_breaks_the_rules_is_refused(s) {
        let answer = s.post(&s.core("configmaps"), &config_map("Not_Good")).await?;
        same!(answer.body["details"]["causes"][0]["field"], "metadata.name");
        same!(answer.body["details"]["causes"][0]["reason"], "FieldValueInvalid");
        let message = answer.refused(422, "Invalid")?;
        holds!(message.starts_with("ConfigMap \"Not_Good\" is invalid: metadata.name: Invalid value: \"Not_Good\": a lowercase RFC 1123 subdomain must consist of"), "{message}");
    }
    an_object_in_a_missing_namespace_is_refused(s) {
        let message = s.post("/api/v1/namespaces/no-such/configmaps", &config_map("a")).await?.refused(404, "NotFound")?;
        same!(message, "namespaces \"no-such\" not found");
    }
    the_namespace_of_the_body_must_be_that_of_the_path(s) {
        let mut body = config_map("a");
        body["metadata"]["namespace"] = json!("default");
        let message = s.post(&s.core("configmaps"), &body).await?.refused(400, "BadRequest")?;
        same!(message, "the namespace of the provided object does not match the namespace sent on the request");
    }
    the_name_of_the_body_must_be_that_of_the_path(s) {
        s.config_map("a").await?;
        let message = s.put(&s.core("configmaps/a"), &config_map("b")).await?.refused(400, "BadRequest")?;
        same!(message, "the name of the object (b) does not match the name on the URL (a)");
    }
    a_new_object_cannot_have_a_version(s) {
        let mut body = config_map("a");
        body["metadata"]["resourceVersion"] = json!("1");
        let answer = s.post(&s.core("configmaps"), &body).await?;
        same!(answer.code, 500);
        same!(answer.body["message"], "resourceVersion should not be set on objects to be created");
    }
    a_uid_of_the_client_is_replaced_on_creation(s) {
        let mut body = config_map("a");
        body["metadata"]["uid"] = json!("my-own");
        let map = s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        holds!(map["metadata"]["uid"] != "my-own", "{map}");
    }
    an_update_with_an_old_version_conflicts(s) {
        let old = s.config_map("a").await?;
        let mut new = old.clone();
        new["data"]["key"] = json!("2");
        s.put(&s.core("configmaps/a"), &new).await?.expect(200)?;
        let message = s.put(&s.core("configmaps/a"), &old).await?.refused(409, "Conflict")?;
        same!(message, "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again");
    }
    an_update_without_a_version_wins(s) {
        let old = s.config_map("a").await?;
        let mut body = config_map("a");
        body["data"]["key"] = json!("2");
        let new = s.put(&s.core("configmaps/a"), &body).await?.expect(200)?;
        same!((&new["data"]["key"], &new["metadata"]["uid"]), (&json!("2"), &old["metadata"]["uid"]));
        same!(new["metadata"]["creationTimestamp"], old["metadata"]["creationTimestamp"]);
    }
    an_update_that_changes_nothing_keeps_the_version(s) {
        let old = s.config_map("a").await?;
        let new = s.put(&s.core("configmaps/a"), &old).await?.expect(200)?;
        same!(version(&new), version(&old));
    }
    an_update_that_changes_something_takes_a_newer_version(s) {
        let old = s.config_map("a").await?;
        let mut body = old.clone();
        body["data"]["key"] = json!("2");
        let new = s.put(&s.core("configmaps/a"), &body).await?.expect(200)?;
        holds!(version(&new).parse::<u64>()? > version(&old).parse::<u64>()?, "{new}");
    }
    an_update_of_a_missing_object_is_not_found(s) {
        same!(s.put(&s.core("configmaps/a"), &config_map("a")).await?.refused(404, "NotFound")?, "configmaps \"a\" not found");
    }
    an_update_with_another_uid_conflicts(s) {
        s.config_map("a").await?;
        let mut body = config_map("a");
        body["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        let message = s.put(&s.core("configmaps/a"), &body).await?.refused(409, "Conflict")?;
        holds!(message.contains("Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000000"), "{message}");
    }
    a_dry_run_of_creation_leaves_nothing(s) {
        let map = s.post(&format!("{}?dryRun=All", s.core("configmaps")), &config_map("a")).await?.expect(201)?;
        holds!(map["metadata"]["uid"].is_string(), "{map}");
        same!(s.get(&s.core("configmaps/a")).await?.code, 404);
    }
    a_dry_run_of_an_update_changes_nothing(s) {
        let old = s.config_map("a").await?;
        let mut body = config_map("a");
        body["data"]["key"] = json!("2");
        let answer = s.put(&format!("{}?dryRun=All", s.core("configmaps/a")), &body).await?.expect(200)?;
        same!(answer["data"]["key"], "2");
        same!(s.get(&s.core("configmaps/a")).await?.expect(200)?, old);
    }
    a_dry_run_of_deletion_deletes_nothing(s) {
        s.config_map("a").await?;
        s.delete(&format!("{}?dryRun=All", s.core("configmaps/a"))).await?.expect(200)?;
        same!(s.get(&s.core("configmaps/a")).await?.code, 200);
    }
    a_dry_run_of_an_unknown_sort_is_refused(s) {
        let answer = s.post(&format!("{}?dryRun=Some", s.core("configmaps")), &config_map("a")).await?;
        let message = answer.refused(422, "Invalid")?;
        holds!(message.contains("dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""), "{message}");
    }
    the_generation_counts_changes_of_the_spec(s) {
        let path = s.path("apps/v1", "deployments");
        let first = s.post(&path, &deployment("a")).await?.expect(201)?;
        same!(first["metadata"]["generation"], 1);
        let labelled = s.patch(&format!("{path}/a"), super::wire::MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await?.expect(200)?;
        same!(labelled["metadata"]["generation"], 1);
        let scaled = s.patch(&format!("{path}/a"), super::wire::MERGE, &json!({"spec": {"replicas": 3}})).await?.expect(200)?;
        same!(scaled["metadata"]["generation"], 2);
    }
    a_status_is_not_written_with_its_object(s) {
        let path = s.path("apps/v1", "deployments");
        let mut body = deployment("a");
        body["status"] = json!({"replicas": 7});
        let created = s.post(&path, &body).await?.expect(201)?;
        same!(created["status"], json!({}));
        let patched = s.patch(&format!("{path}/a"), super::wire::MERGE, &json!({"status": {"replicas": 7}})).await?.expect(200)?;
        same!(patched["status"], json!({}));
    }
    the_status_endpoint_writes_nothing_else(s) {
        let path = s.path("apps/v1", "deployments");
        s.post(&path, &deployment("a")).await?.expect(201)?;
        let patch = json!({"spec": {"replicas": 9}, "status": {"observedGeneration": 1, "replicas": 1}});
        let answer = s.patch(&format!("{path}/a/status"), super::wire::MERGE, &patch).await?.expect(200)?;
        same!((&answer["spec"]["replicas"], &answer["status"]["replicas"]), (&json!(1), &json!(1)));
        same!(answer["metadata"]["generation"], 1);
    }
    a_label_that_breaks_the_rules_is_refused(s) {
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"good": "not good"});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(422, "Invalid")?;
        holds!(message.starts_with("ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"not good\": a valid label must be an empty string or consist of"), "{message}");
    }
    a_writer_is_remembered_by_its_field_manager(s) {
        let map = s.post(&format!("{}?fieldManager=somebody", s.core("configmaps")), &config_map("a")).await?.expect(201)?;
        let entry = &map["metadata"]["managedFields"][0];
        same!((&entry["manager"], &entry["operation"], &entry["apiVersion"]), (&json!("somebody"), &json!("Update"), &json!("v1")));
        same!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:key": {}}}));
        same!(entry["fieldsType"], "FieldsV1");
    }
    an_immutable_config_map_cannot_change(s) {
        let mut body = config_map("a");
        body["immutable"] = json!(true);
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        body["data"]["key"] = json!("2");
        let message = s.put(&s.core("configmaps/a"), &body).await?.refused(422, "Invalid")?;
        same!(message, "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set");
    }
    the_creation_time_cannot_be_changed(s) {
        let old = s.config_map("a").await?;
        let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}});
        let new = s.patch(&s.core("configmaps/a"), super::wire::MERGE, &patch).await?.expect(200)?;
        same!(new["metadata"]["creationTimestamp"], old["metadata"]["creationTimestamp"]);
    }
}
