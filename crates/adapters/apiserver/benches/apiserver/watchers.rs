//! A fleet's worth of clients: each has its own connection, watches its own Node and one MachineConfig.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Client;
use rustls::{
    ClientConfig, RootCertStore, pki_types::CertificateDer, pki_types::ServerName, pki_types::pem::PemObject,
};
use serde_json::json;
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::TlsConnector;

const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const EACH_SECOND: u32 = 500;
const SECONDS: u32 = 10;
/// Marks when a change was sent, in microseconds since the start.
const STAMP: &str = "bench/at";

/// What all watchers together have seen.
struct Seen {
    start: Instant,
    delays: Mutex<Vec<Duration>>,
    count: watch::Sender<usize>,
}

impl Seen {
    fn event(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let Some((_, rest)) = text.split_once(&format!("\"{STAMP}\":\"")) else { return };
        let sent: u64 = rest.split('"').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
        self.delays.lock().unwrap().push(self.start.elapsed().saturating_sub(Duration::from_micros(sent)));
        self.count.send_modify(|count| *count += 1);
    }

    async fn wait(&self, wanted: usize) {
        let mut count = self.count.subscribe();
        let all = count.wait_for(|count| *count >= wanted);
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("every event arrives").unwrap();
    }

    /// The delays so far, shortest first; the next phase begins with none.
    fn take(&self) -> Vec<Duration> {
        let mut delays = std::mem::take(&mut *self.delays.lock().unwrap());
        self.count.send_replace(0);
        delays.sort();
        delays
    }
}

/// Measures on a server that already has `names` as nodes.
pub(super) async fn measure(client: &Client, server: &str, authority: &Path, names: &[String], process: u32) {
    define(client, server).await;
    let before = super::memory(process);
    let seen = Arc::new(Seen { start: Instant::now(), delays: Mutex::default(), count: watch::Sender::new(0) });
    let connector = connector(authority);
    stream::iter(names)
        .map(|name| connect(connector.clone(), server.to_owned(), name.clone(), Arc::clone(&seen)))
        .buffer_unordered(32)
        .for_each(|()| async {})
        .await;
    changes(client, server, names, &seen).await;
    let count = names.len();
    let delays = seen.take();
    let at = |part: usize| delays[(delays.len() * part / 100).min(delays.len() - 1)].as_secs_f64() * 1e3;
    println!(
        "bench: memory with {count} clients of two watches each | {:.0} MB ({before:.0} MB before) | under 600 MB",
        super::memory(process)
    );
    println!(
        "bench: event delivery, {EACH_SECOND} nodes a second change, p99 | {:.0} ms (p50 {:.1} ms) | under 100 ms",
        at(99),
        at(50)
    );
    stamp(client, &format!("{server}{CONFIGS}/rendered"), &seen).await;
    seen.wait(count).await;
    let delays = seen.take();
    let until = |nth: usize| delays[nth.min(delays.len()) - 1].as_secs_f64() * 1e3;
    println!("bench: one change reaches 1000 watchers | {:.0} ms | -", until(1000));
    println!("bench: one change reaches {count} watchers | {:.0} ms | -", until(count));
}

async fn define(client: &Client, server: &str) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machineconfigs.machineconfiguration.openshift.io"},
        "spec": {"group": "machineconfiguration.openshift.io", "scope": "Cluster",
            "names": {"plural": "machineconfigs", "kind": "MachineConfig"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    let post = async |path: &str, body: &serde_json::Value| {
        let request =
            client.post(format!("{server}{path}")).bearer_auth("bench").header("content-type", "application/json");
        request.body(body.to_string()).send().await.unwrap().status().as_u16()
    };
    assert_eq!(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await, 201);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "rendered"}, "spec": {"config": {"text": "x".repeat(10_000)}}});
    while post(CONFIGS, &config).await != 201 {
        tokio::task::yield_now().await;
    }
}

fn connector(authority: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// One client; returns when both of its watches are open.
async fn connect(connector: TlsConnector, server: String, name: String, seen: Arc<Seen>) {
    let address = server.trim_start_matches("https://").to_owned();
    let stream = TcpStream::connect(&address).await.unwrap();
    let stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for (path, name) in [("/api/v1/nodes", name.as_str()), (CONFIGS, "rendered")] {
        let uri = format!("{server}{path}?watch=true&allowWatchBookmarks=true&fieldSelector=metadata.name%3D{name}");
        let request =
            http::Request::get(uri).header("authorization", "Bearer bench").body(Empty::<Bytes>::new()).unwrap();
        let mut body = sender.send_request(request).await.unwrap().into_body();
        // The first event is the object as it is, without a stamp.
        body.frame().await.unwrap().unwrap();
        let seen = Arc::clone(&seen);
        let sender = sender.clone();
        tokio::spawn(async move {
            let _keep_open = sender;
            // Frames end where they like; events end with their line.
            let mut unread: Vec<u8> = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                unread.extend(frame.data_ref().into_iter().flatten());
                while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                    seen.event(&unread[..end]);
                    unread.drain(..=end);
                }
            }
        });
    }
}

/// So many nodes a second change, for a while; ends when every change has arrived.
async fn changes(client: &Client, server: &str, names: &[String], seen: &Arc<Seen>) {
    let total = (EACH_SECOND * SECONDS) as usize;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / EACH_SECOND);
    for turn in 0..total {
        ticks.tick().await;
        let (client, seen) = (client.clone(), Arc::clone(seen));
        let url = format!("{server}/api/v1/nodes/{}", names[turn * 7 % names.len()]);
        tokio::spawn(async move { stamp(&client, &url, &seen).await });
    }
    seen.wait(total).await;
}

async fn stamp(client: &Client, url: &str, seen: &Seen) {
    let at = seen.start.elapsed().as_micros().to_string();
    let body = json!({"metadata": {"annotations": {STAMP: at}}}).to_string();
    let request = client.patch(url).bearer_auth("bench").header("content-type", "application/merge-patch+json");
    assert!(request.body(body).send().await.unwrap().status().is_success());
}
