//! The machine controllers with ten thousand machines: until all run, what they then cost, and how soon a sick node is noticed.
//!
//! The API and the kubelets are this process; what is measured is the process of the controllers, on a cloud that answers at
//! once. `cargo xtask bench machines -- MACHINES` takes another number of machines.
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::machine::{Machine, MachineHealthCheck, MachineSet};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const NAMESPACE: &str = api::names::MACHINE_API_NAMESPACE;
const SETS: usize = 20;
/// As long as somebody looks who wonders whether it is idle.
const IDLE: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_secs(5);

fn main() {
    let machines: usize = std::env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(10_000);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("bench: load of the machine when it began | {} | -", load.split(' ').next().unwrap_or("?"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure(machines));
}

async fn measure(machines: usize) {
    let control_plane = testkit::control_plane(testkit::Kind::Embedded).await.unwrap();
    control_plane.install().await;
    let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
    cluster::ensure_namespace(&client, NAMESPACE).await.unwrap();
    let kubelets = tokio::spawn(kubelets(client.clone()));
    let controllers = start(&control_plane.kubeconfig());
    let begun = Instant::now();
    let sets: Api<MachineSet> = Api::namespaced(client.clone(), NAMESPACE);
    for index in 0..SETS {
        sets.create(&PostParams::default(), &set(index, machines / SETS)).await.unwrap();
    }
    until_running(&client, machines).await;
    let (took, used) = (begun.elapsed().as_secs_f64(), processor(&controllers.0));
    println!("bench: {machines} machines in {SETS} sets, all Running | {took:.1} s | 30 s");
    println!("bench: processor time of the controllers meanwhile | {used:.1} s | -");
    println!("bench: memory of the controllers, at most | {:.0} MB | 200 MB", memory(&controllers.0, "VmHWM:"));

    settle(&client).await;
    let (before, used) = (newest(&client).await, processor(&controllers.0));
    tokio::time::sleep(IDLE).await;
    let share = (processor(&controllers.0) - used) / IDLE.as_secs_f64() * 100.0;
    println!("bench: writes in {} s at rest | {} | 0", IDLE.as_secs(), newest(&client).await - before);
    println!("bench: processor at rest | {share:.2} % of a core | 1 %");

    let late = sick(&client).await;
    println!("bench: a sick node of {machines} is acted on after its timeout | {:.2} s | 1 s", late.as_secs_f64());
    println!("bench: memory of the controllers, in the end | {:.0} MB | 200 MB", memory(&controllers.0, "VmRSS:"));
    kubelets.abort();
}

/// A process that ends as with Ctrl-C.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn start(kubeconfig: &std::path::Path) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
    command.args(["machines", "--provider", "memory", "--lease-duration", "0", "--listen", "127.0.0.1:0"]);
    command.arg("--kubeconfig").arg(kubeconfig).env("RUST_LOG", "warn");
    Running(command.stdin(Stdio::null()).spawn().unwrap())
}

fn set(index: usize, replicas: usize) -> MachineSet {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "bench",
        "machine.openshift.io/cluster-api-machineset": format!("set-{index}"),
    });
    let spec = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "MemoryMachineProviderSpec",
        "instanceType": "small", "region": "bench", "zone": "a"});
    object(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": format!("set-{index}"), "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": spec}}}},
    }))
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Every Machine with an instance gets a Node that is Ready.
async fn kubelets(client: Client) {
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let nodes: Api<Node> = Api::all(client);
    let (sender, booting) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut seen = std::collections::HashSet::new();
        let mut changes = machines.watch(&WatchParams::default().timeout(290), "0").await.unwrap().boxed();
        while let Ok(Some(change)) = changes.try_next().await {
            let (WatchEvent::Added(machine) | WatchEvent::Modified(machine)) = change else { continue };
            let Some(id) = machine.spec.provider_id.clone() else { continue };
            if seen.insert(machine.name_any()) {
                let _ = sender.send((machine.name_any(), id));
            }
        }
    });
    let booting = futures::stream::unfold(booting, |mut booting| async { Some((booting.recv().await?, booting)) });
    booting
        .for_each_concurrent(16, |(name, id)| {
            let nodes = nodes.clone();
            async move {
                let node = object(
                    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id}}),
                );
                nodes.create(&PostParams::default(), &node).await.unwrap();
                ready(&nodes, &name, "True").await;
            }
        })
        .await;
}

async fn ready(nodes: &Api<Node>, name: &str, status: &str) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now, "lastHeartbeatTime": now,
        "reason": "Bench", "message": ""});
    let patch = json!({"status": {"conditions": [condition]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn until_running(client: &Client, count: usize) {
    let sets: Api<MachineSet> = Api::namespaced(client.clone(), NAMESPACE);
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    loop {
        let available: i32 = sets.list(&ListParams::default()).await.unwrap().items.iter().map(available).sum();
        if usize::try_from(available).unwrap() >= count {
            let machines = machines.list(&ListParams::default()).await.unwrap().items;
            if machines.iter().filter(|machine| is_running(machine)).count() >= count {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn available(set: &MachineSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn is_running(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
}

/// The newest version of anything in the cluster.
async fn newest(client: &Client) -> u64 {
    let nodes: Api<Node> = Api::all(client.clone());
    let list = nodes.list(&ListParams::default().limit(1)).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

/// Waits until nothing was written for two seconds.
async fn settle(client: &Client) {
    let mut before = 0;
    loop {
        let now = newest(client).await;
        if now == before {
            return;
        }
        before = now;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// How long after its timeout the Machine of a node that is not Ready is deleted.
async fn sick(client: &Client) -> Duration {
    let checks: Api<MachineHealthCheck> = Api::namespaced(client.clone(), NAMESPACE);
    let check: MachineHealthCheck = object(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "all"},
        "spec": {"selector": {"matchLabels": {"machine.openshift.io/cluster-api-cluster": "bench"}},
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": format!("{}s", TIMEOUT.as_secs())}]},
    }));
    checks.create(&PostParams::default(), &check).await.unwrap();
    settle(client).await;
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let name = machines.list(&ListParams::default().limit(1)).await.unwrap().items[0].name_any();
    // Conditions carry whole seconds: the timeout runs from the second that is told, so it begins with one.
    let fraction = jiff::Timestamp::now().subsec_nanosecond().unsigned_abs();
    tokio::time::sleep(Duration::from_secs(1).saturating_sub(Duration::from_nanos(fraction.into()))).await;
    let begun = Instant::now();
    ready(&Api::all(client.clone()), &name, "False").await;
    loop {
        let machine = machines.get_opt(&name).await.unwrap();
        if machine.is_none_or(|machine| machine.metadata.deletion_timestamp.is_some()) {
            return begun.elapsed().saturating_sub(TIMEOUT);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Megabytes, by one of the kernel's figures.
fn memory(process: &Child, figure: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Seconds of a processor that the process has used.
fn processor(process: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Ticks of a hundredth of a second, on every Linux that we run on.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
