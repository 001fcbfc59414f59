//! What kubectl's generators and Go's clients need beyond JSON: protobuf bodies, reviews, tokens, acting as others, logs.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{Answer, MERGE, Scope};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
const IDENTITY: &str = "/apis/authentication.k8s.io/v1";

/// A field of bytes; numbers below 16 and lengths below 128 take one byte each.
fn part(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(content.len()).expect("short")];
    out.extend_from_slice(content);
    out
}

fn envelope(kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = [part(1, b"v1"), part(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), part(1, &meta), part(2, object)].concat()
}

async fn post_protobuf(s: &Scope, path: &str, body: Vec<u8>) -> Result<Answer> {
    s.send(Method::POST, path, &[("Content-Type", PROTOBUF)], body).await
}

/// A pod of two containers and one that runs first.
async fn crowd(s: &Scope) -> Result<()> {
    let container = |name: &str| json!({"name": name, "image": "i"});
    let spec = json!({"containers": [container("a"), container("b")], "initContainers": [container("c")]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    s.post(&s.core("pods"), &pod).await?.expect(201).map(drop)
}

async fn account(s: &Scope) -> Result<Value> {
    let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    s.post(&s.core("serviceaccounts"), &body).await?.expect(201)
}

async fn token(s: &Scope, spec: Value) -> Result<Value> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    s.post(&s.core("serviceaccounts/robot/token"), &body).await?.expect(201)
}

async fn whoami(s: &Scope) -> Result<Answer> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    s.post(&format!("{IDENTITY}/selfsubjectreviews"), &body).await
}

async fn ask(s: &Scope, kind: &str, spec: Value) -> Result<Answer> {
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    s.post(&format!("{REVIEWS}/{}s", kind.to_lowercase()), &body).await
}

