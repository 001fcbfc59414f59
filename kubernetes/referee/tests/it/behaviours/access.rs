//! Who may do what: certificates, tokens, roles, nodes.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{Answer, MERGE, Scope, config_map};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Lets a user do this in the own namespace.
async fn allow(s: &Scope, user: &str, rules: Value) -> Result<()> {
    let name = s.unique("role");
    let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": rules});
    s.post(&s.path(RBAC, "roles"), &role).await?.expect(201)?;
    let binding = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
    s.post(&s.path(RBAC, "rolebindings"), &binding).await?.expect(201)?;
    Ok(())
}

/// A client's rights change soon after its roles do.
async fn soon(s: &Scope, path: &str, code: u16) -> Result<()> {
    s.until(path, "the right to be known", |answer| answer.code == code).await.map(drop)
}

/// A pod of the account `robot` on a node: its uid, and the path of the account's tokens.
async fn robot(s: &Scope, name: &str, node: &str) -> Result<(String, String)> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    s.post(&s.core("serviceaccounts"), &account).await?;
    let spec = json!({"nodeName": node, "serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    let created = s.post(&s.core("pods"), &pod).await?.expect(201)?;
    Ok((created["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), s.core("serviceaccounts/robot/token")))
}

fn token_request(pod: &str, uid: &str) -> Value {
    let mut bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    if !uid.is_empty() {
        bound["uid"] = uid.into();
    }
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}})
}

/// A policy about config maps of the own namespace, bound under its own name.
async fn policy(s: &Scope, actions: Value) -> Result<String> {
    const PATH: &str = "/apis/admissionregistration.k8s.io/v1";
    let name = s.unique("policy");
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": s.namespace}}},
        "variables": [{"name": "d", "expression": "has(object.data) ? object.data : {}"}],
        "validations": [
            {"expression": "!('bad' in variables.d)", "message": "no bad", "reason": "Forbidden"},
            {"expression": "!('odd' in variables.d)"},
            {"expression": "!('boom' in variables.d) || object.data.none == 'x'"},
        ],
    });
    let body = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    s.post(&format!("{PATH}/validatingadmissionpolicies"), &body("ValidatingAdmissionPolicy", spec))
        .await?
        .expect(201)?;
    let binding = json!({"policyName": name, "validationActions": actions});
    s.post(&format!("{PATH}/validatingadmissionpolicybindings"), &body("ValidatingAdmissionPolicyBinding", binding))
        .await?
        .expect(201)?;
    Ok(name)
}

