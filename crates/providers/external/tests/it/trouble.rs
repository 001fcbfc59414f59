//! What a provider that answers garbage, slowly or not at all leads to: an error of a kind, that says where.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use external::{External, Settings};
use machine::provider::{Error, ErrorKind, Provider};
use serde_json::json;

use crate::world::{answering, described, request};

/// Looks one Machine up at a provider that answers so.
async fn look(answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> (Error, String) {
    let folder = tempfile::tempdir().unwrap();
    let socket = answering(folder.path(), answer);
    let provider = External::new(Settings { patience: Duration::from_millis(300), ..Settings::new(&socket) });
    let error = provider.instances(&[request("a", json!({}))]).await.remove(0).unwrap_err();
    let text = format!("{}: {error}", error.kind).replace(socket.to_str().unwrap(), "SOCKET");
    (error, text)
}

async fn check(answer: (u16, &'static str), expected: Expect) {
    let answer =
        move |path: &str| Some(if path == "/v1/describe" { described() } else { (answer.0, answer.1.to_owned()) });
    expected.assert_eq(&look(answer).await.1);
}

#[tokio::test]
async fn garbage_is_an_error_that_says_what_is_wrong_with_it() {
    check(
        (200, "<html>"),
        expect!["Other: provider at SOCKET, call instances: its answer is not JSON: expected value at line 1 column 1"],
    )
    .await;
    check(
        (200, "{}"),
        expect!["Other: provider at SOCKET, call instances: its answer is not of version 1: missing field `answers`"],
    )
    .await;
    check(
        (200, r#"{"answers": []}"#),
        expect!["Other: provider at SOCKET, call instances: its answer cannot be: 1 requests got 0 answers"],
    )
    .await;
    check((200, r#"{"answers": [{"instances": [{"state": "Sleeping"}]}]}"#), expect!["Other: provider at SOCKET, call instances: its answer cannot be: unknown variant `Sleeping`, expected one of `Pending`, `Running`, `Stopped`, `Deleting`, `Failed`"]).await;
    check((200, r#"{"answers": [{"instances": [{"state": "Running", "providerId": ""}]}]}"#), expect!["Other: provider at SOCKET, call instances: its answer cannot be: an instance has an empty providerId; leave it out while there is none"]).await;
    check((200, r#"{"answers": [{"instances": [{"state": "Running", "created": "now"}]}]}"#), expect![[r#"Other: provider at SOCKET, call instances: its answer cannot be: "now" is not a time such as 2026-01-31T12:00:00Z"#]]).await;
    check((500, "Traceback"), expect!["Unreachable: provider at SOCKET, call instances: it answers 500 Internal Server Error without an error of version 1"]).await;
    check(
        (404, ""),
        expect!["Other: provider at SOCKET, call instances: it answers 404 Not Found without an error of version 1"],
    )
    .await;
}

#[tokio::test]
async fn another_version_is_refused_before_anything_is_asked() {
    let answer = |path: &str| {
        assert_eq!(path, "/v1/describe");
        Some((200, json!({"version": 2, "name": "later"}).to_string()))
    };
    expect!["Other: provider at SOCKET, call describe: it speaks version 2, and this is version 1"]
        .assert_eq(&look(answer).await.1);
}

#[tokio::test]
async fn silence_ends_after_a_while_and_counts_as_unreachable() {
    let begun = Instant::now();
    let (error, text) = look(|path| (path == "/v1/describe").then(described)).await;
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(text.contains("no answer within"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_unreachable_and_works_once_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let provider = External::new(Settings::new(folder.path().join("provider.sock")));
    let request = request("a", json!({}));
    let error = provider.instances(std::slice::from_ref(&request)).await.remove(0).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    answering(folder.path(), |path| {
        Some(if path == "/v1/describe" { described() } else { (200, r#"{"answers": [{"instances": []}]}"#.to_owned()) })
    });
    assert_eq!(provider.instances(&[request]).await.remove(0).unwrap(), []);
}

#[tokio::test]
async fn the_kind_of_an_error_crosses_the_wire_for_one_machine_alone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = answering(folder.path(), |path| {
        let answers = json!({"answers": [
            {"error": {"kind": "Throttled", "message": "slow\ndown", "retryAfterSeconds": 5, "requestId": "r-1"}},
            {"instances": [{"state": "Running", "providerId": "shed://b"}]},
            {"instances": 7},
        ]});
        Some(if path == "/v1/describe" { described() } else { (200, answers.to_string()) })
    });
    let provider = External::new(Settings::new(socket));
    let answers = provider.instances(&["a", "b", "c"].map(|name| request(name, json!({})))).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.retry_after().map(|delay| delay.as_secs()), Some(5));
    assert_eq!((error.message.as_str(), error.request_id.as_deref()), ("slow down", Some("r-1")));
    assert_eq!(answers[1].as_ref().unwrap()[0].state_word, "running");
    assert_eq!(answers[2].as_ref().unwrap_err().kind, ErrorKind::Other);
}

#[tokio::test]
async fn a_provider_that_quotes_a_secret_does_not_get_it_into_a_condition() {
    let folder = tempfile::tempdir().unwrap();
    let socket = answering(folder.path(), |path| {
        let said = json!({"error": {"kind": "Credentials", "message": "login with correct horse was refused"}});
        Some(if path == "/v1/describe" { described() } else { (401, said.to_string()) })
    });
    let request = request("a", json!({}));
    let provider = External::new(Settings::new(socket));
    let error = provider.create(&request, request.intent.as_ref().unwrap()).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Credentials, "login with [secret] was refused"));
}
