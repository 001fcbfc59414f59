//! The objects every cluster starts with: namespaces, roles, priority classes, flow schemas, the `kubernetes` service.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    housekeeping::api_services,
    object::{Draft, Key, Name},
    server::Api,
    store::{Error, Expect, Write},
    verbs::now,
};

const RBAC: &str = "rbac.authorization.k8s.io";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// Creates what is not there yet. What a user changed stays changed.
pub(crate) async fn ensure(api: &Arc<Api>) -> Result<(), String> {
    let mut first: Vec<(String, &str, Value)> = Vec::new();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}});
        first.push(("/namespaces".to_owned(), "", namespace));
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({
            "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": name},
            "value": value, "description": description,
        });
        first.push(("scheduling.k8s.io/priorityclasses".to_owned(), "", class));
    }
    first.extend(builtin::flow::objects(&now).map(|(collection, object)| (collection, "", object)));
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": now(),
    });
    let range = json!({
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [builtin::services::RANGE]}, "status": {"conditions": [ready]},
    });
    first.push(("networking.k8s.io/servicecidrs".to_owned(), "", range));
    let service = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    first.push(("/services".to_owned(), "default", service));
    for (name, labels, rules, aggregate) in cluster_roles() {
        let mut role = json!({
            "kind": "ClusterRole", "apiVersion": format!("{RBAC}/v1"), "metadata": metadata(name), "rules": rules,
        });
        for label in labels {
            role["metadata"]["labels"][format!("{RBAC}/{label}")] = "true".into();
        }
        if let Some(label) = aggregate {
            let key = format!("{RBAC}/{label}");
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]});
        }
        first.push((format!("{RBAC}/clusterroles"), "", role));
    }
    for (name, subjects) in [
        ("cluster-admin", vec!["system:masters"]),
        ("system:monitoring", vec!["system:monitoring"]),
        ("system:discovery", vec!["system:authenticated"]),
        ("system:basic-user", vec!["system:authenticated"]),
        ("system:public-info-viewer", vec!["system:authenticated", "system:unauthenticated"]),
    ] {
        let subjects: Vec<Value> =
            subjects.iter().map(|group| json!({"kind": "Group", "apiGroup": RBAC, "name": group})).collect();
        let binding = json!({
            "kind": "ClusterRoleBinding", "apiVersion": format!("{RBAC}/v1"), "metadata": metadata(name),
            "roleRef": {"kind": "ClusterRole", "apiGroup": RBAC, "name": name}, "subjects": subjects,
        });
        first.push((format!("{RBAC}/clusterrolebindings"), "", binding));
    }
    // All at once, so that they share the disk's syncs: one after the other they are most of the time a start takes.
    let written = first
        .into_iter()
        .map(|(collection, namespace, value)| async move { create(api, &collection, namespace, value).await });
    futures::future::try_join_all(written).await?;
    api_services::settle(api, api_services::Moment::Start).await;
    Ok(())
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

