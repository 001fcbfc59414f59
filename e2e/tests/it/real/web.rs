//! A web service as users run it, two replicas behind a Service with a disruption budget, and a client that counts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use serde_json::{Value, json};
use testkit::real_cluster::WORKLOAD;

use super::stage::Stage;

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Forty requests a second find an outage of a tenth of one, and leave the machine to others.
const PACE: Duration = Duration::from_millis(25);

/// Deploys the service and waits until both replicas answer to their probes; returns the Service's address.
pub(super) async fn deploy(stage: &Stage) -> SocketAddr {
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [deployment(), service(), budget("web", 1)]});
    stage.cluster.apply(&manifest.to_string());
    is_complete(stage).await;
    let services: Api<Service> = Api::namespaced(stage.client.clone(), "default");
    let address = services.get("web").await.unwrap().spec.unwrap().cluster_ip.unwrap();
    SocketAddr::new(address.parse().unwrap(), 80)
}

/// Waits until both replicas are ready.
pub(super) async fn is_complete(stage: &Stage) {
    stage.deployed(&Api::namespaced(stage.client.clone(), "default"), "web").await;
}

/// A budget that keeps `least` pods of an app.
pub(super) fn budget(app: &str, least: i32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    // Never both on one node, so that whichever node goes takes one of them.
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }]}},
                    "containers": [{
                        "name": "web", "image": WORKLOAD, "imagePullPolicy": "Never",
                        "command": ["/usr/bin/in_pod", "serve", "8080"],
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
                        // It answers until every kube-proxy has heard that it goes.
                        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                    }],
                },
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

/// What came of a client's requests.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) answered: u32,
    /// What went wrong, each with the number of answers before it.
    pub(super) failures: Vec<(u32, String)>,
}

/// A client on a node that asks again and again, each time with a new connection and without a second try.
pub(super) struct Client {
    is_enough: Arc<AtomicBool>,
    thread: JoinHandle<Counted>,
}

impl Client {
    /// Begins to count with the first answer: the node's kube-proxy hears of ready pods later than we do.
    pub(super) fn start(stage: &Stage, node: &str, address: SocketAddr) -> Self {
        let is_enough = Arc::new(AtomicBool::new(false));
        let enough = Arc::clone(&is_enough);
        let thread = stage.cluster.node(node).inside(move || {
            while ask(address).is_err() && !enough.load(Ordering::Relaxed) {
                std::thread::sleep(PACE);
            }
            let mut counted = Counted::default();
            while !enough.load(Ordering::Relaxed) {
                match ask(address) {
                    Ok(_) => counted.answered += 1,
                    Err(error) => counted.failures.push((counted.answered, error.to_string())),
                }
                std::thread::sleep(PACE);
            }
            counted
        });
        Self { is_enough, thread }
    }

    pub(super) fn stop(self) -> Counted {
        self.is_enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// One request; the answer is the name of the pod that gave it.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let answer = text.strip_prefix("HTTP/1.1 200 OK\r\n").and_then(|rest| rest.split_once("\r\n\r\n"));
    answer.map(|(_, body)| body.to_owned()).ok_or_else(|| std::io::Error::other(format!("an odd answer: {text:?}")))
}
