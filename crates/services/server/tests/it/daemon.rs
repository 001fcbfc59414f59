//! The daemon's binary over the network: addressed by its hash, read from disk, and referred to by configs of machines
//! that lack it.

use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use server::Daemon;
use sha2::{Digest as _, Sha256, Sha512};

use crate::world::{World, plain_config};

/// Longer than one chunk, not a multiple of it, and not uniform.
fn binary() -> Vec<u8> {
    (0..300_001_u32).map(|number| (number % 251) as u8).collect()
}

fn sum() -> String {
    hex::encode(Sha256::digest(binary()))
}

fn put(folder: &Path, compressed: &[u8]) -> Daemon {
    let path = folder.join("machinistd");
    std::fs::write(&path, binary()).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(compressed).unwrap();
    std::fs::write(folder.join("machinistd.gz"), gzip.finish().unwrap()).unwrap();
    Daemon::load(&path).unwrap()
}

fn world(config: &Value) -> World {
    World::start_with_daemon(config, &|folder| put(folder, &binary()))
}

#[tokio::test]
async fn the_binary_is_served_by_its_hash_and_never_changes() {
    let world = world(&plain_config());
    // The bytes that were hashed are served, even after the path is replaced.
    std::fs::remove_file(world.folder.path().join("machinistd")).unwrap();
    std::fs::write(world.folder.path().join("machinistd"), "newer").unwrap();
    let url = world.url(&format!("/daemon/{}", sum()));
    let answer = world.client().get(&url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-length"), binary().len().to_string());
    assert_eq!(header("etag"), format!("\"{}\"", sum()));
    assert!(header("cache-control").contains("immutable"));
    assert_eq!(answer.bytes().await.unwrap(), binary());

    let again = world.client().get(&url).header("if-none-match", format!("\"{}\"", sum())).send().await.unwrap();
    assert_eq!(again.status(), 304);
    let head = world.client().head(&url).send().await.unwrap();
    assert_eq!((head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()), (200, "300001"));
    let posted = world.client().post(&url).send().await.unwrap();
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn a_compressed_copy_is_sent_to_clients_that_accept_it_unless_it_is_of_another_build() {
    let ask = |world: &World| {
        let url = world.url(&format!("/daemon/{}", sum()));
        world.client().get(url).header("accept-encoding", "gzip").send()
    };
    let right = world(&plain_config());
    let answer = ask(&right).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let mut bytes = Vec::new();
    GzDecoder::new(&answer.bytes().await.unwrap()[..]).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, binary());

    let wrong = World::start_with_daemon(&plain_config(), &|folder| put(folder, b"another build"));
    let answer = ask(&wrong).await.unwrap();
    assert!(!answer.headers().contains_key("content-encoding"));
    assert_eq!(answer.bytes().await.unwrap(), binary());
}

#[tokio::test]
async fn an_unknown_hash_is_503_and_a_server_without_a_binary_says_so() {
    let other = format!("/daemon/{}", "0".repeat(64));
    let answer = world(&plain_config()).get(&other, "3.2.0").await;
    assert_eq!(answer.status(), 503, "another server behind the same address may have it");
    assert!(answer.headers().contains_key("retry-after"));
    let answer = World::start(&plain_config()).get(&other, "3.2.0").await;
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("--daemon-binary"));
}

#[tokio::test]
async fn a_config_has_the_binarys_url_and_hash_in_every_version() {
    let world = world(&plain_config());
    for version in ["2.2.0", "3.1.0", "3.5.0"] {
        let served: Value = world.get("/config/master", version).await.json().await.unwrap();
        let files = served["storage"]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == "/usr/local/bin/machinistd").unwrap();
        let source = format!("https://config.example.com:{}/daemon/{}", world.secure.port(), sum());
        assert_eq!(file["contents"]["source"], source);
        let hash = format!("sha512-{}", hex::encode(Sha512::digest(binary())));
        assert_eq!(file["contents"]["verification"]["hash"], hash);
        assert_eq!(file["mode"], 0o755);
        let units = served["systemd"]["units"].as_array().unwrap();
        let unit = units.iter().find(|unit| unit["name"] == "machinistd-firstboot.service").unwrap();
        assert_eq!(unit["enabled"], true);
        // The machine's own copy of its config does not contain the file, so it cannot be reported as drift.
        let content = files.iter().find(|file| file["path"] == "/etc/mcs-machine-config-content.json").unwrap();
        let content = ignition::data_url::decode(content["contents"]["source"].as_str().unwrap()).unwrap();
        assert!(!String::from_utf8(content).unwrap().contains("machinistd"));
    }
}

#[tokio::test]
async fn a_config_that_brings_its_own_daemon_keeps_it() {
    let mut config = plain_config();
    config["storage"]["files"] = json!([{
        "path": "/usr/local/bin/machinistd", "mode": 0o700, "overwrite": true, "contents": {"source": "data:,own"},
    }]);
    let served: Value = world(&config).get("/config/master", "3.5.0").await.json().await.unwrap();
    let files = served["storage"]["files"].as_array().unwrap();
    let own: Vec<_> = files.iter().filter(|file| file["path"] == "/usr/local/bin/machinistd").collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["contents"]["source"], "data:,own");
    assert!(served.get("systemd").is_none());
}

#[test]
fn a_file_that_is_not_a_binary_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing"), folder.path().to_owned()] {
        let error = Daemon::load(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    std::fs::write(folder.path().join("empty"), "").unwrap();
    assert!(Daemon::load(&folder.path().join("empty")).is_err());
}