/// Commits an object of the server's own making, unless it exists.
pub(crate) async fn create(api: &Arc<Api>, collection: &str, namespace: &str, mut value: Value) -> Result<(), String> {
    let registry = api.registry.load_full();
    let resource = registry.of_collection(collection).ok_or_else(|| format!("{collection} is not served"))?;
    let name = crate::object::text(&value["metadata"]["name"]).to_owned();
    let key = Key { collection: Arc::clone(&resource.collection), name: Name::new(namespace, &name) };
    if api.store.get(collection, &key.name).is_some() {
        return Ok(());
    }
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    value["metadata"]["uid"] = uuid::Uuid::new_v4().to_string().into();
    value["metadata"]["creationTimestamp"] = now().into();
    if resource.rules.strategy.generation.starts() {
        value["metadata"]["generation"] = 1.into();
    }
    resource.rules.default(&mut value, &now);
    let status = value.get("status").cloned();
    resource.rules.prepare_create(&mut value, &now);
    if let Some(status) = status {
        value["status"] = status;
    }
    match api.store.commit(Write::Put(Box::new(Draft::new(key, &value)), Expect::Absent)).await {
        Ok(_) | Err(Error::Stale) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

fn paths(paths: &[&str]) -> Value {
    json!({"verbs": ["get"], "nonResourceURLs": paths})
}

type Role = (&'static str, Vec<&'static str>, Vec<Value>, Option<&'static str>);

fn cluster_roles() -> Vec<Role> {
    let everything = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    vec![
        ("cluster-admin", vec![], vec![rule(&["*"], &["*"], &["*"]), everything], None),
        (
            "system:node-bootstrapper",
            vec![],
            vec![rule(&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"])],
            None,
        ),
        (
            "system:discovery",
            vec![],
            vec![paths(&[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ])],
            None,
        ),
        (
            "system:monitoring",
            vec![],
            vec![paths(&[
                "/healthz",
                "/healthz/*",
                "/livez",
                "/livez/*",
                "/metrics",
                "/metrics/slis",
                "/readyz",
                "/readyz/*",
            ])],
            None,
        ),
        (
            "system:basic-user",
            vec![],
            vec![
                rule(&["create"], &["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                rule(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ],
            None,
        ),
        (
            "system:public-info-viewer",
            vec![],
            vec![paths(&["/healthz", "/livez", "/readyz", "/version", "/version/"])],
            None,
        ),
        ("admin", vec![], vec![], Some("aggregate-to-admin")),
        ("edit", vec!["aggregate-to-admin"], vec![], Some("aggregate-to-edit")),
        ("view", vec!["aggregate-to-edit"], vec![], Some("aggregate-to-view")),
        (
            "system:aggregate-to-admin",
            vec!["aggregate-to-admin"],
            vec![
                rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
                rule(&[WRITE.as_slice(), &READ].concat(), &[RBAC], &["rolebindings", "roles"]),
            ],
            None,
        ),
        ("system:aggregate-to-edit", vec!["aggregate-to-edit"], edit_rules(), None),
        ("system:aggregate-to-view", vec!["aggregate-to-view"], view_rules(), None),
        ("system:node", vec![], node_rules(), None),
    ]
}

fn view_rules() -> Vec<Value> {
    vec![
        rule(
            &READ,
            &[""],
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ],
        ),
        rule(
            &READ,
            &[""],
            &[
                "bindings",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ],
        ),
        rule(&READ, &[""], &["namespaces"]),
        rule(&READ, &["", "events.k8s.io"], &["events"]),
        rule(&READ, &["discovery.k8s.io"], &["endpointslices"]),
        rule(
            &READ,
            &["apps"],
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
        ),
        rule(&READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
        rule(&READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ]
}

fn edit_rules() -> Vec<Value> {
    vec![
        rule(
            &READ,
            &[""],
            &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"],
        ),
        rule(&["impersonate"], &[""], &["serviceaccounts"]),
        rule(&WRITE, &[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
        rule(&["create"], &[""], &["pods/eviction"]),
        rule(
            &WRITE,
            &[""],
            &[
                "configmaps",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
        ),
        rule(&["create"], &[""], &["serviceaccounts/token"]),
        rule(&WRITE, &["", "events.k8s.io"], &["events"]),
        rule(
            &WRITE,
            &["apps"],
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
        ),
        rule(&WRITE, &["batch"], &["cronjobs", "jobs"]),
        rule(&WRITE, &["policy"], &["poddisruptionbudgets"]),
        rule(&[WRITE.as_slice(), &READ].concat(), &["coordination.k8s.io"], &["leases"]),
    ]
}

/// Printed for information; nodes are judged by the node rules, not by a binding to this role.
fn node_rules() -> Vec<Value> {
    vec![
        rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews", "subjectaccessreviews"]),
        rule(&READ, &[""], &["services"]),
        rule(&["create", "get", "list", "watch"], &[""], &["nodes"]),
        rule(&["patch", "update"], &[""], &["nodes/status"]),
        rule(&["patch", "update"], &[""], &["nodes"]),
        rule(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]),
        rule(&READ, &[""], &["pods"]),
        rule(&["create", "delete"], &[""], &["pods"]),
        rule(&["patch", "update"], &[""], &["pods/status"]),
        rule(&["create"], &[""], &["pods/eviction"]),
        rule(&READ, &[""], &["configmaps", "secrets"]),
        rule(&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"]),
        rule(&["create", "delete", "get", "patch", "update"], &["coordination.k8s.io"], &["leases"]),
        rule(&["create", "delete", "get", "patch", "update"], &["storage.k8s.io"], &["csinodes"]),
    ]
}
