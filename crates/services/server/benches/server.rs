//! Measures the config server under load: requests per second, the 99th percentile of latency, memory, a fleet that
//! boots at once, and clients that only hold a connection.
//!
//! The server is a separate process with the runtime of `machinist server`, backed by a cluster on the embedded API.
//! Every request carries a token whose use is counted. Client, server and API share the machine's cores.

#![allow(clippy::unwrap_used, reason = "a benchmark that fails shall say where")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::names;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use server::{BootstrapFiles, ClusterSettings, ClusterSource, Listener, Settings, Source};
use testkit::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The same allocator as in `machinist`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CONNECTIONS: usize = 128;
const MACHINES: usize = 2000;
const TIME: Duration = Duration::from_secs(10);
const UPSTREAM: f64 = 2.0;

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // `cargo test --benches` only checks that this builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match std::env::var_os("MACHINIST_BENCH_SERVER") {
        Some(folder) => runtime.block_on(serve(Path::new(&folder))),
        None => runtime.block_on(measure()),
    }
}

async fn serve(folder: &Path) {
    let client = cluster::connect(Some(&folder.join("kubeconfig"))).await.unwrap();
    let files =
        BootstrapFiles { api_server_url: "https://api-int.example.com:6443".to_owned(), folder: folder.to_owned() };
    let settings = ClusterSettings { files, server_ca: None, namespace: names::NAMESPACE.to_owned() };
    let source = Source::Cluster(Box::new(ClusterSource::start(client, settings)));
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let settings =
        Settings { secure: "127.0.0.1:0".parse().unwrap(), insecure: None, certificate, key, daemon: None, host: None };
    let listener = Listener::bind(settings, source).unwrap();
    std::fs::write(folder.join("address.new"), listener.address().unwrap().to_string()).unwrap();
    std::fs::rename(folder.join("address.new"), folder.join("address")).unwrap();
    listener.run().await;
}

