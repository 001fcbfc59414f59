//! Lists: selectors, pages, versions.

use anyhow::Result;
use serde_json::{Value, json};

use super::wire::{Scope, version};

/// Three maps: a (tier=web), b (tier=db), c (no tier).
async fn three(s: &Scope) -> Result<()> {
    for (name, labels) in [("a", json!({"tier": "web"})), ("b", json!({"tier": "db"})), ("c", json!({}))] {
        let mut body = super::wire::config_map(name);
        body["metadata"]["labels"] = labels;
        body["metadata"]["labels"]["mine"] = json!("yes");
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
    }
    Ok(())
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .filter(|name| name.len() == 1)
        .map(str::to_owned)
        .collect()
}

async fn select(s: &Scope, query: &str) -> Result<Vec<String>> {
    Ok(names(&s.get(&format!("{}?{query}", s.core("configmaps"))).await?.expect(200)?))
}

behaviours! {
    a_list_has_a_kind_a_version_and_its_items_in_order(s) {
        three(&s).await?;
        let list = s.get(&s.core("configmaps")).await?.expect(200)?;
        same!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
        holds!(version(&list).parse::<u64>().is_ok(), "{}", list["metadata"]);
        same!(names(&list), ["a", "b", "c"]);
        holds!(list["items"][0].get("kind").is_none(), "{}", list["items"][0]);
    }
    an_empty_list_has_items(s) {
        let list = s.get(&s.core("secrets")).await?.expect(200)?;
        same!(list["items"], json!([]));
    }
    labels_select_by_equality(s) {
        three(&s).await?;
        same!(select(&s, "labelSelector=tier=web").await?, ["a"]);
        same!(select(&s, "labelSelector=tier==db").await?, ["b"]);
        same!(select(&s, "labelSelector=mine=yes,tier!=web").await?, ["b", "c"]);
    }
    labels_select_by_sets(s) {
        three(&s).await?;
        same!(select(&s, "labelSelector=tier%20in%20(web,db)").await?, ["a", "b"]);
        same!(select(&s, "labelSelector=mine,tier%20notin%20(web)").await?, ["b", "c"]);
    }
    labels_select_by_presence(s) {
        three(&s).await?;
        same!(select(&s, "labelSelector=tier").await?, ["a", "b"]);
        same!(select(&s, "labelSelector=mine,!tier").await?, ["c"]);
    }
    a_selector_that_cannot_be_read_is_refused(s) {
        let message = s.get(&format!("{}?labelSelector=a=b=c", s.core("configmaps"))).await?.refused(400, "BadRequest")?;
        holds!(message.starts_with("unable to parse requirement: found '=', expected: ',' or 'end of string'") || message.contains("found '='"), "{message}");
    }
    fields_select_by_name(s) {
        three(&s).await?;
        same!(select(&s, "fieldSelector=metadata.name=b").await?, ["b"]);
        let others = select(&s, "labelSelector=mine&fieldSelector=metadata.name!=b").await?;
        same!(others, ["a", "c"]);
    }
    fields_select_by_namespace(s) {
        three(&s).await?;
        let list = s.get(&format!("/api/v1/configmaps?labelSelector=mine&fieldSelector=metadata.namespace={}", s.namespace)).await?.expect(200)?;
        same!(names(&list), ["a", "b", "c"]);
    }
    a_field_that_cannot_be_selected_is_refused(s) {
        let message = s.get(&format!("{}?fieldSelector=data.key=x", s.core("configmaps"))).await?.refused(400, "BadRequest")?;
        same!(message, "\"data.key\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    a_list_across_namespaces_has_all(s) {
        three(&s).await?;
        let list = s.get("/api/v1/configmaps?labelSelector=mine").await?.expect(200)?;
        let own = list["items"].as_array().into_iter().flatten().filter(|item| item["metadata"]["namespace"] == s.namespace.as_str());
        same!(own.count(), 3);
    }
    a_list_comes_in_pages(s) {
        three(&s).await?;
        let path = format!("{}?labelSelector=mine&limit=2", s.core("configmaps"));
        let first = s.get(&path).await?.expect(200)?;
        same!(names(&first), ["a", "b"]);
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        holds!(!token.is_empty(), "{}", first["metadata"]);
        let second = s.get(&format!("{path}&continue={token}")).await?.expect(200)?;
        same!(names(&second), ["c"]);
        same!(second["metadata"]["continue"], Value::Null);
        same!(version(&second), version(&first));
    }
    a_page_tells_how_many_are_left(s) {
        for name in ["a", "b", "c"] {
            s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})).await?.expect(201)?;
        }
        let list = s.get(&format!("{}?limit=1", s.core("secrets"))).await?.expect(200)?;
        same!(list["metadata"]["remainingItemCount"], 2);
        // Later pages count on, also while the objects they come from change.
        let token = list["metadata"]["continue"].as_str().unwrap_or_default();
        let second = s.get(&format!("{}?limit=1&continue={token}", s.core("secrets"))).await?.expect(200)?;
        same!((&second["metadata"]["remainingItemCount"], second["items"][0]["metadata"]["name"].as_str()), (&json!(1), Some("b")));
        let token = second["metadata"]["continue"].as_str().unwrap_or_default();
        let third = s.get(&format!("{}?limit=1&continue={token}", s.core("secrets"))).await?.expect(200)?;
        same!((&third["metadata"]["remainingItemCount"], &third["metadata"]["continue"]), (&Value::Null, &Value::Null));
        s.patch(&s.core("secrets/a"), super::wire::MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await?.expect(200)?;
        let list = s.get(&format!("{}?limit=1&labelSelector=x", s.core("secrets"))).await?.expect(200)?;
        same!(list["metadata"]["remainingItemCount"], Value::Null);
    }
    later_pages_show_the_state_of_the_first(s) {
        three(&s).await?;
        let path = format!("{}?labelSelector=mine&limit=2", s.core("configmaps"));
        let first = s.get(&path).await?.expect(200)?;
        s.delete(&s.core("configmaps/c")).await?.expect(200)?;
        let token = first["metadata"]["continue"].as_str().unwrap_or_default();
        same!(names(&s.get(&format!("{path}&continue={token}")).await?.expect(200)?), ["c"]);
    }
    a_continue_token_that_cannot_be_read_is_refused(s) {
        let message = s.get(&format!("{}?limit=1&continue=nonsense", s.core("configmaps"))).await?.refused(400, "BadRequest")?;
        holds!(message.starts_with("invalid continue token: continue key is not valid:"), "{message}");
    }
    a_list_of_any_version_answers(s) {
        s.get(&format!("{}?resourceVersion=0", s.core("configmaps"))).await?.expect(200)?;
    }
    a_list_at_an_exact_version_shows_that_state(s) {
        three(&s).await?;
        let at = version(&s.get(&s.core("configmaps")).await?.expect(200)?);
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        let list = select(&s, &format!("labelSelector=mine&resourceVersion={at}&resourceVersionMatch=Exact")).await?;
        same!(list, ["a", "b", "c"]);
    }
    a_list_not_older_than_a_version_is_at_least_that_new(s) {
        three(&s).await?;
        let at = version(&s.get(&s.core("configmaps")).await?.expect(200)?);
        let list = s.get(&format!("{}?resourceVersion={at}&resourceVersionMatch=NotOlderThan", s.core("configmaps"))).await?.expect(200)?;
        holds!(version(&list).parse::<u64>()? >= at.parse::<u64>()?, "{}", list["metadata"]);
    }
    a_list_from_the_future_times_out(s) {
        let answer = s.get(&format!("{}?resourceVersion=99999999", s.core("configmaps"))).await?;
        same!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        let message = answer.refused(504, "Timeout")?;
        holds!(message.starts_with("Timeout: Too large resource version: 99999999, current: "), "{message}");
    }
    a_match_without_a_version_is_refused(s) {
        let message = s.get(&format!("{}?resourceVersionMatch=Exact", s.core("configmaps"))).await?.refused(422, "Invalid")?;
        holds!(message.contains("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"), "{message}");
    }
    an_unknown_match_is_refused(s) {
        let message = s.get(&format!("{}?resourceVersion=1&resourceVersionMatch=Nearly", s.core("configmaps"))).await?.refused(422, "Invalid")?;
        holds!(message.contains("resourceVersionMatch: Unsupported value: \"Nearly\": supported values: \"Exact\", \"NotOlderThan\""), "{message}");
    }
    a_version_that_is_no_number_is_refused(s) {
        let answer = s.get(&format!("{}?resourceVersion=abc", s.core("configmaps"))).await?;
        holds!(answer.code == 400 && answer.text.contains("Invalid value: \\\"abc\\\""), "{answer:?}");
    }
    a_collection_is_deleted_by_selector(s) {
        three(&s).await?;
        s.delete(&format!("{}?labelSelector=tier", s.core("configmaps"))).await?.expect(200)?;
        same!(select(&s, "labelSelector=mine").await?, ["c"]);
    }
    pods_are_selected_by_their_node(s) {
        for (name, node) in [("a", "node-1"), ("b", "node-2")] {
            let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
            s.post(&s.core("pods"), &body).await?.expect(201)?;
        }
        let list = s.get(&format!("{}?fieldSelector=spec.nodeName=node-1", s.core("pods"))).await?.expect(200)?;
        same!(names(&list), ["a"]);
        let list = s.get(&format!("{}?fieldSelector=spec.nodeName!=node-1,status.phase!=Succeeded", s.core("pods"))).await?.expect(200)?;
        same!(names(&list), ["b"]);
    }
}
