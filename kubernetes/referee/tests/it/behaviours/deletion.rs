//! Deletion: preconditions, finalizers, owners, namespaces.

use anyhow::Result;
use serde_json::{Value, json};

use super::wire::{MERGE, Scope, config_map, version};

async fn held(s: &Scope) -> Result<Value> {
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&s.core("configmaps"), &body).await?.expect(201)
}

fn owned_by(owner: &Value, block: bool) -> Value {
    let mut body = config_map("owned");
    body["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}]);
    body
}

/// One that nobody uses goes at once, so those who let go have seen the other of its kind as well.
async fn unused_goes(s: &Scope, all: &str, used: &Value) -> Result<()> {
    let mut unused = used.clone();
    let name = format!("{}-free", used["metadata"]["name"].as_str().unwrap_or_default());
    let path = format!("{all}/{name}");
    unused["metadata"]["name"] = name.into();
    s.post(all, &unused).await?.expect(201)?;
    s.delete(&path).await?.expect(200)?;
    s.until(&path, "what nobody uses to go", |answer| answer.code == 404).await?;
    Ok(())
}

behaviours! {
    a_deletion_answers_with_success(s) {
        let map = s.config_map("a").await?;
        let status = s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        same!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
        same!(status["details"], json!({"name": "a", "kind": "configmaps", "uid": map["metadata"]["uid"]}));
        same!(s.get(&s.core("configmaps/a")).await?.code, 404);
    }
    a_missing_object_cannot_be_deleted(s) {
        same!(s.delete(&s.core("configmaps/a")).await?.refused(404, "NotFound")?, "configmaps \"a\" not found");
    }
    a_deletion_may_insist_on_a_uid(s) {
        s.config_map("a").await?;
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
        let message = s.delete_with(&s.core("configmaps/a"), &options).await?.refused(409, "Conflict")?;
        holds!(message.contains("the UID in the precondition (other) does not match the UID in record"), "{message}");
    }
    a_deletion_may_insist_on_a_version(s) {
        let map = s.config_map("a").await?;
        let options = |version: &str| json!({"preconditions": {"resourceVersion": version}});
        s.delete_with(&s.core("configmaps/a"), &options("1")).await?.refused(409, "Conflict")?;
        s.delete_with(&s.core("configmaps/a"), &options(&version(&map))).await?.expect(200)?;
    }
    an_unknown_propagation_is_refused(s) {
        s.config_map("a").await?;
        let message = s.delete_with(&s.core("configmaps/a"), &json!({"propagationPolicy": "Sideways"})).await?.refused(422, "Invalid")?;
        holds!(message.contains("propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""), "{message}");
    }
    a_finalizer_holds_an_object_back(s) {
        held(&s).await?;
        let answer = s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        same!(answer["kind"], "ConfigMap");
        holds!(answer["metadata"]["deletionTimestamp"].is_string(), "{}", answer["metadata"]);
        same!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
        same!(s.get(&s.core("configmaps/a")).await?.code, 200);
    }
    a_second_deletion_changes_nothing(s) {
        held(&s).await?;
        let first = s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        let second = s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        same!(version(&second), version(&first));
    }
    the_last_finalizer_takes_the_object_with_it(s) {
        held(&s).await?;
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        let answer = s.patch(&s.core("configmaps/a"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        same!(answer["metadata"]["finalizers"], Value::Null);
        same!(s.get(&s.core("configmaps/a")).await?.code, 404);
    }
    a_dying_object_takes_no_new_finalizers(s) {
        held(&s).await?;
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        let patch = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
        let message = s.patch(&s.core("configmaps/a"), MERGE, &patch).await?.refused(422, "Invalid")?;
        same!(message, "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/more\"}");
    }
    a_finalizer_must_be_qualified(s) {
        let mut body = config_map("a");
        body["metadata"]["finalizers"] = json!(["not a name"]);
        s.post(&s.core("configmaps"), &body).await?.refused(422, "Invalid")?;
    }
    what_is_owned_goes_with_its_owner(s) {
        let owner = s.config_map("owner").await?;
        s.post(&s.core("configmaps"), &owned_by(&owner, false)).await?.expect(201)?;
        s.delete(&s.core("configmaps/owner")).await?.expect(200)?;
        s.until(&s.core("configmaps/owned"), "the owned object to go", |answer| answer.code == 404).await?;
    }
    an_orphan_stays_and_forgets_its_owner(s) {
        let owner = s.config_map("owner").await?;
        s.post(&s.core("configmaps"), &owned_by(&owner, false)).await?.expect(201)?;
        s.delete_with(&s.core("configmaps/owner"), &json!({"propagationPolicy": "Orphan"})).await?.expect(200)?;
        s.until(&s.core("configmaps/owner"), "the owner to go", |answer| answer.code == 404).await?;
        let owned = s.get(&s.core("configmaps/owned")).await?.expect(200)?;
        same!(owned["metadata"]["ownerReferences"], Value::Null);
    }
    in_the_foreground_an_owner_waits_for_what_it_owns(s) {
        let owner = s.config_map("owner").await?;
        let mut owned = owned_by(&owner, true);
        owned["metadata"]["finalizers"] = json!(["example.com/hold"]);
        s.post(&s.core("configmaps"), &owned).await?.expect(201)?;
        let answer = s.delete_with(&s.core("configmaps/owner"), &json!({"propagationPolicy": "Foreground"})).await?.expect(200)?;
        same!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        s.until(&s.core("configmaps/owned"), "the owned object to be dying", |answer| answer.body["metadata"]["deletionTimestamp"].is_string()).await?;
        same!(s.get(&s.core("configmaps/owner")).await?.code, 200);
        s.patch(&s.core("configmaps/owned"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        s.until(&s.core("configmaps/owner"), "the owner to go", |answer| answer.code == 404).await?;
    }
    what_has_another_owner_stays(s) {
        let (one, two) = (s.config_map("owner").await?, s.config_map("second").await?);
        let mut body = owned_by(&one, false);
        let other = owned_by(&two, false)["metadata"]["ownerReferences"][0].clone();
        body["metadata"]["ownerReferences"].as_array_mut().unwrap().push(other);
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        s.delete(&s.core("configmaps/owner")).await?.expect(200)?;
        let answer = s.until(&s.core("configmaps/owned"), "one owner left", |answer| {
            answer.body["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
        }).await?;
        same!(answer.body["metadata"]["ownerReferences"][0]["name"], "second");
    }
    an_owner_that_never_was_is_no_owner(s) {
        let body = owned_by(&json!({"metadata": {"name": "nobody", "uid": "11111111-1111-1111-1111-111111111111"}}), false);
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        s.until(&s.core("configmaps/owned"), "the orphan to be collected", |answer| answer.code == 404).await?;
    }
    two_controllers_cannot_own_one_object(s) {
        let mut body = config_map("a");
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
        body["metadata"]["ownerReferences"] = json!([owner("x"), owner("y")]);
        let message = s.post(&s.core("configmaps"), &body).await?.refused(422, "Invalid")?;
        holds!(message.contains("Only one reference can have Controller set to true"), "{message}");
    }
    a_pod_without_a_node_goes_at_once(s) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        s.delete(&s.core("pods/a")).await?.expect(200)?;
        same!(s.get(&s.core("pods/a")).await?.code, 404);
    }
    a_pod_on_a_node_gets_its_grace_period(s) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let dying = s.delete(&s.core("pods/a")).await?.expect(200)?;
        same!(dying["metadata"]["deletionGracePeriodSeconds"], 30);
        same!(s.get(&s.core("pods/a")).await?.code, 200);
        s.delete_with(&s.core("pods/a"), &json!({"gracePeriodSeconds": 0})).await?.expect(200)?;
        same!(s.get(&s.core("pods/a")).await?.code, 404);
    }
    a_namespace_takes_its_objects_with_it(s) {
        let name = s.unique("gone");
        s.post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?.expect(201)?;
        s.post(&format!("/api/v1/namespaces/{name}/configmaps"), &config_map("a")).await?.expect(201)?;
        let answer = s.delete(&format!("/api/v1/namespaces/{name}")).await?.expect(200)?;
        same!(answer["status"]["phase"], "Terminating");
        s.until(&format!("/api/v1/namespaces/{name}"), "the namespace to go", |answer| answer.code == 404).await?;
        same!(s.get(&format!("/api/v1/namespaces/{name}/configmaps/a")).await?.code, 404);
    }
    a_dying_namespace_takes_nothing_new(s) {
        let name = s.unique("dying");
        s.post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?.expect(201)?;
        let mut held = config_map("held");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        s.post(&format!("/api/v1/namespaces/{name}/configmaps"), &held).await?.expect(201)?;
        s.delete(&format!("/api/v1/namespaces/{name}")).await?.expect(200)?;
        let answer = s.post(&format!("/api/v1/namespaces/{name}/configmaps"), &config_map("new")).await?;
        same!(answer.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
        let message = answer.refused(403, "Forbidden")?;
        same!(message, format!("configmaps \"new\" is forbidden: unable to create new content in namespace {name} because it is being terminated"));
        s.patch(&format!("/api/v1/namespaces/{name}/configmaps/held"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.expect(200)?;
        s.until(&format!("/api/v1/namespaces/{name}"), "the namespace to go", |answer| answer.code == 404).await?;
    }
    a_namespace_is_active_and_labelled_with_its_name(s) {
        let namespace = s.get(&format!("/api/v1/namespaces/{}", s.namespace)).await?.expect(200)?;
        same!(namespace["status"]["phase"], "Active");
        same!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], s.namespace.as_str());
        same!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    }
    options_in_a_body_replace_those_of_the_query(s) {
        s.config_map("a").await?;
        let path = s.core("configmaps/a");
        s.delete(&format!("{path}?dryRun=All")).await?.expect(200)?;
        same!(s.get(&path).await?.code, 200);
        let other = json!({"kind": "Event", "apiVersion": "v1"});
        let message = s.delete_with(&path, &other).await?.refused(400, "BadRequest")?;
        same!(message, "no kind \"Event\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"");
        same!(s.get(&path).await?.code, 200);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        s.delete_with(&format!("{path}?dryRun=All"), &options).await?.expect(200)?;
        same!(s.get(&path).await?.code, 404);
    }
    a_claim_that_a_pod_uses_stays_until_the_pod_is_gone(s) {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let claims = s.core("persistentvolumeclaims");
        s.post(&claims, &claim).await?.expect(201)?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": {
            "nodeName": "somewhere", "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        s.until(&s.core("serviceaccounts/default"), "the account of pods", |answer| answer.code == 200).await?;
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let deleted = s.delete(&format!("{claims}/data")).await?.expect(200)?;
        same!(deleted["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        unused_goes(&s, &claims, &claim).await?;
        same!(s.get(&format!("{claims}/data")).await?.code, 200);
        s.delete_with(&s.core("pods/user"), &json!({"gracePeriodSeconds": 0})).await?.expect(200)?;
        s.until(&format!("{claims}/data"), "the claim to go", |answer| answer.code == 404).await?;
    }
    a_volume_stays_while_it_is_bound(s) {
        let name = s.unique("volume");
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}});
        let path = format!("/api/v1/persistentvolumes/{name}");
        s.post("/api/v1/persistentvolumes", &volume).await?.expect(201)?;
        s.patch(&format!("{path}/status"), MERGE, &json!({"status": {"phase": "Bound"}})).await?.expect(200)?;
        let deleted = s.delete(&path).await?.expect(200)?;
        same!(deleted["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
        unused_goes(&s, "/api/v1/persistentvolumes", &volume).await?;
        same!(s.get(&path).await?.code, 200);
        s.patch(&format!("{path}/status"), MERGE, &json!({"status": {"phase": "Released"}})).await?.expect(200)?;
        s.until(&path, "the volume to go", |answer| answer.code == 404).await?;
    }
    a_class_of_volumes_stays_while_a_claim_names_it(s) {
        let name = s.unique("class");
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
            "driverName": "x.example.com", "parameters": {"a": "b"}});
        let path = format!("/apis/storage.k8s.io/v1/volumeattributesclasses/{name}");
        s.post("/apis/storage.k8s.io/v1/volumeattributesclasses", &class).await?.expect(201)?;
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "volumeAttributesClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        s.post(&s.core("persistentvolumeclaims"), &claim).await?.expect(201)?;
        s.delete(&path).await?.expect(200)?;
        unused_goes(&s, "/apis/storage.k8s.io/v1/volumeattributesclasses", &class).await?;
        same!(s.get(&path).await?.code, 200);
        s.delete(&s.core("persistentvolumeclaims/data")).await?.expect(200)?;
        s.until(&path, "the class to go", |answer| answer.code == 404).await?;
    }
    the_pods_of_a_job_and_of_a_replication_controller_stay(s) {
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}});
        let jobs = s.path("batch/v1", "jobs");
        let made = s.post(&jobs, &job).await?.expect(201)?;
        let mut body = config_map("owned");
        body["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": made["metadata"]["uid"]}]);
        s.post(&s.core("configmaps"), &body).await?.expect(201)?;
        let answer = s.delete(&format!("{jobs}/job")).await?;
        holds!(answer.header("warning").contains("child pods are preserved by default when jobs are deleted"), "{:?}", answer.headers);
        same!(answer.expect(200)?["metadata"]["finalizers"], json!(["orphan"]));
        s.until(&format!("{jobs}/job"), "the job to go", |answer| answer.code == 404).await?;
        let left = s.get(&s.core("configmaps/owned")).await?.expect(200)?;
        same!(left["metadata"]["ownerReferences"], Value::Null);
    }
}