behaviours! {
    protobuf_bodies_become_objects(s) {
        let meta = [part(1, b"a"), part(11, &[part(1, b"k"), part(2, b"v")].concat())].concat();
        let data = [part(1, b"key"), part(2, b"value")].concat();
        let object = [part(1, &meta), part(2, &data)].concat();
        let map = post_protobuf(&s, &s.core("configmaps"), envelope("ConfigMap", &object)).await?.expect(201)?;
        same!((&map["data"], &map["metadata"]["labels"]), (&json!({"key": "value"}), &json!({"k": "v"})));
        same!(map["metadata"]["managedFields"][0]["fieldsV1"]["f:data"], json!({".": {}, "f:key": {}}));
    }
    a_body_without_the_envelope_is_no_protobuf(s) {
        let message = post_protobuf(&s, &s.core("configmaps"), b"k8s".to_vec()).await?.refused(400, "BadRequest")?;
        same!(message, "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (6b3873)");
    }
    an_empty_protobuf_body_is_refused(s) {
        let message = post_protobuf(&s, &s.core("configmaps"), Vec::new()).await?.refused(400, "BadRequest")?;
        same!(message, "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)");
    }
    a_torn_protobuf_body_is_refused(s) {
        let message = post_protobuf(&s, &s.core("configmaps"), b"k8s\0\x12\x09".to_vec()).await?.refused(400, "BadRequest")?;
        same!(message, "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF (6b3873001209)");
        let message = post_protobuf(&s, &s.core("configmaps"), envelope("ConfigMap", b"\x0a\x09")).await?.refused(400, "BadRequest")?;
        same!(message, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF");
    }
    a_protobuf_body_of_another_kind_is_refused(s) {
        let message = post_protobuf(&s, &s.core("configmaps"), envelope("Pod", b"")).await?.refused(400, "BadRequest")?;
        same!(message, "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion");
    }
    options_of_a_deletion_may_be_protobuf(s) {
        s.config_map("a").await?;
        let wrong = envelope("DeleteOptions", &part(2, &part(1, b"another")));
        let answer = s.send(Method::DELETE, &s.core("configmaps/a"), &[("Content-Type", PROTOBUF)], wrong).await?;
        same!(answer.code, 409);
        let run = envelope("DeleteOptions", &part(5, b"All"));
        same!(s.send(Method::DELETE, &s.core("configmaps/a"), &[("Content-Type", PROTOBUF)], run).await?.code, 200);
        s.get(&s.core("configmaps/a")).await?.expect(200)?;
    }
    zero_values_are_not_kept(s) {
        let name = s.unique("node");
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}, "generateName": ""}, "spec": {"unschedulable": false, "podCIDR": ""}});
        let node = s.post("/api/v1/nodes", &body).await?.expect(201)?;
        same!((&node["spec"]["unschedulable"], &node["spec"]["podCIDR"]), (&Value::Null, &Value::Null));
        same!((&node["metadata"]["labels"], &node["metadata"]["generateName"]), (&Value::Null, &Value::Null));
    }
    zero_values_that_were_set_on_purpose_are_kept(s) {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}});
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
        let made = s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        same!((&made["spec"]["replicas"], &made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]), (&json!(0), &json!(0)));
    }
    a_field_set_back_to_zero_goes(s) {
        s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "annotations": {"x": "y"}}, "immutable": false})).await?.expect(201)?;
        let secret = s.patch(&s.core("secrets/a"), MERGE, &json!({"metadata": {"annotations": {"x": null}}})).await?.expect(200)?;
        same!((&secret["metadata"]["annotations"], &secret["immutable"]), (&Value::Null, &json!(false)));
    }
    a_job_selects_its_pods_by_its_uid(s) {
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}});
        let job = s.post(&s.path("batch/v1", "jobs"), &body).await?.expect(201)?;
        let uid = &job["metadata"]["uid"];
        same!(&job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], uid);
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        same!((&labels["controller-uid"], &labels["job-name"], &job["spec"]["manualSelector"]), (uid, &json!("a"), &json!(false)));
        same!(&job["metadata"]["labels"], labels);
    }
    everybody_may_ask_who_they_are(s) {
        let jane = s.as_user("jane", Some("devs"))?;
        let review = whoami(&jane).await?.expect(201)?;
        let user = &review["status"]["userInfo"];
        same!((&user["username"], &user["groups"]), (&json!("jane"), &json!(["devs", "system:authenticated"])));
        let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap_or_default();
        holds!(credential.starts_with("X509SHA256=") && credential.len() == 75, "{credential}");
        same!((review["metadata"]["creationTimestamp"].is_string(), &review["metadata"]["managedFields"]), (true, &Value::Null));
    }
    strangers_may_not_even_ask_who_they_are(s) {
        same!(whoami(&s.anonymous()).await?.code, 403);
    }
    those_who_may_everything_need_no_reason(s) {
        let review = ask(&s, "SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get", "resource": "pods"}})).await?.expect(201)?;
        same!(review["status"], json!({"allowed": true}));
        same!(review["metadata"]["managedFields"][0]["operation"], "Update");
    }
    a_right_is_explained_by_its_binding(s) {
        let jane = s.as_user("jane", None)?;
        let review = ask(&jane, "SelfSubjectAccessReview", json!({"nonResourceAttributes": {"verb": "get", "path": "/api"}})).await?.expect(201)?;
        same!(review["status"], json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""}));
        let review = ask(&jane, "SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get", "resource": "pods"}})).await?.expect(201)?;
        same!(review["status"], json!({"allowed": false}));
    }
    a_right_in_a_namespace_is_explained_by_its_binding(s) {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        s.post(&s.path("rbac.authorization.k8s.io/v1", "roles"), &role).await?.expect(201)?;
        let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": s.namespace});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "readers"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}, "subjects": [subject]});
        s.post(&s.path("rbac.authorization.k8s.io/v1", "rolebindings"), &binding).await?.expect(201)?;
        let spec = json!({"user": format!("system:serviceaccount:{}:robot", s.namespace), "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": s.namespace}});
        let start = std::time::Instant::now();
        let status = loop {
            let status = ask(&s, "SubjectAccessReview", spec.clone()).await?.expect(201)?["status"].clone();
            if status["allowed"] == true || start.elapsed().as_secs() > 30 {
                break status;
            }
        };
        let expected = format!("RBAC: allowed by RoleBinding \"readers/{0}\" of Role \"reader\" to ServiceAccount \"robot/{0}\"", s.namespace);
        same!(status, json!({"allowed": true, "reason": expected}));
    }
    a_review_must_say_about_whom(s) {
        let message = ask(&s, "SubjectAccessReview", json!({"resourceAttributes": {"verb": "get", "resource": "pods"}})).await?.refused(422, "Invalid")?;
        same!(message, ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified");
    }
    a_review_must_say_about_what(s) {
        let answer = ask(&s, "SubjectAccessReview", json!({"user": "jane"})).await?;
        same!(answer.body["details"]["kind"], Value::Null);
        let message = answer.refused(422, "Invalid")?;
        same!(message, ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified");
    }
    a_local_review_stays_in_its_namespace(s) {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": s.namespace}, "spec": {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}});
        let message = s.post(&s.path("authorization.k8s.io/v1", "localsubjectaccessreviews"), &body).await?.refused(422, "Invalid")?;
        same!(message, ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace");
    }
    rules_are_asked_for_in_a_namespace(s) {
        let message = ask(&s, "SelfSubjectRulesReview", json!({})).await?.refused(400, "BadRequest")?;
        same!(message, "no namespace on request");
    }
    a_token_that_is_none_is_not_authenticated(s) {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}});
        let review = s.post(&format!("{IDENTITY}/tokenreviews"), &body).await?.expect(201)?;
        same!(review["status"]["user"], json!({}));
        holds!(review["status"]["error"].as_str().is_some_and(|error| error.contains("invalid bearer token")), "{review}");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}});
        let message = s.post(&format!("{IDENTITY}/tokenreviews"), &body).await?.refused(400, "BadRequest")?;
        same!(message, "token is required for TokenReview in authentication");
    }
    a_service_account_gets_a_token_that_works(s) {
        let account = account(&s).await?;
        let request = token(&s, json!({})).await?;
        same!((&request["metadata"]["uid"], &request["metadata"]["name"]), (&account["metadata"]["uid"], &json!("robot")));
        same!(request["spec"], json!({"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600, "boundObjectRef": null}));
        let robot = s.with_token(request["status"]["token"].as_str().context("a token")?);
        let user = whoami(&robot).await?.expect(201)?["status"]["userInfo"].clone();
        same!(user["username"], format!("system:serviceaccount:{}:robot", s.namespace));
        same!(user["groups"], json!(["system:serviceaccounts", format!("system:serviceaccounts:{}", s.namespace), "system:authenticated"]));
        same!(user["uid"], account["metadata"]["uid"]);
        let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap_or_default();
        holds!(credential.starts_with("JTI="), "{user}");
    }
    a_token_ends_with_its_account(s) {
        account(&s).await?;
        let request = token(&s, json!({})).await?;
        let robot = s.with_token(request["status"]["token"].as_str().context("a token")?);
        whoami(&robot).await?.expect(201)?;
        s.delete(&s.core("serviceaccounts/robot")).await?.expect(200)?;
        let start = std::time::Instant::now();
        while whoami(&robot).await?.code != 401 {
            holds!(start.elapsed().as_secs() < 60, "the token still works");
        }
    }
    a_token_for_another_audience_is_none_here(s) {
        account(&s).await?;
        let request = token(&s, json!({"audiences": ["other"]})).await?;
        same!(request["spec"]["audiences"], json!(["other"]));
        let robot = s.with_token(request["status"]["token"].as_str().context("a token")?);
        same!(whoami(&robot).await?.code, 401);
    }
    the_life_of_a_token_has_bounds(s) {
        account(&s).await?;
        let path = s.core("serviceaccounts/robot/token");
        let ask = |seconds: i64| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}});
        let message = s.post(&path, &ask(1)).await?.refused(422, "Invalid")?;
        same!(message, "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes");
        let message = s.post(&path, &ask(1 << 33)).await?.refused(422, "Invalid")?;
        same!(message, "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds");
    }
    nobody_else_gets_a_token(s) {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let message = s.post(&s.core("serviceaccounts/nobody/token"), &body).await?.refused(404, "NotFound")?;
        same!(message, "serviceaccounts \"nobody\" not found");
    }
    acting_as_another_takes_a_right(s) {
        let jane = s.as_user("jane", None)?;
        let path = s.core("pods");
        let message = jane.send(Method::GET, &path, &[("Impersonate-User", "john")], Vec::new()).await?.refused(403, "Forbidden")?;
        same!(message, format!("pods is forbidden: User \"jane\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"{}\"", s.namespace));
        let message = jane.send(Method::GET, &path, &[("Impersonate-User", "system:serviceaccount:a:b")], Vec::new()).await?.refused(403, "Forbidden")?;
        same!(message, format!("pods is forbidden: User \"jane\" cannot impersonate-on:serviceaccount:list resource \"pods\" in API group \"\" in the namespace \"{}\"", s.namespace));
    }
    acting_as_another_has_their_rights_only(s) {
        let message = s.send(Method::GET, &s.core("pods"), &[("Impersonate-User", "john"), ("Impersonate-Group", "devs")], Vec::new()).await?.refused(403, "Forbidden")?;
        same!(message, format!("pods is forbidden: User \"john\" cannot list resource \"pods\" in API group \"\" in the namespace \"{}\"", s.namespace));
    }
    acting_as_another_is_acting_as_all_of_them(s) {
        let headers = [("Impersonate-User", "john"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-Scopes", "x"), ("Content-Type", "application/json")];
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let review = s.send(Method::POST, &format!("{IDENTITY}/selfsubjectreviews"), &headers, body.to_string().into_bytes()).await?.expect(201)?;
        same!(review["status"]["userInfo"], json!({"username": "john", "uid": "7", "groups": ["system:authenticated"], "extra": {"scopes": ["x"]}}));
    }
    a_group_alone_is_nobody(s) {
        let message = s.send(Method::GET, &s.core("pods"), &[("Impersonate-Group", "devs")], Vec::new()).await?.refused(400, "BadRequest")?;
        same!(message, "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, Extra:map[string][]string(nil)} without impersonating a user name");
    }
    a_log_belongs_to_a_pod(s) {
        let message = s.get(&s.core("pods/none/log")).await?.refused(404, "NotFound")?;
        same!(message, "pods \"none\" not found");
    }
    a_log_is_of_one_container(s) {
        crowd(&s).await?;
        let message = s.get(&s.core("pods/p/log")).await?.refused(400, "BadRequest")?;
        same!(message, "a container name must be specified for pod p, choose one of: [c a b]");
        let message = s.get(&s.core("pods/p/log?container=z")).await?.refused(400, "BadRequest")?;
        same!(message, "container z is not valid for pod p");
    }
    a_pod_on_no_node_has_written_nothing(s) {
        crowd(&s).await?;
        let answer = s.get(&s.core("pods/p/log?container=a")).await?;
        same!((answer.code, answer.text.as_str()), (204, ""));
    }
    streams_belong_to_a_container_on_a_node(s) {
        crowd(&s).await?;
        for stream in ["exec", "attach"] {
            let post = async |query: &str| s.send(Method::POST, &s.core(&format!("pods/{query}")), &[], Vec::new()).await;
            same!(post(&format!("none/{stream}?command=ls")).await?.refused(404, "NotFound")?, "pods \"none\" not found");
            same!(post(&format!("p/{stream}?command=ls&container=z&stdout=true")).await?.refused(400, "BadRequest")?, "container z is not valid for pod p");
            same!(post(&format!("p/{stream}?command=ls&container=a&stdout=true")).await?.refused(400, "BadRequest")?, "pod p does not have a host assigned");
        }
        let forward = s.send(Method::POST, &s.core("pods/p/portforward?ports=80"), &[], Vec::new()).await?;
        same!(forward.refused(400, "BadRequest")?, "pod p does not have a host assigned");
    }
    the_end_of_a_log_is_counted_in_lines(s) {
        crowd(&s).await?;
        let message = s.get(&s.core("pods/p/log?container=a&tailLines=x")).await?.refused(400, "BadRequest")?;
        same!(message, "strconv.ParseInt: parsing \"x\": invalid syntax");
        let message = s.get(&s.core("pods/p/log?container=a&tailLines=-1")).await?.refused(422, "Invalid")?;
        same!(message, "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0");
    }
    a_rule_that_could_run_for_ever_is_refused(s) {
        let group = s.unique("cost").replace('-', "") + ".example.com";
        let rule = json!({"rule": "self.list.all(x, self.list.exists(y, x == y))"});
        let spec = json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {"list": {"type": "array", "items": {"type": "string"}}}});
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("widgets.{group}")}, "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}});
        let message = s.post(super::definitions::CRDS, &body).await?.refused(422, "Invalid")?;
        let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
        let place = "spec.validation.openAPIV3Schema";
        let at = format!("{place}.properties[spec].x-kubernetes-validations[0].rule");
        same!(message, format!("CustomResourceDefinition.apiextensions.k8s.io \"widgets.{group}\" is invalid: [{at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}, {at}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema, {place}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}]"));
    }
}
