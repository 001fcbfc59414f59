//! Admission webhooks: who is asked about what, and what comes of the answers.

use std::time::Instant;

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::hook::{Hook, Reply};
use super::wire::{JSON, Look, MERGE, Scope, encode_base64, eventually};

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

fn configurations(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase())
}

/// The webhook of these behaviours: what it says depends on where it is asked.
fn judge(path: &str, review: &Value) -> Reply {
    let patch = |operations: Value| json!({"patchType": "JSONPatch", "patch": encode_base64(operations.to_string().as_bytes())});
    let request = &review["request"];
    let more = match path {
        "/deny" => json!({"allowed": false, "status": {"message": "no way"}}),
        "/conflict" => json!({"allowed": false, "status": {"message": "no way", "code": 409, "reason": "Conflict"}}),
        "/silent-no" => json!({"allowed": false}),
        "/warn" => json!({"warnings": ["careful", "very"]}),
        "/patch" => patch(json!([{"op": "add", "path": "/data/hooked", "value": "yes"}])),
        "/bad-key" => patch(json!([{"op": "add", "path": "/data/bad key!", "value": "x"}])),
        "/wrong-type" => patch(json!([{"op": "add", "path": "/data/n", "value": 7}])),
        "/misses" => patch(json!([{"op": "replace", "path": "/nope/x", "value": "x"}])),
        "/untyped" => json!({"patch": encode_base64(b"[]")}),
        "/count" => {
            let count: i64 =
                request["object"]["data"]["count"].as_str().and_then(|count| count.parse().ok()).unwrap_or(0);
            patch(json!([{"op": "add", "path": "/data/count", "value": (count + 1).to_string()}]))
        }
        "/three" => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
        "/wrong-uid" => json!({"uid": "wrong"}),
        "/gone" => return Reply::Code(404),
        "/broken" => return Reply::Code(500),
        "/empty" => return Reply::Text(""),
        "/mute" => return Reply::Silence,
        _ => json!({}),
    };
    let mut response = json!({"uid": request["uid"], "allowed": true});
    for (field, value) in more.as_object().into_iter().flatten() {
        response[field] = value.clone();
    }
    Reply::Review(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// A webhook for ConfigMaps of the own namespace.
fn webhook(s: &Scope, hook: &Hook, path: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
    json!({"name": format!("{}.example.com", path.trim_start_matches('/')), "rules": [rule], "sideEffects": "None",
        "clientConfig": {"url": hook.url(path), "caBundle": hook.authority}, "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": s.namespace}}})
}

/// Writes a configuration and waits until the server asks it; a webhook that is always asked goes before those given.
async fn install(s: &Scope, hook: &Hook, kind: &str, webhooks: Vec<Value>) -> Result<()> {
    let all: Vec<Value> = std::iter::once(webhook(s, hook, "/probe")).chain(webhooks).collect();
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": s.unique("hooks")}, "webhooks": all});
    s.post(&configurations(kind), &body).await?.expect(201)?;
    eventually("the webhook to be asked", || async {
        let answer = s.post(&s.core("configmaps?dryRun=All"), &config_map("probe")).await?;
        Ok(if hook.seen("/probe").is_empty() { Look::NotYet(format!("{answer:?}")) } else { Look::There(()) })
    })
    .await
}

