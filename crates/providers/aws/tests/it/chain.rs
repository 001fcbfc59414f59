//! Credentials by AWS's official chain, in a process whose environment is the test's to choose.

use std::env;

use aws::{Aws, Settings};
use axum::{Json, Router};
use machine::provider::{Provider, Request, Secrets};
use serde_json::json;

use crate::world::World;

/// Its presence tells the second test that the first one started it.
const CHILD: &str = "MACHINIST_TEST_CHAIN";

#[tokio::test]
async fn without_a_secret_the_official_chain_is_asked() {
    let Some(world) = World::start("chain").await else { return };
    let keys = keys().await;
    let mut child = tokio::process::Command::new(env::current_exe().unwrap());
    child.args(["--exact", "chain::a_process_of_its_own_logs_in"]).env(CHILD, "yes");
    child.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", keys).env("AWS_ENDPOINT_URL_EC2", &world.edge.url);
    for file in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        child.env(file, "/dev/null");
    }
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"] {
        child.env_remove(key);
    }
    assert!(child.status().await.unwrap().success());
    let arrived = world.edge.arrived("DescribeInstances").pop().expect("the child asked");
    assert_eq!(arrived.access_key(), "ASIACHAIN");
    assert_eq!(arrived.headers.get("x-amz-security-token").unwrap(), "session");
}

/// Plays the service that gives containers their credentials.
async fn keys() -> String {
    let answer = json!({
        "AccessKeyId": "ASIACHAIN",
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": "2099-01-01T00:00:00Z",
    });
    let router = Router::new().fallback(async move || Json(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// The child of the test above, which looks at what it did; by itself it has nothing to do.
#[tokio::test]
async fn a_process_of_its_own_logs_in() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = Request {
        mark: machine::provider::Mark { cluster: "chain-cluster".to_owned(), ..Default::default() },
        labels: Default::default(),
        control_plane: false,
        spec: json!({"placement": {"region": "us-east-1"}}).into(),
        provider_id: None,
        provider_status: None,
        intent: None,
        secrets: Secrets::default().into(),
    };
    let provider = Aws::new(Settings::default()).unwrap();
    let answer = provider.instances(std::slice::from_ref(&request)).await.pop().unwrap();
    assert_eq!(answer.unwrap(), []);
}
