//! Responses for machines: versions, caching, compression, kernel arguments.

use serde_json::{Value, json};
use testkit::certify;

use crate::world::{ACCEPT, World, plain_config};

#[tokio::test]
async fn a_machine_gets_the_config_in_the_version_it_asks_for() {
    let world = World::start(&plain_config());
    for version in ["2.2.0", "3.1.0", "3.2.0", "3.5.0"] {
        let answer = world.get("/config/master", version).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        let config: Value = answer.json().await.unwrap();
        assert_eq!(config["ignition"]["version"], version);
        let paths: Vec<&str> =
            config["storage"]["files"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str()).collect();
        assert_eq!(
            paths,
            [
                "/etc/motd",
                "/etc/kubernetes/kubelet-ca.crt",
                "/etc/machine-config-daemon/node-annotations.json",
                "/etc/kubernetes/kubeconfig",
                "/etc/mcs-machine-config-content.json",
                "/etc/ignition-machine-config-encapsulated.json",
            ]
        );
    }
}

#[tokio::test]
async fn an_unchanged_config_is_not_sent_again() {
    let world = World::start(&plain_config());
    let first = world.get("/config/master", "3.2.0").await;
    let etag = first.headers()["etag"].clone();
    let request = world.client().get(world.url("/config/master")).header("accept", format!("{ACCEPT}3.2.0"));
    let again = request.header("if-none-match", etag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert!(again.bytes().await.unwrap().is_empty());
}

#[tokio::test]
async fn head_tells_the_length_and_sends_no_body() {
    let world = World::start(&plain_config());
    let length = world.get("/config/master", "3.2.0").await.bytes().await.unwrap().len();
    let request = world.client().head(world.url("/config/master")).header("accept", format!("{ACCEPT}3.2.0"));
    let head = request.send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["content-length"], length.to_string().as_str());
    assert!(head.bytes().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_takes_gzip_gets_gzip() {
    let world = World::start(&plain_config());
    let request = world.client().get(world.url("/config/master")).header("accept", format!("{ACCEPT}3.2.0"));
    let answer = request.header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert!(answer.headers()["vary"].to_str().unwrap().contains("Accept-Encoding"));
    assert_eq!(&answer.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
}

#[tokio::test]
async fn a_new_certificate_is_used_without_a_restart() {
    let world = World::start(&plain_config());
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
    certify(world.folder.path(), "second");
    // Clients that trust only the new certificate fail until the server has loaded it.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let client = world.client();
    while client.get(world.url("/healthz")).send().await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the new certificate was never used");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn kernel_arguments_appear_once_in_every_version_and_request() {
    let mut config = plain_config();
    config["kernelArguments"] = json!({"shouldExist": ["quiet"]});
    let world = World::start(&config);
    for version in ["3.2.0", "3.5.0", "2.2.0", "3.2.0", "3.2.0"] {
        let served: Value = world.get("/config/master", version).await.json().await.unwrap();
        let in_ignition = served["kernelArguments"]["shouldExist"].as_array().map_or(0, Vec::len);
        let files = served["storage"]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == "/etc/ignition-machine-config-encapsulated.json").unwrap();
        let content = ignition::data_url::decode(file["contents"]["source"].as_str().unwrap()).unwrap();
        let content: Value = serde_json::from_slice(&content).unwrap();
        let in_machine_config = content["spec"]["kernelArguments"].as_array().map_or(0, Vec::len);
        // Specs before 3.3 cannot express kernel arguments, so the daemon sets them.
        let expected = if version == "3.5.0" { (1, 0) } else { (0, 1) };
        assert_eq!((in_ignition, in_machine_config), expected, "for {version}: {content}");
    }
}

#[tokio::test]
async fn health_and_metrics_need_no_token() {
    let world = World::start_closed(&plain_config());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path, "3.2.0").await.status(), 200);
    }
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 401);
    let metrics = world.get("/metrics", "3.2.0").await.text().await.unwrap();
    assert!(metrics.contains("mcs_requests_total{code=\"401\"} 1"), "{metrics}");
    assert!(metrics.contains("mcs_connections "), "{metrics}");
}
