//! Clients that do not read: what is held for them is bounded, it is held for a while only, and others notice nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiserver::Server;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_millis(500);
/// Together more than the history, and than a client's window, the server's buffers and the kernel's hold.
const CHANGES: usize = 75;
const SIZE: usize = 130_000;

async fn start(patience: Duration) -> Wire {
    let wire = Wire::of(Server::builder().in_memory().end_stalled_after(patience).start().await.unwrap());
    wire.post(MAPS, &json!({"metadata": {"name": "big"}, "data": {"x": "x".repeat(SIZE)}})).await;
    wire
}

async fn change(wire: &Wire, turn: usize) {
    let reply = wire.patch(&format!("{MAPS}/big"), "merge", &json!({"data": {"turn": turn.to_string()}})).await;
    assert_eq!(reply.code, 200, "{}", reply.text);
}

/// A client of its own: one connection, which nobody else's unread data can fill.
fn other(wire: &Wire) -> reqwest::Client {
    let certificate = reqwest::Certificate::from_pem(wire.server.certificate_authority().as_bytes()).unwrap();
    let small = reqwest::Client::builder().http2_initial_stream_window_size(65_535);
    small.tls_certs_only([certificate]).build().unwrap()
}

async fn watch(wire: &Wire, client: &reqwest::Client, query: &str) -> reqwest::Response {
    let url = format!("{}{MAPS}?watch=1&{query}", wire.server.server());
    client.get(url).bearer_auth(wire.server.admin_token()).send().await.unwrap()
}

/// Reads on until `done` or the end, and says what came: whole events, and whether it ended.
async fn read(response: &mut reqwest::Response, done: impl Fn(&[Value]) -> bool) -> (Vec<Value>, bool) {
    let (mut text, mut events) = (Vec::new(), Vec::new());
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(20), response.chunk()).await;
        let Ok(Some(chunk)) = chunk.expect("the watch goes on or ends") else { return (events, true) };
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            events.push(serde_json::from_slice(&text[..end]).unwrap());
            text.drain(..=end);
        }
        if done(&events) {
            return (events, false);
        }
    }
}

fn is_turn(event: &Value, turn: usize) -> bool {
    event["object"]["data"]["turn"].as_str() == Some(turn.to_string().as_str())
}

