//! Who may do what.

use serde_json::json;

use crate::wire::Wire;

async fn as_user(wire: &Wire, token: &str, method: &str, path: &str, body: &serde_json::Value) -> (u16, String) {
    let request = wire.request(method, path, "application/json", body.to_string());
    let mut request = request.build().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let reply = wire.execute(request).await;
    (reply.code, reply.message().to_owned())
}

#[tokio::test]
async fn strangers_see_health_and_nothing_else() {
    let wire = Wire::start().await;
    let mut request = wire.request("GET", "/api/v1/nodes", "", "").build().unwrap();
    request.headers_mut().remove("authorization");
    let reply = wire.execute(request).await;
    assert_eq!(reply.code, 403);
    let message = "nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(reply.message(), message);
    let mut request = wire.request("GET", "/healthz", "", "").build().unwrap();
    request.headers_mut().remove("authorization");
    assert_eq!(wire.execute(request).await.text, "ok");
    let (code, message) = as_user(&wire, "wrong", "GET", "/api/v1/nodes", &json!({})).await;
    assert_eq!((code, message.as_str()), (401, "Unauthorized"));
}

#[tokio::test]
async fn roles_grant_exactly_what_they_say() {
    let wire = Wire::start().await;
    wire.server.add_token("t", "jane", &[]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["one"]}]});
    wire.post(&format!("{rbac}/roles"), &role).await;
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    assert_eq!(wire.post(&format!("{rbac}/rolebindings"), &binding).await.code, 201);
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(as_user(&wire, "t", "GET", &format!("{maps}/one"), &json!({})).await.0, 404);
    let (code, message) = as_user(&wire, "t", "GET", &format!("{maps}/two"), &json!({})).await;
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "configmaps \"two\" is forbidden: User \"jane\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let (code, message) = as_user(&wire, "t", "POST", &format!("{rbac}/roles"), &role).await;
    assert_eq!(code, 403, "{message}");
}

#[tokio::test]
async fn nobody_grants_more_than_they_have() {
    let wire = Wire::start().await;
    wire.server.add_token("t", "jane", &[]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "admin", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    wire.post(&format!("{rbac}/namespaces/default/rolebindings"), &binding).await;
    // The role is aggregated a moment after the start.
    let path = format!("{rbac}/clusterroles/admin");
    while wire.get(&path).await.body["rules"].as_array().is_none_or(Vec::is_empty) {
        tokio::task::yield_now().await;
    }
    let roles = format!("{rbac}/namespaces/default/roles");
    let role = |name: &str, resource: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]});
    let (code, message) = as_user(&wire, "t", "POST", &roles, &role("ok", "pods")).await;
    assert_eq!(code, 201, "{message}");
    let (code, message) = as_user(&wire, "t", "POST", &roles, &role("no", "nodes")).await;
    assert_eq!(code, 403);
    assert!(message.contains("is attempting to grant RBAC permissions not currently held"), "{message}");
}

#[tokio::test]
async fn a_node_touches_its_own_node_only() {
    let wire = Wire::start().await;
    wire.server.add_token("n", "system:node:a", &["system:nodes"]);
    let nodes = "/api/v1/nodes";
    let node = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(as_user(&wire, "n", "POST", nodes, &node("a")).await.0, 201);
    let (code, message) = as_user(&wire, "n", "POST", nodes, &node("b")).await;
    assert_eq!(
        (code, message.as_str()),
        (403, "nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\"")
    );
    assert_eq!(as_user(&wire, "n", "GET", nodes, &json!({})).await.0, 403);
    assert_eq!(
        as_user(&wire, "n", "GET", &format!("{nodes}?fieldSelector=metadata.name%3Da"), &json!({})).await.0,
        200
    );
    let tainted = json!({"metadata": {"name": "a"}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
    let (code, message) = as_user(&wire, "n", "PUT", &format!("{nodes}/a"), &tainted).await;
    assert_eq!((code, message.as_str()), (403, "nodes \"a\" is forbidden: node \"a\" is not allowed to modify taints"));
    let labelled = json!({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let (code, _) = as_user(&wire, "n", "PUT", &format!("{nodes}/a"), &labelled).await;
    assert_eq!(code, 403);
    assert_eq!(as_user(&wire, "n", "GET", "/api/v1/namespaces/default/secrets/s", &json!({})).await.0, 403);
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(as_user(&wire, "n", "POST", leases, &lease).await.0, 201);
}

#[tokio::test]
async fn reviews_and_impersonation_answer_for_others() {
    let wire = Wire::start().await;
    let review = json!({"spec": {"user": "joe", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(wire.post(path, &review).await.body["status"]["allowed"], false);
    let own = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(wire.post(own, &json!({})).await.body["status"]["userInfo"]["username"], "admin");
    let request = wire.request("GET", "/api/v1/nodes", "", "").header("impersonate-user", "joe");
    let reply = wire.send(request).await;
    assert!(reply.message().contains("User \"joe\" cannot list resource \"nodes\""), "{}", reply.text);
}