behaviours! {
    a_stranger_is_forbidden(s) {
        let answer = s.anonymous().get(&s.core("configmaps")).await?;
        let message = answer.refused(403, "Forbidden")?;
        same!(message, format!("configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{}\"", s.namespace));
    }
    a_stranger_may_ask_for_health_and_version(s) {
        for path in ["/healthz", "/readyz", "/livez", "/version"] {
            same!(s.anonymous().get(path).await?.code, 200);
        }
    }
    a_wrong_token_is_unauthorized(s) {
        let message = s.with_token("nonsense").get(&s.core("configmaps")).await?.refused(401, "Unauthorized")?;
        same!(message, "Unauthorized");
    }
    a_certificate_names_its_user(s) {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = s.as_user("jane", Some("team"))?.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?.expect(201)?;
        same!(answer["status"]["userInfo"]["username"], "jane");
        same!(answer["status"]["userInfo"]["groups"], json!(["team", "system:authenticated"]));
    }
    a_policy_denies_in_its_own_words(s) {
        let name = policy(&s, json!(["Deny"])).await?;
        let denied = async |data: Value| -> Result<Answer> {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            s.post(&s.core("configmaps?dryRun=All"), &body).await
        };
        let start = std::time::Instant::now();
        while denied(json!({"bad": "1"})).await?.code != 403 {
            holds!(start.elapsed().as_secs() < 30, "the policy never took effect");
        }
        let says = format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: ");
        let answer = denied(json!({"bad": "1"})).await?;
        same!(answer.body["details"]["causes"], json!([{"message": format!("{says}no bad")}]));
        same!(answer.refused(403, "Forbidden")?, format!("configmaps \"a\" is forbidden: {says}no bad"));
        let message = denied(json!({"odd": "1"})).await?.refused(422, "Invalid")?;
        same!(message, format!("configmaps \"a\" is forbidden: {says}failed expression: !('odd' in variables.d)"));
        let message = denied(json!({"boom": "1"})).await?.refused(422, "Invalid")?;
        same!(message, format!("configmaps \"a\" is forbidden: {says}expression '!('boom' in variables.d) || object.data.none == 'x'' resulted in error: no such key: none"));
        denied(json!({"fine": "1"})).await?.expect(201)?;
    }
    a_policy_may_only_warn(s) {
        let name = policy(&s, json!(["Warn"])).await?;
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"bad": "1", "odd": "1"}});
        let start = std::time::Instant::now();
        let warnings = loop {
            let answer = s.post(&s.core("configmaps?dryRun=All"), &body).await?;
            let warnings: Vec<String> = answer.headers.get_all("warning").iter().filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
            answer.expect(201)?;
            if !warnings.is_empty() || start.elapsed().as_secs() > 30 {
                break warnings;
            }
        };
        let says = format!("299 - \"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': ");
        same!(warnings, [format!("{says}no bad\""), format!("{says}failed expression: !('odd' in variables.d)\"")]);
    }
    a_user_without_roles_is_forbidden(s) {
        let message = s.as_user("jane", None)?.get(&s.core("secrets/a")).await?.refused(403, "Forbidden")?;
        same!(message, format!("secrets \"a\" is forbidden: User \"jane\" cannot get resource \"secrets\" in API group \"\" in the namespace \"{}\"", s.namespace));
        let message = s.as_user("jane", None)?.get("/api/v1/nodes").await?.refused(403, "Forbidden")?;
        same!(message, "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope");
    }
    a_role_allows_what_it_says_and_no_more(s) {
        let user = s.unique("reader");
        allow(&s, &user, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}])).await?;
        let reader = s.as_user(&user, None)?;
        soon(&reader, &s.core("configmaps"), 200).await?;
        reader.post(&s.core("configmaps"), &config_map("a")).await?.refused(403, "Forbidden")?;
        reader.get(&s.core("secrets")).await?.refused(403, "Forbidden")?;
        reader.get("/api/v1/configmaps").await?.refused(403, "Forbidden")?;
    }
    a_role_may_be_about_one_name(s) {
        let user = s.unique("narrow");
        s.config_map("mine").await?;
        s.config_map("other").await?;
        allow(&s, &user, json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]}])).await?;
        let narrow = s.as_user(&user, None)?;
        soon(&narrow, &s.core("configmaps/mine"), 200).await?;
        narrow.get(&s.core("configmaps/other")).await?.refused(403, "Forbidden")?;
        narrow.get(&s.core("configmaps")).await?.refused(403, "Forbidden")?;
    }
    a_subresource_needs_its_own_right(s) {
        let user = s.unique("patcher");
        let name = s.unique("x");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        allow(&s, &user, json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}])).await?;
        let patcher = s.as_user(&user, None)?;
        soon(&patcher, &s.core(&format!("pods/{name}")), 200).await?;
        patcher.patch(&s.core(&format!("pods/{name}")), MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await?.expect(200)?;
        let message = patcher.patch(&s.core(&format!("pods/{name}/status")), MERGE, &json!({})).await?.refused(403, "Forbidden")?;
        holds!(message.contains("cannot patch resource \"pods/status\""), "{message}");
    }
    a_cluster_role_reaches_everywhere(s) {
        let (user, name) = (s.unique("wide"), s.unique("wide"));
        let role = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
        s.post(&format!("/apis/{RBAC}/clusterroles"), &role).await?.expect(201)?;
        let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
        s.post(&format!("/apis/{RBAC}/clusterrolebindings"), &binding).await?.expect(201)?;
        soon(&s.as_user(&user, None)?, "/api/v1/nodes", 200).await?;
    }
    nobody_grants_more_than_they_have(s) {
        let user = s.unique("granter");
        allow(&s, &user, json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "get", "list"]}])).await?;
        let granter = s.as_user(&user, None)?;
        soon(&granter, &s.path(RBAC, "roles"), 200).await?;
        let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
        let message = granter.post(&s.path(RBAC, "roles"), &role).await?.refused(403, "Forbidden")?;
        holds!(message.contains("is attempting to grant RBAC permissions not currently held"), "{message}");
    }
    a_user_can_ask_what_it_may_do(s) {
        let review = |verb: &str| json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"namespace": s.namespace, "verb": verb, "resource": "configmaps"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        same!(s.post(path, &review("get")).await?.expect(201)?["status"]["allowed"], true);
        same!(s.as_user("jane", None)?.post(path, &review("get")).await?.expect(201)?["status"]["allowed"], false);
    }
    the_administrator_can_act_as_another(s) {
        let headers = [("Impersonate-User", "jane")];
        let answer = s.send(Method::GET, &s.core("configmaps"), &headers, Vec::new()).await?;
        holds!(answer.refused(403, "Forbidden")?.contains("User \"jane\" cannot list"), "not jane");
    }
    acting_as_another_is_a_right(s) {
        let headers = [("Impersonate-User", "admin")];
        let message = s.as_user("jane", None)?.send(Method::GET, &s.core("configmaps"), &headers, Vec::new()).await?.refused(403, "Forbidden")?;
        holds!(message.contains("User \"jane\" cannot impersonate"), "{message}");
    }
    a_service_accounts_token_names_it(s) {
        s.post(&s.core("serviceaccounts"), &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})).await?.expect(201)?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = s.post(&s.core("serviceaccounts/robot/token"), &request).await?.expect(201)?["status"]["token"].as_str().unwrap_or_default().to_owned();
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = s.with_token(&token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?.expect(201)?;
        same!(answer["status"]["userInfo"]["username"], format!("system:serviceaccount:{}:robot", s.namespace));
        let groups = answer["status"]["userInfo"]["groups"].clone();
        same!(groups, json!(["system:serviceaccounts", format!("system:serviceaccounts:{}", s.namespace), "system:authenticated"]));
    }
    a_token_ends_with_its_service_account(s) {
        s.post(&s.core("serviceaccounts"), &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})).await?.expect(201)?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = s.post(&s.core("serviceaccounts/robot/token"), &request).await?.expect(201)?["status"]["token"].as_str().unwrap_or_default().to_owned();
        s.delete(&s.core("serviceaccounts/robot")).await?.expect(200)?;
        soon(&s.with_token(&token), &s.core("configmaps"), 401).await?;
    }
    a_node_writes_its_own_node(s) {
        let name = s.unique("node");
        let node = s.as_user(&format!("system:node:{name}"), Some("system:nodes"))?;
        node.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?.expect(201)?;
        node.patch(&format!("/api/v1/nodes/{name}"), MERGE, &json!({"metadata": {"annotations": {"a": "b"}}})).await?.expect(200)?;
        node.patch(&format!("/api/v1/nodes/{name}/status"), MERGE, &json!({"status": {"phase": "Running"}})).await?.expect(200)?;
    }
    a_node_writes_no_other_node(s) {
        let (one, two) = (s.unique("node"), s.unique("node"));
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": two}})).await?.expect(201)?;
        let node = s.as_user(&format!("system:node:{one}"), Some("system:nodes"))?;
        let message = node.patch(&format!("/api/v1/nodes/{two}"), MERGE, &json!({"metadata": {"annotations": {"a": "b"}}})).await?.refused(403, "Forbidden")?;
        same!(message, format!("nodes \"{two}\" is forbidden: node \"{one}\" is not allowed to modify node \"{two}\""));
    }
    a_node_cannot_give_itself_roles(s) {
        let name = s.unique("node");
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?.expect(201)?;
        let node = s.as_user(&format!("system:node:{name}"), Some("system:nodes"))?;
        let patch = json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}});
        let message = node.patch(&format!("/api/v1/nodes/{name}"), MERGE, &patch).await?.refused(403, "Forbidden")?;
        holds!(message.contains("is not allowed to modify labels: node-role.kubernetes.io/master"), "{message}");
    }
    a_node_cannot_change_its_taints(s) {
        let name = s.unique("node");
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})).await?.expect(201)?;
        let node = s.as_user(&format!("system:node:{name}"), Some("system:nodes"))?;
        let message = node.patch(&format!("/api/v1/nodes/{name}"), MERGE, &json!({"spec": {"taints": null}})).await?.refused(403, "Forbidden")?;
        holds!(message.contains("is not allowed to modify taints"), "{message}");
    }
    a_node_reads_only_secrets_of_its_pods(s) {
        let name = s.unique("node");
        for secret in ["used", "unused"] {
            s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}})).await?.expect(201)?;
        }
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "secret": {"secretName": "used"}}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let node = s.as_user(&format!("system:node:{name}"), Some("system:nodes"))?;
        soon(&node, &s.core("secrets/used"), 200).await?;
        let message = node.get(&s.core("secrets/unused")).await?.refused(403, "Forbidden")?;
        holds!(message.contains("no relationship found between node"), "{message}");
    }
    a_right_to_a_name_is_one_to_list_and_watch_that_name(s) {
        let user = s.unique("reader");
        for name in ["mine", "other"] {
            s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})).await?.expect(201)?;
        }
        allow(&s, &user, json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch"]}])).await?;
        let reader = s.as_user(&user, None)?;
        soon(&reader, &s.core("secrets?fieldSelector=metadata.name%3Dmine"), 200).await?;
        let listed = reader.get(&s.core("secrets?fieldSelector=metadata.name%3D%3Dmine")).await?.expect(200)?;
        same!(listed["items"].as_array().map(Vec::len), Some(1));
        let message = reader.get(&s.core("secrets?fieldSelector=metadata.name%3Dother")).await?.refused(403, "Forbidden")?;
        holds!(message.contains("cannot list resource \"secrets\""), "{message}");
        reader.get(&s.core("secrets?fieldSelector=metadata.name!%3Dother")).await?.refused(403, "Forbidden")?;
        reader.get(&s.core("secrets")).await?.refused(403, "Forbidden")?;
    }
    a_token_of_a_pod_names_it_and_ends_with_it(s) {
        let node = s.unique("node");
        let (pod, _) = robot(&s, "a", &node).await?;
        let request = token_request("a", &pod);
        let token = s.post(&s.core("serviceaccounts/robot/token"), &request).await?.expect(201)?["status"]["token"].as_str().unwrap_or_default().to_owned();
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = s.with_token(&token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?.expect(201)?;
        let extra = |key: &str| answer["status"]["userInfo"]["extra"][format!("authentication.kubernetes.io/{key}")].clone();
        same!(extra("pod-name"), json!(["a"]));
        same!(extra("pod-uid"), json!([pod]));
        same!(extra("node-name"), json!([node]));
        s.delete(&s.core("pods/a?gracePeriodSeconds=0")).await?.expect(200)?;
        soon(&s.with_token(&token), &s.core("configmaps"), 401).await?;
    }
    a_token_is_bound_to_a_pod_of_the_account_and_of_that_uid_only(s) {
        let node = s.unique("node");
        let (pod, _) = robot(&s, "a", &node).await?;
        s.post(&s.core("serviceaccounts"), &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other"}})).await?.expect(201)?;
        let message = s.post(&s.core("serviceaccounts/other/token"), &token_request("a", &pod)).await?.refused(400, "BadRequest")?;
        same!(message, "cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name.");
        let message = s.post(&s.core("serviceaccounts/robot/token"), &token_request("a", "another")).await?.refused(409, "Conflict")?;
        holds!(message.contains("the UID in the bound object reference (another) does not match the UID in record"), "{message}");
        let message = s.post(&s.core("serviceaccounts/robot/token"), &token_request("b", "")).await?.refused(404, "NotFound")?;
        same!(message, "pods \"b\" not found");
    }
    a_node_gets_tokens_of_its_own_pods_only(s) {
        let (one, two) = (s.unique("node"), s.unique("node"));
        let (pod, path) = robot(&s, "a", &one).await?;
        let (foreign, _) = robot(&s, "b", &two).await?;
        let node = s.as_user(&format!("system:node:{one}"), Some("system:nodes"))?;
        let token = |name: &str, uid: &str| token_request(name, uid);
        // The authorizer learns of pods by a watch; until then it knows of no relation.
        referee::wait::wait_until("the node to be related to its pod", || async {
            node.post(&path, &token("a", &pod)).await.ok().filter(|answer| answer.code == 201)
        })
        .await;
        let unbound = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let message = node.post(&path, &unbound).await?.refused(403, "Forbidden")?;
        holds!(message.contains("node requested token not bound to a pod"), "{message}");
        let message = node.post(&path, &token("a", "")).await?.refused(403, "Forbidden")?;
        holds!(message.contains("node requested token with a pod binding without a uid"), "{message}");
        let message = node.post(&path, &token("b", &foreign)).await?.refused(403, "Forbidden")?;
        holds!(message.contains("node requested token bound to a pod scheduled on a different node"), "{message}");
    }
    a_node_evicts_only_its_own_pods(s) {
        let name = s.unique("node");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "another", "containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let node = s.as_user(&format!("system:node:{name}"), Some("system:nodes"))?;
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
        node.post(&s.core("pods/a/eviction"), &eviction).await?.refused(403, "Forbidden")?;
    }
    a_certificate_is_requested_approved_and_signed(s) {
        let name = s.unique("csr");
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": csr("jane"), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}});
        let created = s.post(path, &request).await?.expect(201)?;
        same!(created["spec"]["username"], "admin");
        let mut approved = created.clone();
        approved["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test", "message": "ok"}]);
        s.put(&format!("{path}/{name}/approval"), &approved).await?.expect(200)?;
        let answer = s.until(&format!("{path}/{name}"), "a certificate", |answer| answer.body["status"]["certificate"].is_string()).await?;
        holds!(answer.body["status"]["certificate"].as_str().is_some_and(|text| text.len() > 100), "{answer:?}");
    }
}

/// A certificate request for a user, as the API takes it: base64 of PEM.
fn csr(user: &str) -> String {
    use base64::Engine as _;
    let key = rcgen::KeyPair::generate().expect("a key can be made");
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, user);
    let pem = parameters.serialize_request(&key).and_then(|request| request.pem()).expect("a request can be made");
    base64::engine::general_purpose::STANDARD.encode(pem)
}