/// A socket with so many requests on it, of whose answers only the first bytes are read.
async fn socket(wire: &Wire, path: &str, count: usize) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(wire.server.certificate_authority().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(wire.server.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let token = wire.server.admin_token();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.repeat(count).as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_ended_while_others_go_on() {
    let wire = start(PATIENCE).await;
    let (idle, reader) = (other(&wire), other(&wire));
    let mut stalled_stream = watch(&wire, &idle, "resourceVersion=0").await;
    let mut stalled_object = watch(&wire, &idle, "fieldSelector=metadata.name%3Dbig").await;
    let mut stalled_socket = socket(&wire, &format!("{MAPS}?watch=1"), 1).await;
    let mut reading = watch(&wire, &reader, "resourceVersion=0").await;
    let began = Instant::now();
    let mut turn = 0;
    // The others go on for so long that the idle ones have had their time, after all their buffers were full.
    while turn < CHANGES || began.elapsed() < 4 * PATIENCE {
        turn += 1;
        change(&wire, turn).await;
        let (_, ended) = read(&mut reading, |events| events.iter().any(|event| is_turn(event, turn))).await;
        assert!(!ended, "who reads is not ended");
    }
    for stalled in [&mut stalled_stream, &mut stalled_object] {
        let (events, ended) = read(stalled, |events| events.iter().any(|event| is_turn(event, turn))).await;
        assert!(ended, "an unread stream is ended; it had {} events", events.len());
        assert!(events.len() < CHANGES);
        assert!(events.iter().all(|event| event["type"] != "ERROR"), "it did not wait until it was read");
    }
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stalled_socket.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "an unread connection is closed");
    assert!(rest.len() < CHANGES * SIZE, "{} bytes were kept for it", rest.len());
    // Only the stream was ended, not what else its client does on that connection.
    let mut again = watch(&wire, &idle, "resourceVersion=0").await;
    assert!(!read(&mut again, |events| !events.is_empty()).await.1);
}

#[tokio::test]
async fn an_answer_nobody_reads_is_ended_too() {
    let wire = start(PATIENCE).await;
    for number in 0..40 {
        wire.post(MAPS, &json!({"metadata": {"name": format!("m{number}")}, "data": {"x": "x".repeat(SIZE)}})).await;
    }
    let idle = other(&wire);
    let url = format!("{}{MAPS}", wire.server.server());
    let mut list = idle.get(&url).bearer_auth(wire.server.admin_token()).send().await.unwrap();
    let length: usize = list.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let began = Instant::now();
    for turn in 0.. {
        change(&wire, turn).await;
        if began.elapsed() > 3 * PATIENCE {
            break;
        }
    }
    let mut read = 0;
    while let Ok(Some(chunk)) = list.chunk().await {
        read += chunk.len();
    }
    assert!(read < length, "all {length} bytes were kept");
    let whole = idle.get(&url).bearer_auth(wire.server.admin_token()).send().await.unwrap().bytes().await.unwrap();
    assert!(whole.len() >= length, "who reads gets all of it");
}

#[tokio::test]
async fn a_log_may_be_read_at_leisure() {
    let log = "line\n".repeat(200_000);
    let told = log.clone();
    let builder = Server::builder().in_memory().end_stalled_after(PATIENCE).pod_logs(move |_| Some(told.clone()));
    let wire = Wire::of(builder.start().await.unwrap());
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    assert_eq!(wire.post(pods, &pod).await.code, 201);
    for query in ["", "?follow=1"] {
        let url = format!("{}{pods}/p/log{query}", wire.server.server());
        let mut response = other(&wire).get(url).bearer_auth(wire.server.admin_token()).send().await.unwrap();
        let began = Instant::now();
        while began.elapsed() < 3 * PATIENCE {
            assert_eq!(wire.get(pods).await.code, 200);
        }
        let mut read = 0;
        while read < log.len() {
            read += response.chunk().await.unwrap().expect("the whole log").len();
        }
    }
}

#[tokio::test]
async fn small_answers_that_pile_up_unread_end_their_connection() {
    let wire = start(PATIENCE).await;
    let (size, count) = (50_000, 300);
    wire.post(MAPS, &json!({"metadata": {"name": "small"}, "data": {"x": "x".repeat(size)}})).await;
    let mut unread = socket(&wire, &format!("{MAPS}/small"), count).await;
    let began = Instant::now();
    while began.elapsed() < 3 * PATIENCE {
        assert_eq!(wire.get(&format!("{MAPS}/small")).await.code, 200, "others are answered");
    }
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), unread.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is closed");
    assert!(rest.len() < size * count, "all answers were kept");
}

#[tokio::test]
async fn a_watcher_that_reads_too_late_is_told_to_list_again() {
    for query in ["resourceVersion=0", "fieldSelector=metadata.name%3Dbig"] {
        let wire = start(Duration::from_secs(60)).await;
        let mut late = watch(&wire, &other(&wire), query).await;
        for turn in 1..=CHANGES {
            change(&wire, turn).await;
        }
        let (events, ended) = read(&mut late, |_| false).await;
        assert!(ended);
        let (last, before) = events.split_last().unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)), "{query}");
        let turn = |event: &Value| event["object"]["data"]["turn"].as_str().map(|turn| turn.parse().unwrap());
        let turns: Vec<usize> = before.iter().filter_map(turn).collect();
        assert_eq!(turns, (1..=turns.len()).collect::<Vec<_>>(), "what came before has no gap");
        assert!(turns.len() < CHANGES);
    }
}

#[tokio::test]
async fn a_connection_whose_watch_came_too_late_serves_on() {
    let wire = start(Duration::from_secs(60)).await;
    let mut late = socket(&wire, &format!("{MAPS}?watch=1&resourceVersion=0"), 1).await;
    // The kernel holds more of a socket than a window holds of a stream.
    for turn in 1..=2 * CHANGES {
        change(&wire, turn).await;
    }
    let mut told = Vec::new();
    // An answer in chunks says itself where it ends, and leaves the connection open.
    while !told.ends_with(b"\r\n0\r\n\r\n") {
        let read = tokio::time::timeout(Duration::from_secs(20), late.read_buf(&mut told)).await;
        assert!(read.expect("the answer ends").unwrap() > 0, "the connection was closed");
    }
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(r#""type":"ERROR""#) && told.contains(r#""code":410"#), "it was not told why");
    let token = wire.server.admin_token();
    let again = format!("GET {MAPS}/nobody HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    late.write_all(again.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    tokio::time::timeout(Duration::from_secs(20), late.read_exact(&mut first)).await.expect("an answer").unwrap();
    assert_eq!(&first, b"HTTP/1.1 404");
}
