//! What the cluster says about updates and cannot be read is not nothing: no update begins on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::annotations;
use daemon::cluster_policy::ClusterPolicy;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::configs::config;
use crate::stage::{Fate, Stage};

const WITNESS: &str = "127.0.0.1:1";

#[tokio::test]
async fn an_update_waits_for_a_policy_that_the_node_may_not_read_and_names_the_right() {
    for (plural, group) in [
        ("poolpolicies", "machinist.dev"),
        ("clustersettings", "machinist.dev"),
        ("machineconfigurations", "operator.openshift.io"),
    ] {
        let stage = Stage::start(&config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))).await;
        stage.create(&config("rendered-worker-two", &[("/etc/a", "2")], &json!([]), &json!([]))).await;
        let is_granted = Arc::new(AtomicBool::new(false));
        let granted = Arc::clone(&is_granted);
        let daemon = stage.run_with(WITNESS, move |request| {
            let is_refused = request.uri().path().contains(&format!("/{plural}/")) && !granted.load(Ordering::SeqCst);
            if is_refused { Fate::Refused } else { Fate::Arrives }
        });
        stage.ask_for("rendered-worker-two").await;
        let node = stage.node("the node to be degraded", |get| get(annotations::STATE) == "Degraded").await;
        let reason = &node.metadata.annotations.unwrap()[annotations::REASON];
        assert!(reason.contains(&format!("this node lacks the right to get {plural}.{group}")), "{reason}");
        assert_eq!(std::fs::read_to_string(stage.root().join("etc/a")).unwrap(), "1");
        assert_eq!(stage.phase(), None, "nothing was begun");
        is_granted.store(true, Ordering::SeqCst);
        // A change of this file reboots.
        daemon.await.unwrap();
        assert_eq!(std::fs::read_to_string(stage.root().join("etc/a")).unwrap(), "2");
    }
}

/// What is read where the API gives this for the MachineConfiguration, and serves these kinds of `operator.openshift.io`.
async fn read(code: u16, answer: Value, served: &'static [&'static str]) -> Result<ClusterPolicy, String> {
    let line = tower::service_fn(move |request: Request<Body>| {
        let failure = |code: u16| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "no", "code": code});
            (code, status)
        };
        let (code, body) = match request.uri().path() {
            path if path.ends_with("/machineconfigurations/cluster") && code == 200 => (code, answer.clone()),
            path if path.ends_with("/machineconfigurations/cluster") => failure(code),
            "/apis/operator.openshift.io/v1" if served.is_empty() => failure(404),
            "/apis/operator.openshift.io/v1" => {
                let kinds: Vec<Value> = served
                    .iter()
                    .map(
                        |name| json!({"name": name, "kind": "K", "singularName": "", "namespaced": false, "verbs": []}),
                    )
                    .collect();
                let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "operator.openshift.io/v1",
                    "resources": kinds});
                (200, list)
            }
            _ => failure(404),
        };
        let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, kube::Error>(answer) }
    });
    let config = config("rendered-worker-one", &[], &json!([]), &json!([]));
    ClusterPolicy::read(&Client::new(line, "default"), &config).await.map_err(|error| cluster::error::chain(&error))
}

fn configuration(spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": spec, "status": status})
}

#[tokio::test]
async fn a_kind_that_the_api_does_not_have_says_nothing_even_where_asking_is_refused() {
    assert!(read(404, Value::Null, &[]).await.is_ok());
    assert!(read(403, Value::Null, &[]).await.is_ok(), "the group is not installed");
    assert!(read(403, Value::Null, &["etcds"]).await.is_ok(), "the kind is not installed");
    let problem = read(403, Value::Null, &["machineconfigurations"]).await.unwrap_err();
    assert!(problem.contains("lacks the right to get machineconfigurations.operator.openshift.io"), "{problem}");
    for code in [401, 429, 500] {
        assert!(read(code, Value::Null, &["machineconfigurations"]).await.is_err(), "{code}");
    }
}

#[tokio::test]
async fn a_field_that_cannot_be_followed_is_named_and_no_default_takes_its_place() {
    let file = json!({"path": "/etc/a", "actions": [{"type": "Levitate"}]});
    let file = json!({"files": [file]});
    let merged = json!({"nodeDisruptionPolicyStatus": {"clusterPolicies": file}});
    for (spec, status, field) in [
        (json!({"nodeDisruptionPolicy": file}), json!({}), "spec.nodeDisruptionPolicy"),
        (json!({}), merged, "status.nodeDisruptionPolicyStatus.clusterPolicies"),
        (json!({"nodeDisruptionPolicy": {"files": 7}}), json!({}), "spec.nodeDisruptionPolicy.files"),
        (
            json!({"irreconcilableValidationOverrides": {"storage": ["Tapes"]}}),
            json!({}),
            "spec.irreconcilableValidationOverrides",
        ),
    ] {
        let problem = read(200, configuration(&spec, &status), &[]).await.unwrap_err();
        assert!(
            problem.starts_with(&format!("{field} of MachineConfiguration cluster cannot be followed")),
            "{problem}"
        );
    }
    assert!(read(200, configuration(&json!({}), &json!({})), &[]).await.is_ok());
}
