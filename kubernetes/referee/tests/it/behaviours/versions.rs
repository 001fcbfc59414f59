//! Custom kinds in several versions: converted by their definition's webhook, or in name only.

use anyhow::Result;
use serde_json::{Value, json};

use super::definitions::{CRDS, establish};
use super::hook::{Hook, Reply};
use super::wire::{APPLY, JSON_PATCH, MERGE, Scope, version};

/// What v1 calls `size`, v2 calls `count`. Some paths do it wrong.
fn convert(path: &str, review: &Value) -> Reply {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned();
    let (from, to) = if wanted.ends_with("/v2") { ("size", "count") } else { ("count", "size") };
    let objects: Vec<Value> = request["objects"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = json!(wanted);
            if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
                object["spec"][to] = value;
            }
            match path {
                "/label" => object["metadata"]["labels"]["converted"] = json!("yes"),
                "/name" => object["metadata"]["name"] = json!("other"),
                "/kind" => object["kind"] = json!("Other"),
                "/version" => object["apiVersion"] = json!("x/v9"),
                _ => {}
            }
            object
        })
        .collect();
    let mut response = json!({"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}});
    match path {
        "/fail" => response["result"] = json!({"status": "Failure", "message": "cannot do it"}),
        "/none" => response["convertedObjects"] = json!([]),
        "/broken" => return Reply::Code(500),
        _ => {}
    }
    Reply::Review(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))
}

fn definition(s: &Scope, conversion: Value) -> Value {
    let schema = |field: &str| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
        "properties": {field: {"type": "integer"}, "made": {"type": "string", "default": field}}}}}})
    };
    let group = format!("{}.example.com", s.unique("v"));
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "conversion": conversion,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema("size")},
                {"name": "v2", "served": true, "storage": false, "schema": schema("count")}]}})
}

fn webhook(hook: &Hook, path: &str) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": hook.url(path), "caBundle": hook.authority}}})
}

/// A kind whose versions a webhook converts, with one object `a` of size 1; returns the paths of its two versions.
async fn converted(s: &Scope, path: &str) -> Result<(Hook, String, [String; 2])> {
    let hook = Hook::start(&[], convert).await?;
    let (group, paths) = kind(s, webhook(&hook, path)).await?;
    Ok((hook, group, paths))
}

async fn kind(s: &Scope, conversion: Value) -> Result<(String, [String; 2])> {
    let (group, plural) = establish(s, definition(s, conversion)).await?;
    let paths = ["v1", "v2"].map(|version| s.path(&format!("{group}/{version}"), &plural));
    s.post(&paths[0], &widget(&group, "v1", "a", json!({"size": 1}))).await?.expect(201)?;
    s.until(&paths[1], "the other version", |answer| answer.code != 404).await?;
    Ok((group, paths))
}

