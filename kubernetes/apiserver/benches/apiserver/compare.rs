//! Beside kube-apiserver with etcd: the same requests, the CPU of the servers, their memory.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;

use crate::{
    nodes,
    objects::{self, each, json_body, node},
    process::{self, Server, TOKEN, cpu, memory},
};

const LISTS: usize = 20;
const PHASES: [&str; 4] = ["create", "update", "get", "list"];

pub(crate) async fn measure() {
    start().await;
    let count = nodes();
    let ours = ours().await;
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

/// From an empty folder to the first answer, five times.
async fn start() {
    let mut times = Vec::new();
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let server = Server::spawn(folder.path());
        let answer = server.client.get(format!("{}/readyz", server.url)).send().await.unwrap();
        assert!(answer.status().is_success());
        times.push(began.elapsed());
    }
    times.sort();
    println!("bench: ready from an empty folder | {:.0} ms | under 200 ms", times[2].as_secs_f64() * 1e3);
}

#[derive(Debug)]
struct Cost {
    cpu: Vec<Duration>,
    /// Megabytes resident after everything.
    memory: f64,
}

async fn ours() -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::spawn(folder.path());
    load(&server.client, &server.url, TOKEN, &[server.id()]).await
}

async fn real() -> Option<Cost> {
    let plane = referee::durable_control_plane().await?;
    let folder = plane.kubeconfig().parent().unwrap().to_owned();
    let client = process::client(&folder.join("ca.crt"));
    Some(load(&client, plane.server(), plane.token(), &plane.processes()).await)
}

async fn load(client: &Client, server: &str, token: &str, processes: &[u32]) -> Cost {
    let url = format!("{server}/api/v1/nodes");
    let names = objects::names(nodes());
    let mut costs = Vec::new();
    for verb in ["create", "update", "get"] {
        let before = cpu(processes);
        each(&names, |name| {
            let request = match verb {
                "create" => json_body(client.post(&url), &node(name)),
                "update" => json_body(client.put(format!("{url}/{name}")), &changed(name)),
                _ => client.get(format!("{url}/{name}")),
            };
            request.bearer_auth(token)
        })
        .await;
        costs.push((cpu(processes) - before) / u32::try_from(names.len()).unwrap());
    }
    let before = cpu(processes);
    for _ in 0..LISTS {
        let response = client.get(&url).bearer_auth(token).send().await.unwrap();
        assert!(response.bytes().await.unwrap().len() > names.len() * 500);
    }
    costs.push((cpu(processes) - before) / u32::try_from(LISTS).unwrap());
    Cost { cpu: costs, memory: processes.iter().map(|process| memory(*process)).sum() }
}

fn changed(name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["annotations"]["machineconfiguration.openshift.io/state"] = "Working".into();
    node["spec"]["unschedulable"] = true.into();
    node
}
