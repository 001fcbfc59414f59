//! Shapes of requests and answers: tables, metadata only, YAML, compression, and bodies that cannot be read.

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{JSON, TABLE, config_map};

const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn columns(table: &Value) -> Vec<&str> {
    table["columnDefinitions"].as_array().into_iter().flatten().filter_map(|column| column["name"].as_str()).collect()
}

/// A pod that asks for this much.
fn asking(resources: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [
        {"name": "one", "image": "a", "resources": resources}]}})
}

behaviours! {
    quantities_are_shown_in_their_own_form(s) {
        let asked = json!({"requests": {"cpu": "0.5", "memory": "1024Mi", "ephemeral-storage": 1000}, "limits": {"cpu": 2, "memory": "1.5Gi", "ephemeral-storage": "1e3"}});
        let pod = s.post(&s.core("pods"), &asking(asked)).await?.expect(201)?;
        same!(pod["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1k"}, "limits": {"cpu": "2", "memory": "1536Mi", "ephemeral-storage": "1e3"}}));
    }
    a_quantity_that_is_none_is_refused(s) {
        let message = s.post(&s.core("pods"), &asking(json!({"limits": {"cpu": "much"}}))).await?.refused(400, "BadRequest")?;
        same!(message, "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
        let message = s.post(&s.core("pods"), &asking(json!({"limits": {"cpu": "1mk"}}))).await?.refused(400, "BadRequest")?;
        same!(message, "Pod in version \"v1\" cannot be handled as a Pod: unable to parse quantity's suffix");
    }
    a_limit_on_an_empty_folder_is_a_quantity_too(s) {
        let mut pod = asking(json!({}));
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": "0.5Gi"}}]);
        let pod = s.post(&s.core("pods"), &pod).await?.expect(201)?;
        same!(pod["spec"]["volumes"][0]["emptyDir"], json!({"sizeLimit": "512Mi"}));
    }
    the_same_quantity_written_otherwise_changes_nothing(s) {
        let pod = s.post(&s.core("pods"), &asking(json!({"limits": {"cpu": "500m"}}))).await?.expect(201)?;
        let mut again = pod.clone();
        again["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("0.500");
        again["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("0.5");
        let put = s.put(&s.core("pods/a"), &again).await?.expect(200)?;
        same!(put["metadata"]["resourceVersion"], pod["metadata"]["resourceVersion"]);
    }
    a_table_of_config_maps_counts_their_data(s) {
        s.config_map("a").await?;
        let table = s.get_as(&s.core("configmaps/a"), TABLE).await?.expect(200)?;
        same!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        same!(columns(&table), ["Name", "Data", "Age"]);
        same!(table["rows"][0]["cells"][1], 1);
        same!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }
    a_table_can_leave_its_objects_out(s) {
        s.config_map("a").await?;
        let table = s.get_as(&format!("{}?includeObject=None", s.core("configmaps")), TABLE).await?.expect(200)?;
        same!(table["rows"][0]["object"], Value::Null);
    }
    a_table_can_carry_whole_objects(s) {
        s.config_map("a").await?;
        let table = s.get_as(&format!("{}?includeObject=Object", s.core("configmaps/a")), TABLE).await?.expect(200)?;
        same!(table["rows"][0]["object"]["data"]["key"], "value");
    }
    a_table_of_nodes_has_the_columns_people_know(s) {
        let table = s.get_as("/api/v1/nodes", TABLE).await?.expect(200)?;
        same!(columns(&table), ["Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"]);
    }
    a_table_of_pods_has_the_columns_people_know(s) {
        let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &body).await?.expect(201)?;
        let table = s.get_as(&s.core("pods"), TABLE).await?.expect(200)?;
        same!(columns(&table), ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]);
        same!(table["rows"][0]["cells"][1], "0/1");
        same!(table["rows"][0]["cells"][2], "Pending");
    }
    a_table_of_deployments_shows_their_replicas(s) {
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let table = s.get_as(&s.path("apps/v1", "deployments"), TABLE).await?.expect(200)?;
        same!(columns(&table), ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"]);
        same!(table["rows"][0]["cells"][1], "0/1");
    }
    metadata_can_be_read_alone(s) {
        s.config_map("a").await?;
        let object = s.get_as(&s.core("configmaps/a"), METADATA).await?.expect(200)?;
        same!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
        same!((&object["metadata"]["name"], &object["data"]), (&json!("a"), &Value::Null));
    }
    metadata_can_be_listed_alone(s) {
        s.config_map("a").await?;
        let list = s.get_as(&format!("{}?fieldSelector=metadata.name=a", s.core("configmaps")), METADATA_LIST).await?.expect(200)?;
        same!(list["kind"], "PartialObjectMetadataList");
        same!((&list["items"][0]["metadata"]["name"], &list["items"][0]["data"]), (&json!("a"), &Value::Null));
    }
    an_unknown_accept_is_not_acceptable(s) {
        let answer = s.get_as(&s.core("configmaps"), "text/toml").await?;
        let message = answer.refused(406, "NotAcceptable")?;
        holds!(message.starts_with("406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"), "{message}");
    }
    the_first_acceptable_type_wins(s) {
        s.config_map("a").await?;
        let object = s.get_as(&s.core("configmaps/a"), "text/toml, application/json").await?.expect(200)?;
        same!(object["kind"], "ConfigMap");
    }
    yaml_can_be_asked_for(s) {
        s.config_map("a").await?;
        let answer = s.get_as(&s.core("configmaps/a"), "application/yaml").await?;
        same!((answer.code, answer.header("content-type")), (200, "application/yaml"));
        holds!(answer.text.contains("kind: ConfigMap\n"), "{answer:?}");
    }
    yaml_can_be_sent(s) {
        let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: value\n";
        let answer = s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", "application/yaml")], body.into()).await?;
        same!(answer.expect(201)?["data"]["key"], "value");
    }
    a_body_without_a_type_is_json(s) {
        let answer = s.send(Method::POST, &s.core("configmaps"), &[], config_map("a").to_string().into_bytes()).await?;
        answer.expect(201)?;
    }
    a_body_of_an_unknown_type_is_refused(s) {
        let answer = s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", "text/toml")], b"a=1".to_vec()).await?;
        let message = answer.refused(415, "UnsupportedMediaType")?;
        holds!(message.starts_with("the body of the request was in an unknown format - accepted media types include: application/json"), "{message}");
    }
    json_that_does_not_parse_is_refused(s) {
        let answer = s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", JSON)], b"{\"kind\": ".to_vec()).await?;
        let message = answer.refused(400, "BadRequest")?;
        holds!(message.contains("couldn't get version/kind; json parse error"), "{message}");
    }
    an_empty_body_is_refused(s) {
        let answer = s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", JSON)], Vec::new()).await?;
        same!(answer.code, 400);
    }
    a_body_of_another_kind_is_refused(s) {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(400, "BadRequest")?;
        same!(message, "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion");
    }
    a_body_of_another_version_is_refused(s) {
        let body = json!({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        same!(s.post(&s.core("configmaps"), &body).await?.code, 400);
    }
    a_field_of_the_wrong_type_is_refused(s) {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": 7}});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(400, "BadRequest")?;
        holds!(message.contains("json: cannot unmarshal number into Go struct field ConfigMap.data of type string"), "{message}");
    }
    a_body_over_the_limit_is_refused(s) {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "x".repeat(4 << 20)}});
        let answer = s.post(&s.core("configmaps"), &body).await?;
        same!((answer.code, answer.body["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
        same!(answer.body["message"], "Request entity too large: limit is 3145728");
    }
    an_unknown_method_is_refused(s) {
        let answer = s.send(Method::POST, &s.core("configmaps/a"), &[("Content-Type", JSON)], config_map("a").to_string().into_bytes()).await?;
        let message = answer.refused(405, "MethodNotAllowed")?;
        same!(message, "the server does not allow this method on the requested resource");
    }
    a_put_on_a_collection_is_refused(s) {
        s.put(&s.core("configmaps"), &config_map("a")).await?.refused(405, "MethodNotAllowed")?;
    }
    an_unknown_subresource_is_not_found(s) {
        s.config_map("a").await?;
        same!(s.get(&s.core("configmaps/a/nothing")).await?.code, 404);
    }
    a_large_answer_is_compressed_when_asked(s) {
        let mut body = config_map("a");
        body["data"]["big"] = json!("x".repeat(300_000));
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let answer = s.send(Method::HEAD, &s.core("configmaps/a"), &[], Vec::new()).await?;
        holds!(answer.code == 200 || answer.code == 405, "{answer:?}");
        let answer = s.compressed(&s.core("configmaps/a")).await?;
        same!(answer, "gzip");
    }
    strict_validation_refuses_unknown_fields(s) {
        let mut body = config_map("a");
        body["color"] = json!("red");
        let message = s.post(&format!("{}?fieldValidation=Strict", s.core("configmaps")), &body).await?.refused(400, "BadRequest")?;
        same!(message, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"color\"");
    }
    by_default_unknown_fields_are_warned_about_and_dropped(s) {
        let mut body = config_map("a");
        body["color"] = json!("red");
        let answer = s.post(&s.core("configmaps"), &body).await?;
        same!(answer.header("warning"), "299 - \"unknown field \\\"color\\\"\"");
        holds!(answer.expect(201)?.get("color").is_none(), "color is kept");
    }
    ignored_validation_is_silent(s) {
        let mut body = config_map("a");
        body["color"] = json!("red");
        let answer = s.post(&format!("{}?fieldValidation=Ignore", s.core("configmaps")), &body).await?;
        same!((answer.code, answer.header("warning")), (201, ""));
    }
    strict_validation_refuses_duplicate_fields(s) {
        let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
        let path = format!("{}?fieldValidation=Strict", s.core("configmaps"));
        let answer = s.send(Method::POST, &path, &[("Content-Type", JSON)], body.into()).await?;
        let message = answer.refused(400, "BadRequest")?;
        holds!(message.ends_with("strict decoding error: duplicate field \"data.k\""), "{message}");
    }
    an_unknown_validation_is_refused(s) {
        let answer = s.post(&format!("{}?fieldValidation=Maybe", s.core("configmaps")), &config_map("a")).await?;
        let message = answer.refused(422, "Invalid")?;
        holds!(message.contains("fieldValidation: Unsupported value: \"Maybe\": supported values: \"Ignore\", \"Strict\", \"Warn\"") || message.contains("fieldValidation: Unsupported value: \"Maybe\""), "{message}");
    }
    every_answer_names_its_type(s) {
        s.config_map("a").await?;
        let answer = s.get(&s.core("configmaps/a")).await?;
        same!(answer.header("content-type"), "application/json");
        holds!(!answer.header("audit-id").is_empty(), "{:?}", answer.headers);
    }
}