async fn hooked(s: &Scope, kind: &str, path: &str) -> Result<Hook> {
    let hook = Hook::start(&[], judge).await?;
    install(s, &hook, kind, vec![webhook(s, &hook, path)]).await?;
    Ok(hook)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

async fn create(s: &Scope, name: &str) -> Result<super::wire::Answer> {
    s.post(&s.core("configmaps"), &config_map(name)).await
}

/// The last review that a path saw of an object of this name.
fn told(hook: &Hook, path: &str, name: &str, operation: &str) -> Value {
    let reviews = hook.seen(path);
    let found = reviews
        .iter()
        .rev()
        .find(|review| review["request"]["name"] == name && review["request"]["operation"] == operation);
    found.map(|review| review["request"].clone()).unwrap_or_default()
}

/// A webhook for one subresource, which sees what is asked at a path.
async fn hooked_to(s: &Scope, kind: &str, path: &str, group: &str, resource: &str) -> Result<Hook> {
    let hook = Hook::start(&[], judge).await?;
    let mut own = webhook(s, &hook, path);
    own["rules"] = json!([{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}]);
    install(s, &hook, kind, vec![own]).await?;
    Ok(hook)
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

behaviours! {
    a_webhook_is_told_of_a_scale(s) {
        let hook = hooked_to(&s, VALIDATING, "/see", "apps", "deployments/scale").await?;
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let body = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
        let made = s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let path = s.path("apps/v1", "deployments/a/scale");
        s.patch(&path, MERGE, &json!({"spec": {"replicas": 5}})).await?.expect(200)?;
        let told = told(&hook, "/see", "a", "UPDATE");
        let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        let resource = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        same!((&told["kind"], &told["requestKind"], &told["resource"], &told["requestResource"]), (&kind, &kind, &resource, &resource));
        same!((&told["subResource"], &told["requestSubResource"], &told["namespace"]), (&json!("scale"), &json!("scale"), &json!(s.namespace)));
        let metadata = &made["metadata"];
        let metadata = json!({"name": "a", "namespace": s.namespace, "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"]});
        let scale = |replicas| json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}, "status": {"replicas": 0, "selector": "app=x"}});
        same!(told["object"], scale(5));
        same!(told["oldObject"], scale(2));
        same!(told["options"]["kind"], "UpdateOptions");
    }
    a_mutating_webhook_may_change_a_scale(s) {
        hooked_to(&s, MUTATING, "/three", "apps", "deployments/scale").await?;
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let body = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
        s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let scaled = s.patch(&s.path("apps/v1", "deployments/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await?.expect(200)?;
        same!(scaled["spec"]["replicas"], 3);
        same!(s.get(&s.path("apps/v1", "deployments/a")).await?.body["spec"]["replicas"], 3);
    }
    a_webhook_may_deny_a_scale(s) {
        hooked_to(&s, VALIDATING, "/deny", "apps", "deployments/scale").await?;
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let body = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
        s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let answer = s.patch(&s.path("apps/v1", "deployments/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await?;
        same!((answer.code, &answer.body["message"]), (400, &json!("admission webhook \"deny.example.com\" denied the request: no way")));
        same!(s.get(&s.path("apps/v1", "deployments/a")).await?.body["spec"]["replicas"], 2);
    }
    a_webhook_is_told_of_a_binding(s) {
        let hook = hooked_to(&s, VALIDATING, "/see", "", "pods/*").await?;
        s.post(&s.core("pods"), &pod()).await?.expect(201)?;
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
        s.post(&s.core("pods/a/binding"), &binding).await?.expect(201)?;
        let mut seen = told(&hook, "/see", "a", "CREATE");
        // Nothing keeps a binding, but the real server says who would own its fields.
        seen["object"]["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        let kind = json!({"group": "", "version": "v1", "kind": "Binding"});
        same!((&seen["kind"], &seen["requestKind"], &seen["subResource"], &seen["oldObject"]), (&kind, &kind, &json!("binding"), &Value::Null));
        same!(seen["object"], json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "a", "namespace": s.namespace}, "target": {"kind": "Node", "name": "n"}}));
        same!(seen["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
        same!(told(&hook, "/see", "a", "UPDATE"), Value::Null);
    }
    a_webhook_may_deny_a_binding(s) {
        hooked_to(&s, VALIDATING, "/deny", "", "pods/binding").await?;
        s.post(&s.core("pods"), &pod()).await?.expect(201)?;
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
        let answer = s.post(&s.core("pods/a/binding"), &binding).await?;
        same!((answer.code, &answer.body["message"]), (400, &json!("admission webhook \"deny.example.com\" denied the request: no way")));
        same!(s.get(&s.core("pods/a")).await?.body["spec"]["nodeName"], Value::Null);
    }
    a_binding_names_its_pod(s) {
        s.post(&s.core("pods"), &pod()).await?.expect(201)?;
        let binding = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}});
        let message = s.post(&s.core("pods/a/binding"), &binding).await?.refused(400, "BadRequest")?;
        same!(message, "name in URL does not match name in Binding object");
    }
    a_webhook_is_told_who_connects_to_a_pod(s) {
        let hook = hooked_to(&s, VALIDATING, "/deny", "", "pods/*").await?;
        // Whether there is such a pod is looked at later.
        let answer = s.send(Method::POST, &s.core("pods/a/exec?command=ls&command=-l&container=c&stdin=true&stdout=true"), &[], Vec::new()).await?;
        same!((answer.code, &answer.body["message"]), (400, &json!("admission webhook \"deny.example.com\" denied the request: no way")));
        let seen = told(&hook, "/deny", "a", "CONNECT");
        let kind = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
        let resource = json!({"group": "", "version": "v1", "resource": "pods"});
        same!((&seen["kind"], &seen["requestKind"], &seen["resource"], &seen["requestResource"]), (&kind, &kind, &resource, &resource));
        same!((&seen["subResource"], &seen["requestSubResource"], &seen["namespace"]), (&json!("exec"), &json!("exec"), &json!(s.namespace)));
        same!((&seen["options"], &seen["oldObject"], &seen["dryRun"]), (&Value::Null, &Value::Null, &json!(false)));
        same!(seen["object"], json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "container": "c", "command": ["ls", "-l"]}));
        for (path, kind) in [("pods/b/attach?stdin=true&tty=true", "PodAttachOptions"), ("pods/c/portforward?ports=80&ports=81", "PodPortForwardOptions")] {
            same!(s.send(Method::POST, &s.core(path), &[], Vec::new()).await?.code, 400);
            let name = &path[5..6];
            let object = told(&hook, "/deny", name, "CONNECT")["object"].clone();
            let expected = match kind {
                "PodAttachOptions" => json!({"kind": kind, "apiVersion": "v1", "stdin": true, "tty": true}),
                _ => json!({"kind": kind, "apiVersion": "v1", "ports": [80, 81]}),
            };
            same!(object, expected);
        }
    }
    without_command_there_is_none_in_the_review(s) {
        let hook = hooked_to(&s, VALIDATING, "/deny", "", "pods/exec").await?;
        s.send(Method::GET, &s.core("pods/a/exec"), &[], Vec::new()).await?;
        same!(told(&hook, "/deny", "a", "CONNECT")["object"], json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": null}));
    }
    a_policy_sees_scales_bindings_and_connections(s) {
        let name = s.unique("policy");
        let rules = json!([
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/exec", "pods/binding"]},
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments/scale"]}]);
        let about = "request.operation + ' ' + request.kind.kind + ' ' + request.subResource + ' ' + object.kind";
        let policy = json!({"metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "messageExpression": about}]}});
        s.post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", &policy).await?.expect(201)?;
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": s.namespace}}}}});
        s.post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", &binding).await?.expect(201)?;
        let denied = |words: &str| format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {words}");
        eventually("the policy to be asked", || async {
            let answer = s.send(Method::POST, &s.core("pods/a/exec?command=ls"), &[], Vec::new()).await?;
            let message = answer.body["message"].as_str().unwrap_or_default();
            Ok(if message.ends_with(&denied("CONNECT PodExecOptions exec PodExecOptions")) { Look::There(()) } else { Look::NotYet(format!("{answer:?}")) })
        }).await?;
        s.post(&s.core("pods"), &pod()).await?.expect(201)?;
        let body = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
        let answer = s.post(&s.core("pods/a/binding"), &body).await?;
        holds!(answer.text.contains(&denied("CREATE Binding binding Binding")), "{answer:?}");
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let body = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
        s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let answer = s.patch(&s.path("apps/v1", "deployments/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await?;
        holds!(answer.text.contains(&denied("UPDATE Scale scale Scale")), "{answer:?}");
    }
    a_validating_webhook_denies(s) {
        hooked(&s, VALIDATING, "/deny").await?;
        let answer = create(&s, "a").await?;
        same!((answer.code, &answer.body["message"]), (400, &json!("admission webhook \"deny.example.com\" denied the request: no way")));
        same!((&answer.body["reason"], &answer.body["details"]), (&Value::Null, &Value::Null));
        same!(s.get(&s.core("configmaps/a")).await?.code, 404);
    }
    a_mutating_webhook_may_deny_too(s) {
        hooked(&s, MUTATING, "/deny").await?;
        same!(create(&s, "a").await?.body["message"], "admission webhook \"deny.example.com\" denied the request: no way");
    }
    a_denial_keeps_its_code_and_reason(s) {
        hooked(&s, VALIDATING, "/conflict").await?;
        same!(create(&s, "a").await?.refused(409, "Conflict")?, "admission webhook \"conflict.example.com\" denied the request: no way");
    }
    a_denial_needs_no_words(s) {
        hooked(&s, VALIDATING, "/silent-no").await?;
        same!(create(&s, "a").await?.body["message"], "admission webhook \"silent-no.example.com\" denied the request without explanation");
    }
    a_webhook_is_told_of_a_new_object(s) {
        let hook = hooked(&s, VALIDATING, "/see").await?;
        s.post(&s.core("configmaps?fieldManager=me"), &config_map("a")).await?.expect(201)?;
        let told = told(&hook, "/see", "a", "CREATE");
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
        same!((&told["kind"], &told["requestKind"], &told["resource"], &told["requestResource"]), (&kind, &kind, &resource, &resource));
        same!((&told["namespace"], &told["dryRun"], &told["oldObject"]), (&json!(s.namespace), &json!(false), &Value::Null));
        same!(told["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}));
        same!((&told["userInfo"]["username"], &told["subResource"]), (&json!("admin"), &Value::Null));
        let object = &told["object"];
        same!((&object["kind"], &object["data"], object["metadata"]["uid"].is_string()), (&json!("ConfigMap"), &json!({"a": "b"}), true));
        same!(object["metadata"]["managedFields"][0]["manager"], "me");
    }
    a_mutating_webhook_sees_an_object_before_it_is_one(s) {
        let hook = hooked(&s, MUTATING, "/see").await?;
        create(&s, "a").await?.expect(201)?;
        let metadata = told(&hook, "/see", "a", "CREATE")["object"]["metadata"].clone();
        same!((&metadata["uid"], &metadata["namespace"]), (&Value::Null, &json!(s.namespace)));
        same!(metadata["managedFields"][0]["operation"], "Update");
    }
    a_webhook_is_told_what_was_there(s) {
        let hook = hooked(&s, VALIDATING, "/see").await?;
        create(&s, "a").await?.expect(201)?;
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"a": "c"}})).await?.expect(200)?;
        let update = told(&hook, "/see", "a", "UPDATE");
        same!((&update["object"]["data"], &update["oldObject"]["data"]), (&json!({"a": "c"}), &json!({"a": "b"})));
        same!(update["options"]["kind"], "UpdateOptions");
        s.delete_with(&s.core("configmaps/a"), &json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 5})).await?.expect(200)?;
        let deletion = told(&hook, "/see", "a", "DELETE");
        same!((&deletion["object"], &deletion["oldObject"]["data"]), (&Value::Null, &json!({"a": "c"})));
        same!((&deletion["options"]["kind"], &deletion["options"]["gracePeriodSeconds"]), (&json!("DeleteOptions"), &json!(5)));
    }
    a_write_that_changes_nothing_is_asked_about(s) {
        create(&s, "a").await?.expect(201)?;
        let hook = hooked(&s, VALIDATING, "/see").await?;
        s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"a": "b"}})).await?.expect(200)?;
        same!(told(&hook, "/see", "a", "UPDATE")["object"]["data"], json!({"a": "b"}));
    }
    a_webhook_is_told_of_a_dry_run(s) {
        let hook = hooked(&s, VALIDATING, "/see").await?;
        s.post(&s.core("configmaps?dryRun=All"), &config_map("dry")).await?.expect(201)?;
        let told = told(&hook, "/see", "dry", "CREATE");
        same!((&told["dryRun"], &told["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    }
    a_mutating_webhook_changes_what_is_stored(s) {
        hooked(&s, MUTATING, "/patch").await?;
        let made = create(&s, "a").await?.expect(201)?;
        same!(made["data"], json!({"a": "b", "hooked": "yes"}));
        same!(s.get(&s.core("configmaps/a")).await?.expect(200)?["data"], made["data"]);
        // What a webhook adds belongs to nobody.
        same!(made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"], json!({".": {}, "f:a": {}}));
    }
    a_mutating_webhook_changes_updates_too(s) {
        create(&s, "a").await?.expect(201)?;
        hooked(&s, MUTATING, "/patch").await?;
        let changed = s.patch(&s.core("configmaps/a"), MERGE, &json!({"data": {"c": "d"}})).await?.expect(200)?;
        same!(changed["data"], json!({"a": "b", "c": "d", "hooked": "yes"}));
    }
    what_a_webhook_made_of_an_object_is_checked(s) {
        hooked(&s, MUTATING, "/bad-key").await?;
        let message = create(&s, "a").await?.refused(422, "Invalid")?;
        holds!(message.starts_with("ConfigMap \"a\" is invalid: data[bad key!]: Invalid value: \"bad key!\""), "{message}");
    }
    a_patch_to_another_shape_is_refused(s) {
        hooked(&s, MUTATING, "/wrong-type").await?;
        same!(create(&s, "a").await?.refused(500, "InternalError")?, "Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type string");
    }
    a_patch_that_misses_is_refused(s) {
        hooked(&s, MUTATING, "/misses").await?;
        same!(create(&s, "a").await?.refused(500, "InternalError")?, "Internal error occurred: replace operation does not apply: doc is missing path: /nope/x: missing value");
    }
    a_patch_must_say_what_kind_it_is(s) {
        hooked(&s, MUTATING, "/untyped").await?;
        same!(create(&s, "a").await?.refused(500, "InternalError")?, "Internal error occurred: failed calling webhook \"untyped.example.com\": received invalid webhook response: webhook returned response.patch but not response.patchType");
    }
    a_validating_webhook_may_not_patch(s) {
        hooked(&s, VALIDATING, "/patch").await?;
        same!(create(&s, "a").await?.refused(500, "InternalError")?, "Internal error occurred: failed calling webhook \"patch.example.com\": received invalid webhook response: validating webhook may not return response.patch");
    }
    a_webhook_answers_the_review_it_was_sent(s) {
        let hook = hooked(&s, VALIDATING, "/wrong-uid").await?;
        let message = create(&s, "a").await?.refused(500, "InternalError")?;
        let uid = told(&hook, "/wrong-uid", "a", "CREATE")["uid"].clone();
        same!(message, format!("Internal error occurred: failed calling webhook \"wrong-uid.example.com\": received invalid webhook response: expected response.uid={uid}, got \"wrong\""));
    }
    a_webhook_that_fails_fails_the_write(s) {
        let hook = Hook::start(&[], judge).await?;
        for (path, why) in [
            ("/gone", "the server could not find the requested resource"),
            ("/broken", "an error on the server (\"unknown\") has prevented the request from succeeding"),
            ("/empty", "0-length response with status code: 200 and content type: application/json"),
        ] {
            let inner = Scope::clone(&s);
            let mut config = webhook(&inner, &hook, path);
            config["objectSelector"] = json!({"matchLabels": {"for": path.trim_start_matches('/')}});
            install(&inner, &hook, VALIDATING, vec![config]).await?;
            let mut body = config_map("a");
            body["metadata"]["labels"] = json!({"for": path.trim_start_matches('/')});
            let start = Instant::now();
            let answer = loop {
                let answer = s.post(&s.core("configmaps?dryRun=All"), &body).await?;
                if answer.code != 201 || start.elapsed().as_secs() > 20 {
                    break answer;
                }
            };
            let name = path.trim_start_matches('/');
            same!(answer.refused(500, "InternalError")?, format!("Internal error occurred: failed calling webhook \"{name}.example.com\": failed to call webhook: {why}"));
        }
    }
    a_webhook_that_fails_may_be_ignored(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/gone");
        config["failurePolicy"] = json!("Ignore");
        install(&s, &hook, VALIDATING, vec![config]).await?;
        create(&s, "a").await?.expect(201)?;
        holds!(!hook.seen("/gone").is_empty(), "it was not asked");
    }
    a_webhook_is_not_waited_for_longer_than_it_says(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/mute");
        config["timeoutSeconds"] = json!(1);
        config["objectSelector"] = json!({"matchLabels": {"slow": "yes"}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"slow": "yes"});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(500, "InternalError")?;
        same!(message, format!("Internal error occurred: failed calling webhook \"mute.example.com\": failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded", hook.url("/mute")));
    }
    a_webhook_must_be_there(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/x");
        config["clientConfig"]["url"] = json!("https://127.0.0.1:1/x");
        config["objectSelector"] = json!({"matchLabels": {"for": "x"}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"for": "x"});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(500, "InternalError")?;
        same!(message, "Internal error occurred: failed calling webhook \"x.example.com\": failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused");
    }
    a_webhook_must_be_trusted(s) {
        let (hook, stranger) = (Hook::start(&[], judge).await?, Hook::start(&[], judge).await?);
        let mut config = webhook(&s, &stranger, "/x");
        config["clientConfig"]["caBundle"] = json!(hook.authority);
        config["objectSelector"] = json!({"matchLabels": {"for": "x"}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"for": "x"});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(500, "InternalError")?;
        holds!(message.contains("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "{message}");
    }
    warnings_of_webhooks_reach_the_client(s) {
        hooked(&s, VALIDATING, "/warn").await?;
        let answer = create(&s, "a").await?;
        let warnings: Vec<_> = answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
        same!(warnings, ["299 - \"careful\"", "299 - \"very\""]);
    }
    webhooks_are_for_the_objects_they_select(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["objectSelector"] = json!({"matchLabels": {"guarded": "yes"}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        create(&s, "a").await?.expect(201)?;
        let label = s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"labels": {"guarded": "yes"}}})).await?;
        same!(label.code, 400);
    }
    webhooks_are_for_the_operations_they_name(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["rules"][0]["operations"] = json!(["DELETE"]);
        install(&s, &hook, VALIDATING, vec![config]).await?;
        create(&s, "a").await?.expect(201)?;
        same!(s.delete(&s.core("configmaps/a")).await?.code, 400);
        let all = s.send(Method::DELETE, &s.core("configmaps?fieldSelector=metadata.name=a"), &[("Content-Type", JSON)], Vec::new()).await?;
        same!(all.code, 400);
        s.get(&s.core("configmaps/a")).await?.expect(200)?;
    }
    webhooks_are_for_what_meets_their_conditions(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["matchConditions"] = json!([{"name": "c", "expression": "object.metadata.name.startsWith('bad') && request.operation == 'CREATE'"}]);
        install(&s, &hook, VALIDATING, vec![config]).await?;
        create(&s, "good").await?.expect(201)?;
        same!(create(&s, "bad").await?.code, 400);
    }
    a_condition_that_breaks_counts_as_the_policy_says(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["matchConditions"] = json!([{"name": "c", "expression": "object.metadata.name != 'a' || object.none == 'x'"}]);
        let mut lenient = webhook(&s, &hook, "/silent-no");
        lenient["failurePolicy"] = json!("Ignore");
        lenient["matchConditions"] = json!([{"name": "c", "expression": "object.none == 'x'"}]);
        let mut first = config.clone();
        first["matchConditions"][0]["expression"] = json!("object.metadata.name == 'a' && object.none == 'x'");
        install(&s, &hook, VALIDATING, vec![lenient, first]).await?;
        create(&s, "b").await?.expect(201)?;
        let message = create(&s, "a").await?.refused(403, "Forbidden")?;
        same!(message, "configmaps \"a\" is forbidden: expression 'object.metadata.name == 'a' && object.none == 'x'' resulted in error: no such key: none");
    }
    webhooks_are_asked_in_order_and_see_each_other(s) {
        let hook = Hook::start(&[], judge).await?;
        install(&s, &hook, MUTATING, vec![webhook(&s, &hook, "/patch"), webhook(&s, &hook, "/see")]).await?;
        create(&s, "a").await?.expect(201)?;
        same!(told(&hook, "/see", "a", "CREATE")["object"]["data"]["hooked"], "yes");
    }
    a_webhook_may_be_asked_again(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut first = webhook(&s, &hook, "/count");
        first["reinvocationPolicy"] = json!("IfNeeded");
        install(&s, &hook, MUTATING, vec![first, webhook(&s, &hook, "/patch")]).await?;
        same!(create(&s, "a").await?.expect(201)?["data"], json!({"a": "b", "count": "2", "hooked": "yes"}));
    }
    a_webhook_is_asked_once_if_it_does_not_say_otherwise(s) {
        let hook = Hook::start(&[], judge).await?;
        install(&s, &hook, MUTATING, vec![webhook(&s, &hook, "/count"), webhook(&s, &hook, "/patch")]).await?;
        same!(create(&s, "a").await?.expect(201)?["data"]["count"], "1");
    }
    a_service_leads_to_its_webhook(s) {
        let name = format!("hook.{}.svc", s.namespace);
        let hook = Hook::start(&[&name], judge).await?;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        s.post(&s.core("services"), &service).await?.expect(201)?;
        let mut config = webhook(&s, &hook, "/deny");
        config["clientConfig"] = json!({"caBundle": hook.authority, "service": {"namespace": s.namespace, "name": "hook", "path": "/deny", "port": hook.port}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let start = Instant::now();
        let answer = loop {
            let answer = create(&s, "a").await?;
            // The real server learns of the service a moment later.
            if !answer.text.contains("not found") || start.elapsed().as_secs() > 20 {
                break answer;
            }
        };
        same!(answer.body["message"], "admission webhook \"deny.example.com\" denied the request: no way");
    }
    a_service_must_be_there(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/x");
        config["clientConfig"] = json!({"caBundle": hook.authority, "service": {"namespace": s.namespace, "name": "none", "path": "/x"}});
        config["objectSelector"] = json!({"matchLabels": {"for": "x"}});
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let mut body = config_map("a");
        body["metadata"]["labels"] = json!({"for": "x"});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(500, "InternalError")?;
        same!(message, format!("Internal error occurred: failed calling webhook \"x.example.com\": failed to call webhook: Post \"https://none.{}.svc:443/x?timeout=10s\": service \"none\" not found", s.namespace));
    }
    evictions_are_asked_about_as_such(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["rules"][0]["resources"] = json!(["pods/eviction"]);
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
        same!(s.post(&s.core("pods/p/eviction"), &eviction).await?.code, 400);
        let told = told(&hook, "/deny", "p", "CREATE");
        same!((&told["kind"], &told["subResource"]), (&json!({"group": "policy", "version": "v1", "kind": "Eviction"}), &json!("eviction")));
    }
    a_status_is_asked_about_as_such(s) {
        let hook = Hook::start(&[], judge).await?;
        let mut config = webhook(&s, &hook, "/deny");
        config["rules"][0]["resources"] = json!(["pods/status"]);
        install(&s, &hook, VALIDATING, vec![config]).await?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        s.patch(&s.core("pods/p"), MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await?.expect(200)?;
        same!(s.patch(&s.core("pods/p/status"), MERGE, &json!({"status": {"message": "x"}})).await?.code, 400);
    }
    a_configuration_is_completed(s) {
        let hook = Hook::start(&[], judge).await?;
        let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING, "metadata": {"name": s.unique("hooks")}, "webhooks": [webhook(&s, &hook, "/x")]});
        let made = s.post(&configurations(MUTATING), &body).await?.expect(201)?["webhooks"][0].clone();
        same!((&made["failurePolicy"], &made["matchPolicy"], &made["reinvocationPolicy"]), (&json!("Fail"), &json!("Equivalent"), &json!("Never")));
        same!((&made["timeoutSeconds"], &made["objectSelector"], &made["rules"][0]["scope"]), (&json!(10), &json!({}), &json!("*")));
    }
    a_configuration_that_cannot_work_is_refused(s) {
        let hook = Hook::start(&[], judge).await?;
        for (field, value, why) in [
            ("sideEffects", json!("Some"), "sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\""),
            ("sideEffects", Value::Null, "sideEffects: Required value: must specify one of None, NoneOnDryRun"),
            ("admissionReviewVersions", json!(["v2"]), "admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1"),
            ("name", json!("short"), "name: Invalid value: \"short\": should be a domain with at least three segments separated by dots"),
            ("timeoutSeconds", json!(31), "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
            ("clientConfig", json!({}), "clientConfig: Required value: exactly one of url or service is required"),
            ("clientConfig", json!({"url": "http://x"}), "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"),
            ("failurePolicy", json!("X"), "failurePolicy: Unsupported value: \"X\": supported values: \"Fail\", \"Ignore\""),
            ("matchPolicy", json!("X"), "matchPolicy: Unsupported value: \"X\": supported values: \"Equivalent\", \"Exact\""),
            ("reinvocationPolicy", json!("X"), "reinvocationPolicy: Unsupported value: \"X\": supported values: \"IfNeeded\", \"Never\""),
        ] {
            let mut config = webhook(&s, &hook, "/x");
            config[field] = value;
            let name = s.unique("hooks");
            let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING, "metadata": {"name": name}, "webhooks": [config]});
            let message = s.post(&configurations(MUTATING), &body).await?.refused(422, "Invalid")?;
            same!(message, format!("{MUTATING}.admissionregistration.k8s.io \"{name}\" is invalid: webhooks[0].{why}"));
        }
    }
}