async fn measure() {
    let control_plane = testkit::control_plane(Kind::Embedded).await.unwrap();
    control_plane.install().await;
    let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
    furnish(&client).await;
    let grant = serving::token::Grant { pool: "worker".to_owned(), ..Default::default() };
    let token = cluster::tokens::issue(&client, &grant).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(control_plane.kubeconfig(), folder.path().join("kubeconfig")).unwrap();
    let server = Server::start(folder.path()).await;
    let asker = Arc::new(Asker::new(folder.path(), server.address, &token));
    let size = asker.until_ready().await;
    println!("bench: served config | {:.0} KB | -", size as f64 / 1000.0);
    println!("bench: memory, at rest | {:.1} MiB | -", server.peak());

    let (rate, [median, p99]) = load(&asker, CONNECTIONS, TIME).await;
    println!("bench: {CONNECTIONS} connections, keep-alive | {rate:.0} requests/s | at least 1500 requests/s");
    println!("memory so far: {:.1} MiB", server.peak());
    println!("bench: {CONNECTIONS} connections, median | {median:.0} ms | -");
    println!("bench: {CONNECTIONS} connections, 99 of 100 within | {p99:.0} ms | at most 250 ms");
    println!("bench: ratio to upstream at {CONNECTIONS} connections (2 requests/s) | {:.0} times | -", rate / UPSTREAM);
    let (alone, [median, _]) = load(&asker, 1, TIME / 4).await;
    println!(
        "bench: 1 connection (upstream 12 requests/s, median 76 ms) | {alone:.0} requests/s, median {median:.1} ms | -"
    );

    let took = fleet(&asker).await;
    println!("bench: {MACHINES} machines at once, a handshake each | {:.1} s | at most 20 s", took.as_secs_f64());

    println!("memory so far: {:.1} MiB", server.peak());
    let held = hold(&asker, 200).await;
    let (beside, [_, p99]) = load(&asker, CONNECTIONS, TIME / 2).await;
    drop(held);
    let share = 100.0 * beside / rate;
    println!(
        "bench: beside 200 half-open and 200 stalled readers | {share:.0} % of the rate, p99 {p99:.0} ms | at least 90 %"
    );
    println!("bench: memory, the most at any time (upstream 245 MB) | {:.1} MiB | at most 40 MiB", server.peak());
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    async fn start(folder: &Path) -> Self {
        testkit::certify(folder, "bench");
        std::fs::write(folder.join("token"), "kubelet-token").unwrap();
        std::fs::write(folder.join("ca.crt"), "kubelet-ca").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("MACHINIST_BENCH_SERVER", folder).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        let path: PathBuf = folder.join("address");
        let address = testkit::wait_until("the server to listen", || async {
            std::fs::read_to_string(&path).ok()?.parse::<SocketAddr>().ok()
        });
        Self { child, address: address.await }
    }

    /// Peak resident memory in MiB.
    fn peak(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that uses as little CPU time as possible.
struct Asker {
    connector: TlsConnector,
    address: SocketAddr,
    request: String,
}

impl Asker {
    fn new(folder: &Path, address: SocketAddr, token: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        // Every machine does a full handshake.
        config.resumption = rustls::client::Resumption::disabled();
        let request = format!(
            "GET /config/worker HTTP/1.1\r\nHost: x\r\nAccept: application/vnd.coreos.ignition+json;version=3.5.0\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        Self { connector: TlsConnector::from(Arc::new(config)), address, request }
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }

    /// Sends one request and reads the whole response; returns the length of its body.
    async fn ask(&self, stream: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> std::io::Result<usize> {
        let broken = |what: &str| std::io::Error::other(what.to_owned());
        stream.write_all(self.request.as_bytes()).await?;
        let mut filled = 0;
        let (body, start) = loop {
            let read = stream.read(&mut buffer[filled..]).await?;
            filled += read;
            let head = String::from_utf8_lossy(&buffer[..filled.min(2048)]).into_owned();
            if let Some(end) = head.find("\r\n\r\n") {
                if !head.starts_with("HTTP/1.1 200") {
                    return Err(broken(head.lines().next().unwrap_or_default()));
                }
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                break (length.and_then(|length| length.parse::<usize>().ok()).unwrap_or_default(), end + 4);
            }
            if read == 0 {
                return Err(broken("closed"));
            }
        };
        let mut left = body - (filled - start);
        while left > 0 {
            let read = stream.read(buffer).await?;
            if read == 0 {
                return Err(broken("closed"));
            }
            left -= read;
        }
        Ok(body)
    }

    async fn until_ready(&self) -> usize {
        testkit::wait_until("the server to serve", || async {
            let mut stream = self.connect().await.ok()?;
            self.ask(&mut stream, &mut vec![0; 64 * 1024]).await.ok()
        })
        .await
    }
}

/// Returns requests per second, and their median and 99th percentile in milliseconds.
async fn load(asker: &Arc<Asker>, connections: usize, time: Duration) -> (f64, [f64; 2]) {
    let failures = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let (asker, failures) = (Arc::clone(asker), Arc::clone(&failures));
            tokio::spawn(async move {
                let (mut buffer, mut took) = (vec![0; 64 * 1024], Vec::new());
                let mut stream = asker.connect().await.unwrap();
                while start.elapsed() < time {
                    let begin = Instant::now();
                    match asker.ask(&mut stream, &mut buffer).await {
                        Ok(_) => took.push(begin.elapsed()),
                        Err(_) => {
                            failures.fetch_add(1, Ordering::Relaxed);
                            stream = asker.connect().await.unwrap();
                        }
                    }
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let rate = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    let failures = failures.load(Ordering::Relaxed);
    if failures > 0 {
        println!("{failures} requests failed");
    }
    (rate, [at(0.5), at(0.99)])
}

/// Returns how long it takes until machines that all boot at once have their configs.
async fn fleet(asker: &Arc<Asker>) -> Duration {
    let start = Instant::now();
    let tasks: Vec<_> = (0..MACHINES)
        .map(|_| {
            let asker = Arc::clone(asker);
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                loop {
                    let Ok(mut stream) = asker.connect().await else { continue };
                    if asker.ask(&mut stream, &mut buffer).await.is_ok() {
                        return;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

/// Opens connections that never send anything, and others whose clients stop reading after their request.
async fn hold(asker: &Arc<Asker>, each: usize) -> (Vec<TcpStream>, Vec<TlsStream<TcpStream>>) {
    let mut readers = Vec::new();
    for _ in 0..each {
        if let Ok(mut stream) = asker.connect().await {
            let _ = stream.write_all(asker.request.as_bytes()).await;
            readers.push(stream);
        }
    }
    let mut silent = Vec::new();
    for _ in 0..each {
        silent.push(TcpStream::connect(asker.address).await.unwrap());
    }
    (silent, readers)
}

/// Creates pool `worker` with the corpus as its rendered config.
async fn furnish(client: &kube::Client) {
    cluster::ensure_namespace(client, names::NAMESPACE).await.unwrap();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../corpus/worker-pool.json");
    let fragments: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(corpus).unwrap()).unwrap();
    let fragments: Vec<MachineConfig> = fragments
        .into_iter()
        .map(|mut fragment| {
            fragment["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
            fragment["kind"] = json!("MachineConfig");
            serde_json::from_value(fragment).unwrap()
        })
        .collect();
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
        "spec": {"machineConfigSelector": {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}},
    });
    let pool: MachineConfigPool = serde_json::from_value(pool).unwrap();
    let rendered =
        render::render(&pool, &fragments, &render::Settings::default(), &render::Fetched::default()).unwrap();
    let config = rendered.machine_config;
    Api::<MachineConfig>::all(client.clone()).create(&PostParams::default(), &config).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.create(&PostParams::default(), &pool).await.unwrap();
    let status = json!({"status": {"configuration": {"name": config.metadata.name}}});
    pools.patch_status("worker", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let controller_config = testkit::objects::controller_config();
    let configs: Api<ControllerConfig> = Api::all(client.clone());
    let patch = Patch::Apply(&controller_config);
    configs.patch(names::CONTROLLER_CONFIG, &PatchParams::apply("bench").force(), &patch).await.unwrap();
}
