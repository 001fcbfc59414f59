//! What the API refuses once is told to it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::annotations;
use http::{Method, Request};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use serde_json::json;

use crate::configs::config;
use crate::stage::{Fate, NODE, Stage};

const WITNESS: &str = "127.0.0.1:1";

fn writes_the_node(request: &Request<Body>) -> bool {
    request.method() == Method::PATCH && request.uri().path().ends_with(&format!("/nodes/{NODE}"))
}

#[tokio::test]
async fn a_probe_is_answered_again_when_the_first_answer_of_an_idle_node_is_refused() {
    let stage = Stage::start_idle(json!({annotations::PROBE: "7"})).await;
    let is_first = AtomicBool::new(true);
    let daemon = stage.run_with(WITNESS, move |request| {
        let is_refused = writes_the_node(request) && is_first.swap(false, Ordering::SeqCst);
        if is_refused { Fate::Refused } else { Fate::Arrives }
    });
    stage.loses(1).await;
    stage.node("the answer", |get| get(annotations::ANSWERED) == "7").await;
    daemon.abort();
}

#[tokio::test]
async fn a_drain_is_asked_for_again_when_the_first_request_is_refused() {
    let stage = Stage::start(&config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))).await;
    stage.create(&config("rendered-worker-two", &[("/etc/a", "2")], &json!([]), &json!([]))).await;
    let topology = json!({"metadata": {"annotations": {annotations::CONTROL_PLANE_TOPOLOGY: null}}});
    stage.nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(topology)).await.unwrap();
    let is_next = Arc::new(AtomicBool::new(false));
    let next = Arc::clone(&is_next);
    let daemon = stage.run_with(WITNESS, move |request| {
        let is_refused = writes_the_node(request) && next.swap(false, Ordering::SeqCst);
        if is_refused { Fate::Refused } else { Fate::Arrives }
    });
    stage
        .node("the node to be at rest", |get| {
            get(annotations::DESIRED_DRAIN) == "uncordon-rendered-worker-one" && !get(annotations::DAEMON).is_empty()
        })
        .await;
    is_next.store(true, Ordering::SeqCst);
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    stage.node("the drain to be asked for", |get| get(annotations::DESIRED_DRAIN) == "drain-rendered-worker-two").await;
    assert_eq!(stage.phase(), None, "nothing is written before the drain");
    daemon.abort();
}
