//! Mistakes of clients, and the exact words they are answered with.

use anyhow::Result;
use reqwest::Method;

use serde_json::json;

use super::definitions::{crd, establish};
use super::wire::{APPLY, Scope, config_map};

const YAML: &str = "application/yaml";

/// The refusal of a list of config maps with this query.
async fn list(s: &Scope, query: &str) -> Result<String> {
    s.get(&format!("{}?{query}", s.core("configmaps"))).await?.refused(400, "BadRequest")
}

async fn post_yaml(s: &Scope, text: &str) -> Result<String> {
    let body = text.as_bytes().to_vec();
    s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", YAML)], body).await?.refused(400, "BadRequest")
}

async fn apply(s: &Scope, text: &str) -> Result<String> {
    let path = s.core("configmaps/a?fieldManager=me");
    let body = text.as_bytes().to_vec();
    s.send(Method::PATCH, &path, &[("Content-Type", APPLY)], body).await?.refused(400, "BadRequest")
}

behaviours! {
    yaml_that_does_not_parse_is_refused(s) {
        let message = post_yaml(&s, "a: [1").await?;
        holds!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): yaml: line 1: ") && message.ends_with(" (613a205b31)"), "{message}");
        let message = post_yaml(&s, "a:\n\t- b").await?;
        holds!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): yaml: line 2: "), "{message}");
    }
    yaml_that_is_no_object_is_refused(s) {
        let message = post_yaml(&s, "- a").await?;
        same!(message, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (2d2061)");
        let message = post_yaml(&s, "just text").await?;
        holds!(message.contains("json: cannot unmarshal string into Go value of type struct"), "{message}");
    }
    applied_yaml_that_does_not_parse_is_refused(s) {
        let message = apply(&s, "a: [1").await?;
        holds!(message.starts_with("error decoding YAML: error converting YAML to JSON: yaml: line 1: "), "{message}");
    }
    applied_yaml_that_is_no_object_is_refused(s) {
        same!(apply(&s, "- 1").await?, "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}");
    }
    a_set_that_does_not_end_is_refused(s) {
        same!(list(&s, "labelSelector=a%20in%20(").await?, "unable to parse requirement: found '', expected: ',', ')' or identifier");
    }
    a_comparison_with_too_many_signs_is_refused(s) {
        same!(list(&s, "labelSelector=a%3D%3D%3Db").await?, "unable to parse requirement: found '=', expected: identifier");
    }
    a_selector_of_a_label_that_cannot_be_is_refused(s) {
        let message = list(&s, "labelSelector=-bad").await?;
        holds!(message.starts_with("unable to parse requirement: <nil>: Invalid value: \"-bad\": name part must consist of"), "{message}");
    }
    a_field_without_a_comparison_is_refused(s) {
        same!(list(&s, "fieldSelector=metadata.name").await?, "invalid selector: 'metadata.name'; can't understand 'metadata.name'");
    }
    a_field_that_config_maps_do_not_have_is_refused(s) {
        same!(list(&s, "fieldSelector=x%3Dy").await?, "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    a_limit_that_is_no_number_is_refused(s) {
        same!(list(&s, "limit=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
    a_limit_below_zero_is_none(s) {
        s.config_map("a").await?;
        let list = s.get(&s.core("configmaps?limit=-1&fieldSelector=metadata.name%3Da")).await?.expect(200)?;
        same!(list["items"].as_array().map(Vec::len), Some(1));
    }
    a_timeout_that_is_no_number_is_refused(s) {
        same!(list(&s, "timeoutSeconds=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
        same!(list(&s, "watch=true&timeoutSeconds=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
    a_token_that_is_no_base64_is_refused(s) {
        same!(list(&s, "continue=!!!").await?, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0");
    }
    a_version_below_zero_is_refused(s) {
        same!(list(&s, "resourceVersion=-1").await?, "invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax");
    }
    any_version_is_no_exact_version(s) {
        let path = s.core("configmaps?resourceVersion=0&resourceVersionMatch=Exact");
        let message = s.get(&path).await?.refused(422, "Invalid")?;
        same!(message, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    a_watch_from_the_future_waits_for_it(s) {
        let future = s.core("configmaps?watch=true&resourceVersion=99999999&timeoutSeconds=2");
        let mut watch = s.watch(&future).await?;
        s.config_map("a").await?;
        same!(watch.next().await?, None);
    }
    a_watch_of_one_object_hears_of_no_other(s) {
        let made = s.config_map("a").await?;
        let path = format!("configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={}", super::wire::version(&made));
        let mut watch = s.watch(&s.core(&path)).await?;
        s.config_map("b").await?;
        s.patch(&s.core("configmaps/a"), super::wire::MERGE, &serde_json::json!({"data": {"x": "y"}})).await?.expect(200)?;
        same!(watch.expect("MODIFIED").await?["data"]["x"], "y");
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        same!(watch.expect("DELETED").await?["metadata"]["name"], "a");
        s.config_map("a").await?;
        same!(watch.expect("ADDED").await?["metadata"]["name"], "a");
    }
    a_watch_of_one_object_hears_what_happened_since(s) {
        let made = s.config_map("a").await?;
        s.patch(&s.core("configmaps/a"), super::wire::MERGE, &serde_json::json!({"data": {"x": "1"}})).await?.expect(200)?;
        s.config_map("b").await?;
        s.patch(&s.core("configmaps/a"), super::wire::MERGE, &serde_json::json!({"data": {"x": "2"}})).await?.expect(200)?;
        let path = format!("configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={}", super::wire::version(&made));
        let mut watch = s.watch(&s.core(&path)).await?;
        same!(watch.expect("MODIFIED").await?["data"]["x"], "1");
        same!(watch.expect("MODIFIED").await?["data"]["x"], "2");
    }
    an_object_without_the_namespace_it_needs_is_nowhere(s) {
        s.config_map("a").await?;
        for path in ["/api/v1/configmaps/a", "/api/v1/pods/a/log", "/api/v1/pods/a/status", "/apis/rbac.authorization.k8s.io/v1/roles/a"] {
            let message = s.get(path).await?.refused(404, "NotFound")?;
            same!(message, "the server could not find the requested resource");
        }
        s.delete("/api/v1/configmaps/a").await?.refused(404, "NotFound")?;
        s.post("/api/v1/configmaps", &config_map("b")).await?.refused(405, "MethodNotAllowed")?;
        s.delete("/api/v1/configmaps").await?.refused(405, "MethodNotAllowed")?;
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        for path in [format!("/apis/{group}/v1/{plural}/a"), format!("/apis/{group}/v1/{plural}/a/status")] {
            let answer = s.get(&path).await?;
            same!((answer.code, answer.text.trim()), (404, "404 page not found"));
        }
        let answer = s.post(&format!("/apis/{group}/v1/{plural}"), &json!({})).await?;
        same!((answer.code, answer.text.trim()), (404, "404 page not found"));
    }
}