fn widget(group: &str, version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

behaviours! {
    a_webhook_converts_what_is_read(s) {
        let (_hook, group, [v1, v2]) = converted(&s, "/ok").await?;
        let object = s.get(&format!("{v2}/a")).await?.expect(200)?;
        same!((&object["apiVersion"], &object["spec"]), (&json!(format!("{group}/v2")), &json!({"count": 1, "made": "size"})));
        let list = s.get(&v2).await?.expect(200)?;
        same!((&list["apiVersion"], &list["items"][0]["spec"]["count"]), (&json!(format!("{group}/v2")), &json!(1)));
        same!(s.get(&format!("{v1}/a")).await?.expect(200)?["spec"]["size"], 1);
    }
    a_webhook_converts_what_is_written(s) {
        let (_hook, group, [v1, v2]) = converted(&s, "/ok").await?;
        let made = s.post(&v2, &widget(&group, "v2", "b", json!({"count": 5}))).await?.expect(201)?;
        same!(made["spec"], json!({"count": 5, "made": "count"}));
        same!(s.get(&format!("{v1}/b")).await?.expect(200)?["spec"], json!({"size": 5, "made": "count"}));
        let mut changed = made;
        changed["spec"]["count"] = json!(6);
        s.put(&format!("{v2}/b"), &changed).await?.expect(200)?;
        same!(s.get(&format!("{v1}/b")).await?.expect(200)?["spec"]["size"], 6);
    }
    a_patch_is_made_in_the_version_it_speaks(s) {
        let (_hook, _, [v1, v2]) = converted(&s, "/ok").await?;
        let patched = s.patch(&format!("{v2}/a"), MERGE, &json!({"spec": {"count": 7}})).await?.expect(200)?;
        same!((&patched["spec"]["count"], &patched["metadata"]["generation"]), (&json!(7), &json!(2)));
        let patched = s.patch(&format!("{v2}/a"), JSON_PATCH, &json!([{"op": "test", "path": "/spec/count", "value": 7}, {"op": "replace", "path": "/spec/count", "value": 8}])).await?.expect(200)?;
        same!(patched["spec"]["count"], 8);
        same!(s.get(&format!("{v1}/a")).await?.expect(200)?["spec"]["size"], 8);
    }
    an_apply_is_made_in_the_version_it_speaks(s) {
        let (_hook, group, [v1, v2]) = converted(&s, "/ok").await?;
        let applied = s.patch(&format!("{v2}/b?fieldManager=m"), APPLY, &widget(&group, "v2", "b", json!({"count": 7}))).await?.expect(201)?;
        same!(applied["metadata"]["managedFields"][0]["apiVersion"], format!("{group}/v2"));
        let again = s.patch(&format!("{v1}/b?fieldManager=m"), APPLY, &widget(&group, "v1", "b", json!({"size": 8}))).await?.expect(200)?;
        same!(again["spec"], json!({"size": 8, "made": "count"}));
        let managers = again["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        same!((managers.len(), &managers[0]["apiVersion"]), (1, &json!(format!("{group}/v1"))));
        s.patch(&format!("{v1}/b?fieldManager=n"), APPLY, &widget(&group, "v1", "b", json!({"size": 9}))).await?.refused(409, "Conflict")?;
    }
    a_watch_tells_in_the_version_it_speaks(s) {
        let (_hook, group, [v1, v2]) = converted(&s, "/ok").await?;
        let start = version(&s.get(&v2).await?.expect(200)?);
        let mut watch = s.watch(&format!("{v2}?watch=true&resourceVersion={start}")).await?;
        s.patch(&format!("{v1}/a"), MERGE, &json!({"spec": {"size": 3}})).await?.expect(200)?;
        let seen = watch.expect("MODIFIED").await?;
        same!((&seen["apiVersion"], &seen["spec"]["count"]), (&json!(format!("{group}/v2")), &json!(3)));
        s.delete(&format!("{v1}/a")).await?.expect(200)?;
        same!(watch.expect("DELETED").await?["spec"]["count"], 3);
    }
    a_conversion_may_change_labels_and_nothing_else(s) {
        let (_hook, _, [_, v2]) = converted(&s, "/label").await?;
        let object = s.get(&format!("{v2}/a")).await?.expect(200)?;
        same!((&object["metadata"]["labels"], &object["metadata"]["name"]), (&json!({"converted": "yes"}), &json!("a")));
    }
    a_conversion_that_fails_tells_why(s) {
        let hook = Hook::start(&[], convert).await?;
        for (path, why) in [
            ("/fail", "failed: cannot do it"),
            ("/none", "returned 0 objects, expected 1"),
            ("/name", "returned invalid object: must have the same name: a != other"),
            ("/kind", "returned invalid object at index 0: invalid kind (expected Widget, received Other)"),
            ("/broken", "failed: an error on the server (\"unknown\") has prevented the request from succeeding"),
        ] {
            let (group, [v1, v2]) = kind(&s, webhook(&hook, path)).await?;
            let answer = s.get(&format!("{v2}/a")).await?;
            same!(answer.body["message"], format!("conversion webhook for {group}/v1, Kind=Widget {why}"));
            same!((answer.code, &answer.body["reason"]), (500, &Value::Null));
            same!(s.get(&v2).await?.code, 500);
            s.get(&format!("{v1}/a")).await?.expect(200)?;
        }
    }
    a_new_storage_version_leaves_old_objects_readable(s) {
        let (_hook, group, [v1, v2]) = converted(&s, "/ok").await?;
        let name = format!("{CRDS}/widgets.{group}");
        let swap = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false}, {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
        let changed = s.patch(&name, JSON_PATCH, &swap).await?.expect(200)?;
        same!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
        for _ in 0..2 {
            same!(s.get(&format!("{v1}/a")).await?.expect(200)?["spec"]["size"], 1);
            same!(s.get(&format!("{v2}/a")).await?.expect(200)?["spec"]["count"], 1);
            s.patch(&format!("{v2}/a"), MERGE, &json!({"metadata": {"labels": {"touched": "yes"}}})).await?.expect(200)?;
        }
        let message = s.patch(&name, JSON_PATCH, &json!([{"op": "remove", "path": "/spec/versions/0"}])).await?.refused(422, "Invalid")?;
        holds!(message.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version"), "{message}");
    }
    without_a_webhook_versions_differ_in_name_only(s) {
        let (group, [v1, v2]) = kind(&s, json!({"strategy": "None"})).await?;
        // What the other version does not know is not shown, and its defaults are.
        let object = s.get(&format!("{v2}/a")).await?.expect(200)?;
        same!((&object["apiVersion"], &object["spec"]), (&json!(format!("{group}/v2")), &json!({"made": "size"})));
        s.patch(&format!("{v2}/a"), MERGE, &json!({"spec": {"count": 2}})).await?.expect(200)?;
        same!(s.get(&format!("{v1}/a")).await?.expect(200)?["spec"], json!({"made": "size"}));
        let swap = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false}, {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
        s.patch(&format!("{CRDS}/widgets.{group}"), JSON_PATCH, &swap).await?.expect(200)?;
        s.post(&v2, &widget(&group, "v2", "b", json!({"count": 4}))).await?.expect(201)?;
        let list = s.get(&v2).await?.expect(200)?;
        let versions: Vec<_> = list["items"].as_array().into_iter().flatten().map(|item| item["apiVersion"].clone()).collect();
        same!(versions, [json!(format!("{group}/v2")), json!(format!("{group}/v2"))]);
    }
    a_conversion_that_cannot_work_is_refused(s) {
        for (conversion, why) in [
            (json!({"strategy": "Webhook"}), "[spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook, spec.conversion.conversionReviewVersions: Required value]"),
            (json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "http://x"}}}), "[spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path], spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1]"),
            (json!({"strategy": "X"}), "spec.conversion.strategy: Unsupported value: \"X\": supported values: \"None\", \"Webhook\""),
            (json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}), "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook"),
        ] {
            let definition = definition(&s, conversion);
            let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let message = s.post(CRDS, &definition).await?.refused(422, "Invalid")?;
            same!(message, format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {why}"));
        }
    }
}
