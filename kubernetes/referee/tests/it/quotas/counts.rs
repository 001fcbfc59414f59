//! Quotas of numbers: any kind by its full name, some by a short one, and custom kinds.

use serde_json::{Value, json};

use super::{Scenario, Step, core, delete, patch, post, quota};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![short(), full(), together()]
}

pub(super) fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn object(version: &str, kind: &str, name: &str, extra: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    extra.as_object().unwrap().iter().for_each(|(key, value)| object[key] = value.clone());
    object
}

fn short() -> Scenario {
    let hard = json!({"configmaps": "2", "secrets": "1", "replicationcontrollers": "0", "resourcequotas": "2"});
    let used = |maps: &str, secrets: &str, quotas: &str| {
        Step::Settled(
            "short",
            json!({"configmaps": maps, "secrets": secrets, "replicationcontrollers": "0", "resourcequotas": quotas}),
        )
    };
    let map = |name: &str| object("v1", "ConfigMap", name, json!({"data": {"a": "b"}}));
    let secret = |name: &str| object("v1", "Secret", name, json!({}));
    let controller = object(
        "v1",
        "ReplicationController",
        "c",
        json!({"spec": {"replicas": 0, "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    );
    let maps = core("configmaps");
    let steps = vec![
        post(&core("resourcequotas"), quota("short", hard)),
        // Each namespace has one from the start.
        used("1", "0", "1"),
        post(&maps, map("first")),
        post(&maps, map("second")),
        post(&core("secrets"), secret("first")),
        post(&core("secrets"), secret("second")),
        post(&core("replicationcontrollers"), controller),
        post(&core("resourcequotas"), quota("other", json!({"count/configmaps": "9"}))),
        post(&core("resourcequotas"), quota("third", json!({"count/configmaps": "9"}))),
        used("2", "1", "2"),
        Step::Settled("other", json!({"count/configmaps": "2"})),
        // A change costs nothing, and what is refused for another reason neither.
        patch(&format!("{maps}/first"), json!({"data": {"a": "c"}})),
        post(&maps, map("Bad_Name")),
        delete(&format!("{maps}/first")),
        used("1", "1", "2"),
        post(&maps, map("again")),
        Step::Ask(reqwest::Method::PATCH, format!("{maps}/applied?fieldManager=me"), super::APPLY, map("applied")),
        used("2", "1", "2"),
    ];
    Scenario { name: "quota-short", steps }
}

fn full() -> Scenario {
    let deployments = "/apis/apps/v1/namespaces/…/deployments";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/…/leases";
    let accounts = core("serviceaccounts");
    let hard = json!({"count/deployments.apps": "1", "count/leases.coordination.k8s.io": "1", "count/serviceaccounts": "2",
        "count/roles.rbac.authorization.k8s.io": "0"});
    let used = |deployments: &str, leases: &str| {
        Step::Settled(
            "full",
            json!({"count/deployments.apps": deployments, "count/leases.coordination.k8s.io": leases,
            "count/serviceaccounts": "2", "count/roles.rbac.authorization.k8s.io": "0"}),
        )
    };
    let deployment = |name: &str| {
        object(
            "apps/v1",
            "Deployment",
            name,
            json!({"spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        )
    };
    let lease = |name: &str| object("coordination.k8s.io/v1", "Lease", name, json!({"spec": {}}));
    let put = |name: &str| Step::Ask(reqwest::Method::PUT, format!("{leases}/{name}"), super::JSON, lease(name));
    let role = object("rbac.authorization.k8s.io/v1", "Role", "r", json!({"rules": []}));
    let steps = vec![
        post(&accounts, object("v1", "ServiceAccount", "second", json!({}))),
        post(&core("resourcequotas"), quota("full", hard)),
        used("0", "0"),
        post(&accounts, object("v1", "ServiceAccount", "third", json!({}))),
        post(deployments, deployment("a")),
        post(deployments, deployment("b")),
        put("a"),
        put("b"),
        post("/apis/rbac.authorization.k8s.io/v1/namespaces/…/roles", role),
        used("1", "1"),
        patch(&format!("{deployments}/a/scale"), json!({"spec": {"replicas": 1}})),
        delete(&format!("{leases}/a")),
        used("1", "0"),
        put("b"),
        used("1", "1"),
    ];
    Scenario { name: "quota-full", steps }
}

/// Two quotas about the same objects, of which one is smaller.
fn together() -> Scenario {
    let secrets = core("secrets");
    let secret = |name: &str| object("v1", "Secret", name, json!({}));
    let steps = vec![
        post(&core("resourcequotas"), quota("small", json!({"secrets": "1"}))),
        post(&core("resourcequotas"), quota("large", json!({"count/secrets": "5", "secrets": "5"}))),
        Step::Settled("small", json!({"secrets": "0"})),
        Step::Settled("large", json!({"secrets": "0", "count/secrets": "0"})),
        post(&secrets, secret("a")),
        Step::Settled("small", json!({"secrets": "1"})),
        Step::Settled("large", json!({"secrets": "1", "count/secrets": "1"})),
        post(&secrets, secret("b")),
        Step::Settled("large", json!({"secrets": "1", "count/secrets": "1"})),
        delete(&core("resourcequotas/small")),
        post(&secrets, secret("b")),
        Step::Settled("large", json!({"secrets": "2", "count/secrets": "2"})),
    ];
    Scenario { name: "quota-together", steps }
}

pub(super) fn custom() -> Scenario {
    let widgets = "/apis/example.com/v1/namespaces/…/widgets";
    let widget = |name: &str| object("example.com/v1", "Widget", name, json!({"spec": {}}));
    let used = |count: &str| Step::Settled("first", json!({"count/widgets.example.com": count}));
    let steps = vec![
        used("0"),
        post(widgets, widget("a")),
        post(widgets, widget("b")),
        used("1"),
        patch(&format!("{widgets}/a"), json!({"spec": {"x": 1}})),
        delete(&format!("{widgets}/a")),
        used("0"),
        post(widgets, widget("b")),
        used("1"),
    ];
    Scenario { name: "quota-custom", steps }
}
