//! Watches: events, where they start, how they end.

use serde_json::{Value, json};

use super::wire::{MERGE, config_map, version};

behaviours! {
    a_watch_tells_of_creation_change_and_deletion(s) {
        let at = version(&s.get(&s.core("configmaps")).await?.expect(200)?);
        let mut watch = s.watch(&format!("{}?watch=true&resourceVersion={at}&fieldSelector=metadata.name=a", s.core("configmaps"))).await?;
        let created = s.config_map("a").await?;
        same!(watch.expect("ADDED").await?, created);
        let changed = s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"key": "2"}})).await?.expect(200)?;
        same!(watch.expect("MODIFIED").await?, changed);
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        let gone = watch.expect("DELETED").await?;
        same!(gone["data"]["key"], "2");
        holds!(version(&gone).parse::<u64>()? > version(&changed).parse::<u64>()?, "{gone}");
    }
    objects_in_events_carry_their_kind(s) {
        s.config_map("a").await?;
        let mut watch = s.watch(&format!("{}?watch=true&resourceVersion=0&fieldSelector=metadata.name=a", s.core("configmaps"))).await?;
        let object = watch.expect("ADDED").await?;
        same!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    }
    a_watch_from_a_version_tells_what_happened_since(s) {
        let first = s.config_map("a").await?;
        s.config_map("b").await?;
        let mut watch = s.watch(&format!("{}?watch=true&resourceVersion={}", s.core("configmaps"), version(&first))).await?;
        loop {
            let object = watch.expect("ADDED").await?;
            if object["metadata"]["name"] == "b" { break }
            holds!(object["metadata"]["name"] != "a", "a is not after itself");
        }
    }
    a_watch_without_a_version_starts_with_what_there_is(s) {
        s.config_map("a").await?;
        let mut watch = s.watch(&format!("{}?watch=true&fieldSelector=metadata.name=a", s.core("configmaps"))).await?;
        same!(watch.expect("ADDED").await?["metadata"]["name"], "a");
    }
    a_label_that_goes_is_a_deletion_to_those_who_select_it(s) {
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"w": "1"});
        let created = s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let mut watch = s.watch(&format!("{}?watch=true&labelSelector=w=1&resourceVersion={}", s.core("configmaps"), version(&created))).await?;
        let patched = s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"labels": {"w": null}}})).await?.expect(200)?;
        let gone = watch.expect("DELETED").await?;
        same!(version(&gone), version(&patched));
        same!(gone["metadata"]["labels"]["w"], "1");
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"labels": {"w": "1"}}})).await?.expect(200)?;
        watch.expect("ADDED").await?;
    }
    a_watch_ends_when_its_time_is_over(s) {
        let mut watch = s.watch(&format!("{}?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name=none", s.core("configmaps"))).await?;
        same!(watch.next().await?, None);
    }
    initial_events_end_with_a_bookmark(s) {
        s.config_map("a").await?;
        let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=a";
        let mut watch = s.watch(&format!("{}?{query}", s.core("configmaps"))).await?;
        let (kind, object) = watch.event().await?;
        // A real server whose etcd is too old for progress notifications says so instead, and clients fall back.
        if kind == "ERROR" && object["message"].as_str().is_some_and(|text| text.contains("RequestWatchProgress is disabled")) {
            return Ok(());
        }
        same!((kind.as_str(), &object["metadata"]["name"]), ("ADDED", &json!("a")));
        let bookmark = watch.expect("BOOKMARK").await?;
        same!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        holds!(version(&bookmark).parse::<u64>().is_ok(), "{bookmark}");
        same!(bookmark["kind"], "ConfigMap");
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"key": "2"}})).await?.expect(200)?;
        watch.expect("MODIFIED").await?;
    }
    initial_events_need_a_match(s) {
        let answer = s.get(&format!("{}?watch=true&sendInitialEvents=true", s.core("configmaps"))).await?;
        let message = answer.refused(422, "Invalid")?;
        holds!(message.contains("resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"), "{message}");
    }
    a_match_is_refused_on_an_ordinary_watch(s) {
        let answer = s.get(&format!("{}?watch=true&resourceVersion=1&resourceVersionMatch=Exact", s.core("configmaps"))).await?;
        let message = answer.refused(422, "Invalid")?;
        holds!(message.contains("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"), "{message}");
    }
    a_watch_from_a_version_that_is_no_number_is_refused(s) {
        let answer = s.get(&format!("{}?watch=true&resourceVersion=abc", s.core("configmaps"))).await?;
        same!(answer.code, 500);
        same!(answer.body["message"], "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax");
    }
    a_watch_of_tables_sends_rows(s) {
        s.config_map("a").await?;
        let mut watch = s.watch_as(&format!("{}?watch=true&fieldSelector=metadata.name=a", s.core("configmaps")), super::wire::TABLE).await?;
        let table = watch.expect("ADDED").await?;
        same!(table["kind"], "Table");
        same!(table["rows"][0]["cells"][0], "a");
        holds!(table["columnDefinitions"].is_array(), "{table}");
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"second": "2"}})).await?.expect(200)?;
        let table = watch.expect("MODIFIED").await?;
        same!(table["rows"][0]["cells"][1], 2);
        same!(table["columnDefinitions"], Value::Null);
    }
    a_watch_of_metadata_sends_metadata(s) {
        s.config_map("a").await?;
        let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let mut watch = s.watch_as(&format!("{}?watch=true&fieldSelector=metadata.name=a", s.core("configmaps")), accept).await?;
        let object = watch.expect("ADDED").await?;
        same!((&object["kind"], &object["data"]), (&json!("PartialObjectMetadata"), &Value::Null));
    }
    custom_objects_are_watched_too(s) {
        let (group, plural) = super::definitions::establish(&s, super::definitions::crd(&s, json!({}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let mut watch = s.watch(&format!("{path}?watch=true&resourceVersion=0")).await?;
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}, "spec": {}});
        let created = s.post(&path, &body).await?.expect(201)?;
        same!(watch.expect("ADDED").await?, created);
    }
    a_finalised_deletion_is_a_change_first(s) {
        let mut body = config_map("a");
        body["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let created = s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let mut watch = s.watch(&format!("{}?watch=true&resourceVersion={}&fieldSelector=metadata.name=a", s.core("configmaps"), version(&created))).await?;
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        holds!(watch.expect("MODIFIED").await?["metadata"]["deletionTimestamp"].is_string(), "no deletionTimestamp");
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        let (kind, _) = watch.event().await?;
        same!(kind, "DELETED");
    }
}
