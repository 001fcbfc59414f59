//! Remote content: asked for, verified, limited, embedded.

use expect_test::expect;
use render::{Error, Fetched, Need, Rendered, Settings};
use serde_json::{Value, json};

use crate::world::{config, files, settings, worker};

const HASH: &str = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn remote(contents: Value) -> api::machineconfiguration::MachineConfig {
    config("50-remote", json!({"storage": {"files": [{"path": "/etc/motd", "contents": contents}]}}))
}

fn render(contents: Value, settings: &Settings, fetched: &Fetched) -> Result<Rendered, Error> {
    render::render(&worker(), &[remote(contents)], settings, fetched)
}

fn need(contents: Value) -> Need {
    match render(contents, &settings(), &Fetched::default()) {
        Err(Error::Needs(needs)) => needs.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn with_content(contents: &Value, bytes: &[u8]) -> Result<Rendered, Error> {
    let mut fetched = Fetched::default();
    fetched.insert(&need(contents.clone()), bytes.to_vec());
    render(contents.clone(), &settings(), &fetched)
}

#[test]
fn the_need_says_all_that_fetching_takes() {
    let headers = json!([{"name": "Authorization", "value": "secret"}]);
    let need =
        need(json!({"source": "https://example.com/motd", "httpHeaders": headers, "verification": {"hash": HASH}}));
    assert_eq!((need.fragment.as_str(), need.path.as_str()), ("50-remote", "/etc/motd"));
    assert_eq!(need.headers, [("Authorization".to_owned(), "secret".to_owned())]);
    assert_eq!(need.hash.as_deref(), Some(HASH));
}

#[test]
fn what_was_fetched_is_embedded_and_pinned() {
    let contents = json!({"source": "https://example.com/motd", "httpHeaders": [{"name": "A", "value": "1"}], "verification": {"hash": HASH}});
    let rendered = with_content(&contents, b"hello").unwrap();
    expect![[r#"{"source":"data:;base64,aGVsbG8=","verification":{"hash":"sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}"#]]
        .assert_eq(&files(&rendered)[0]["contents"].to_string());
    assert_eq!(rendered.provenance.pins[0].hash, HASH);
    assert!(rendered.warnings.is_empty(), "{:?}", rendered.warnings);
}

#[test]
fn content_without_a_hash_is_a_warning() {
    let rendered = with_content(&json!({"source": "https://example.com/motd"}), b"hello").unwrap();
    assert!(rendered.warnings[0].message.contains("has no hash"), "{:?}", rendered.warnings);
}

#[test]
fn wrong_or_oversized_content_is_refused() {
    let contents = json!({"source": "https://example.com/motd", "verification": {"hash": HASH}});
    let error = with_content(&contents, b"other").unwrap_err().to_string();
    assert!(error.contains("does not have the hash"), "{error}");
    let mut fetched = Fetched::default();
    fetched.insert(&need(contents.clone()), b"hello".to_vec());
    let small = Settings { remote_limit: 4, ..settings() };
    let error = render(contents, &small, &fetched).unwrap_err().to_string();
    assert!(error.contains("is too large (5 bytes, max 4 bytes)"), "{error}");
}

#[test]
fn link_local_addresses_are_refused() {
    for source in ["http://169.254.169.254/latest", "http://[fe80::1]/x"] {
        let error = render(json!({"source": source}), &settings(), &Fetched::default()).unwrap_err().to_string();
        assert!(error.contains("link-local"), "{error}");
    }
}

#[test]
fn offline_a_source_may_stay_as_it_is() {
    let offline = Settings { keep_remote: true, ..settings() };
    let rendered = render(json!({"source": "https://example.com/motd"}), &offline, &Fetched::default()).unwrap();
    assert_eq!(files(&rendered)[0]["contents"]["source"], "https://example.com/motd");
    assert_eq!(rendered.warnings.len(), 1);
}

#[test]
fn content_that_another_fragment_overrides_is_not_asked_for() {
    let all = [remote(json!({"source": "https://example.com/motd"})), crate::world::file("60-local", "/etc/motd", "x")];
    assert!(crate::world::render(&worker(), &all).is_ok());
}
