//! The embedded server beside kube-apiserver with etcd: the same requests, the CPU of the servers, their memory.
//!
//! Ours runs as a child process (this program again, with `--serve`), so that the load generator's own work is not counted.

#![allow(clippy::unwrap_used)]

#[path = "apiserver/watchers.rs"]
mod watchers;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use reqwest::Client;
use serde_json::{Value, json};

/// How many nodes; `BENCH_NODES` makes a quick run.
fn nodes() -> usize {
    std::env::var("BENCH_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

const LISTS: usize = 20;
const CONCURRENT: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        return serve(&arguments[at + 1]).await;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    start().await;
    let count = nodes();
    let ours = ours().await;
    if arguments.iter().any(|argument| argument == "--ours") {
        return println!("{ours:?}");
    }
    let Some(real) = real().await else {
        return println!("bench: embedded server, {count} nodes | {ours:?} | -");
    };
    for (phase, (own, other)) in PHASES.iter().zip(ours.cpu.iter().zip(&real.cpu)) {
        let (own, other) = (own.as_secs_f64() * 1e6, other.as_secs_f64() * 1e6);
        let part = other / own;
        println!(
            "bench: CPU per {phase}, {count} nodes | {own:.0} µs, {part:.1} times less than {other:.0} µs | 5 times less"
        );
    }
    let part = real.memory / ours.memory;
    println!(
        "bench: memory with {count} nodes | {:.0} MB, {part:.1} times less than {:.0} MB | 5 times less",
        ours.memory, real.memory
    );
}

async fn serve(folder: &str) {
    let server = apiserver::Server::builder().data(folder).token("bench", "admin", &["system:masters"]).start().await;
    println!("{}", server.as_ref().unwrap().server());
    std::future::pending::<()>().await;
}

/// From an empty folder to the first answer, five times.
async fn start() {
    let mut times = Vec::new();
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let (child, server) = spawn(folder.path());
        let client = client(&folder.path().join("ca.crt"));
        let answer = client.get(format!("{server}/readyz")).send().await.unwrap();
        assert!(answer.status().is_success());
        times.push(began.elapsed());
        drop(child);
    }
    times.sort();
    println!("bench: ready from an empty folder | {:.0} ms | under 200 ms", times[2].as_secs_f64() * 1e3);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path) -> (Running, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--serve")
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Running(child), line.trim().to_owned())
}

fn client(authority: &Path) -> Client {
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
    Client::builder().tls_certs_only([certificate]).build().unwrap()
}

const PHASES: [&str; 4] = ["create", "update", "get", "list"];

#[derive(Debug)]
struct Cost {
    cpu: Vec<Duration>,
    /// Megabytes resident after everything.
    memory: f64,
}

async fn ours() -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let (child, server) = spawn(folder.path());
    let authority = folder.path().join("ca.crt");
    let client = client(&authority);
    let cost = load(&client, &server, "bench", &[child.0.id()]).await;
    // `-- --ours --watchers` adds a connection for every node, which takes a machine with file handles to spare.
    if std::env::args().any(|argument| argument == "--watchers") {
        watchers::measure(&client, &server, &authority, &names(), child.0.id()).await;
    }
    cost
}

fn names() -> Vec<String> {
    (0..nodes()).map(|number| format!("node-{number:05}")).collect()
}

async fn real() -> Option<Cost> {
    let plane = testkit::durable_control_plane().await?;
    let folder = plane.kubeconfig().parent().unwrap().to_owned();
    let client = client(&folder.join("ca.crt"));
    Some(load(&client, plane.server(), plane.token(), &plane.processes()).await)
}

async fn load(client: &Client, server: &str, token: &str, processes: &[u32]) -> Cost {
    let url = format!("{server}/api/v1/nodes");
    let names = names();
    let each = async |verb: &str| {
        let before = cpu(processes);
        stream::iter(&names)
            .map(|name| {
                let request = match verb {
                    "create" => client.post(&url).body(node(name).to_string()),
                    "update" => client.put(format!("{url}/{name}")).body(changed(name).to_string()),
                    _ => client.get(format!("{url}/{name}")),
                };
                let request = request.bearer_auth(token).header("content-type", "application/json");
                async move {
                    let response = request.send().await.unwrap();
                    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
                    response.bytes().await.unwrap()
                }
            })
            .buffer_unordered(CONCURRENT)
            .for_each(|_| async {})
            .await;
        (cpu(processes) - before) / u32::try_from(names.len()).unwrap()
    };
    let mut costs = Vec::new();
    for verb in ["create", "update", "get"] {
        costs.push(each(verb).await);
    }
    let before = cpu(processes);
    for _ in 0..LISTS {
        let response = client.get(&url).bearer_auth(token).send().await.unwrap();
        let list: Arc<[u8]> = response.bytes().await.unwrap().to_vec().into();
        assert!(list.len() > names.len() * 500);
    }
    costs.push((cpu(processes) - before) / u32::try_from(LISTS).unwrap());
    Cost { cpu: costs, memory: processes.iter().map(|process| memory(*process)).sum() }
}

/// A Node as a kubelet reports it, shortened.
fn node(name: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"), "message": "kubelet says so",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let images: Vec<Value> = (0..6)
        .map(|number| json!({"names": [format!("registry.example/image-{number}@sha256:{:064}", number)], "sizeBytes": 1_000_000}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "a",
        }, "annotations": {
            "machineconfiguration.openshift.io/currentConfig": "rendered-worker-0123456789abcdef",
            "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-0123456789abcdef",
            "machineconfiguration.openshift.io/state": "Done",
        }},
        "spec": {"podCIDR": "10.1.0.0/24", "providerID": format!("example:///{name}")},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "7", "memory": "30Gi", "pods": "110"},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "images": images,
        },
    })
}

fn changed(name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["annotations"]["machineconfiguration.openshift.io/state"] = "Working".into();
    node["spec"]["unschedulable"] = true.into();
    node
}

/// User and system time of the processes so far.
fn cpu(processes: &[u32]) -> Duration {
    let ticks: u64 = processes
        .iter()
        .map(|process| {
            let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        })
        .sum();
    // The kernel reports hundredths of a second to user space on every architecture we build for.
    Duration::from_millis(ticks * 10)
}

fn memory(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
