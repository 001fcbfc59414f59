//! What stories need to run on a node itself: a stand-in for the kubelet, and the host port's suite on the real host.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use host::conformance;
use host::machine::Machine;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// As often as a kubelet renews its lease.
const HEARTBEAT: Duration = Duration::from_secs(10);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["kubelet", node, address] => kubelet(node, address),
        ["conformance"] => conformance::all_but_reboot(&Machine::open(Path::new("/")).unwrap()),
        ["boot-id"] => {
            let machine: &dyn change::host::Host = &Machine::open(Path::new("/")).unwrap();
            println!("{}", machine.system().boot_id().unwrap());
        }
        ["reboot"] => {
            let machine: &dyn change::host::Host = &Machine::open(Path::new("/")).unwrap();
            machine.system().reboot("the suite asks for it").unwrap();
        }
        _ => panic!("on_node kubelet NODE ADDRESS | conformance | boot-id | reboot"),
    }
}

/// Says that it is healthy, and that its node is ready, for as long as it lives.
fn kubelet(node: &str, address: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::try_default().await.unwrap();
        loop {
            if let Err(error) = beat(&client, node).await {
                eprintln!("heartbeat: {error}");
            }
            tokio::time::sleep(HEARTBEAT).await;
        }
    });
}

async fn beat(client: &Client, node: &str) -> Result<(), kube::Error> {
    let now = jiff::Timestamp::now();
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let status = json!({ "status": { "conditions": [ready] } });
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch_status(node, &PatchParams::default(), &Patch::Strategic(status)).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": node },
        "spec": {
            "holderIdentity": node, "leaseDurationSeconds": 40,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        },
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    leases.patch(node, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await?;
    Ok(())
}
