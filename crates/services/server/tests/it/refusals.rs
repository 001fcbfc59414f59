//! What is refused, with which status, and that the body says what to do.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, plain_config};

#[track_caller]
fn tells(body: &str, words: &[&str]) {
    for word in words {
        assert!(body.contains(word), "{body:?} does not say {word:?}");
    }
}

#[tokio::test]
async fn a_version_that_cannot_be_served_is_refused_with_those_that_can() {
    let world = World::start(&plain_config());
    for version in ["3.0.0", "2.1.0", "4.0.0"] {
        let answer = world.get("/config/master", version).await;
        assert_eq!(answer.status(), 400, "for {version}");
        tells(&answer.text().await.unwrap(), &["3.1.0", "3.5.0"]);
    }
}

#[tokio::test]
async fn what_an_old_version_cannot_say_is_406_and_named() {
    let mut config = plain_config();
    config["storage"]["luks"] = json!([{"name": "data", "device": "/dev/sdb"}]);
    let world = World::start(&config);
    let answer = world.get("/config/master", "3.1.0").await;
    assert_eq!(answer.status(), 406);
    tells(&answer.text().await.unwrap(), &["rendered-master-1", "luks", "newer Ignition"]);
    assert_eq!(world.get("/config/master", "3.5.0").await.status(), 200);
}

#[tokio::test]
async fn machines_of_other_pools_are_told_to_come_back() {
    let world = World::start(&plain_config());
    let answer = world.get("/config/worker", "3.2.0").await;
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_config_that_is_not_there_yet_is_503_and_a_broken_one_is_500() {
    let world = World::start(&plain_config());
    let path = world.folder.path().join("machine-configs/rendered-master-1.yaml");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(world.get("/config/master", "3.2.0").await.status(), 503);
    std::fs::write(&path, "spec: [").unwrap();
    let answer = world.get("/config/master", "3.2.0").await;
    assert_eq!(answer.status(), 500);
    tells(&answer.text().await.unwrap(), &["rendered-master-1.yaml"]);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_ours_are_refused() {
    let world = World::start(&plain_config());
    for path in ["/", "/config", "/config/", "/config/a/b", "/config/master/", "/config/%6daster"] {
        assert_eq!(world.get(path, "3.2.0").await.status(), 404, "for {path}");
    }
    let posted = world.client().post(world.url("/config/master")).send().await.unwrap();
    assert_eq!(posted.status(), 405);
    assert_eq!(posted.headers()["allow"], "GET, HEAD");
}

/// Sends raw bytes to the plain port and returns all that comes back until the server closes.
async fn talk(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.plain).await.unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ =
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.expect("closed in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let world = World::start(&plain_config());
    let request = format!("GET /config/master HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let answer = talk(&world, request.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_is_dropped() {
    let world = World::start(&plain_config());
    let answer = talk(&world, b"GET /config/master HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer:?}");
}

#[tokio::test]
async fn garbage_is_answered_with_400_and_harms_nobody() {
    let world = World::start(&plain_config());
    let answer = talk(&world, b"\x00\xff\x16\x03 nonsense\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer:?}");
    assert_eq!(world.get("/healthz", "3.2.0").await.status(), 200);
}
