//! `machinist machines` with a provider that is a process of its own: the one that the guide shows, started and killed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use api::machine::Machine;
use api::names::MACHINE_API_NAMESPACE;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use testkit::{Kind, control_plane};

use crate::Folder;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program on the page of the guide.
fn program() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/a-provider-of-your-own.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```python shed.py\n").unwrap();
    rest.split_once("\n```\n").unwrap().0.to_owned()
}

fn start_provider(folder: &Folder) -> Running {
    let mut python = Command::new("python3");
    python.args(["shed.py", "shed.sock", "shed"]).current_dir(folder.path()).stdin(Stdio::null());
    let mut process = python.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    Running(process)
}

fn start_controllers(folder: &Folder, kubeconfig: &Path) -> Running {
    let socket: PathBuf = folder.path().join("shed.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
    command.args(["machines", "--lease-duration", "0", "--listen", "127.0.0.1:0"]);
    command.arg(format!("--provider=unix:{}", socket.display())).arg("--kubeconfig").arg(kubeconfig);
    Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn create(machines: &Api<Machine>, name: &str) {
    let machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "labels": {"machine.openshift.io/cluster-api-cluster": "shed"}},
        "spec": {"providerSpec": {"value": {"shelf": "left", "userDataSecret": {"name": "worker-user-data"}}}},
    });
    machines.create(&PostParams::default(), &read(machine)).await.unwrap();
}

async fn has_instance(machines: &Api<Machine>, name: &str) {
    testkit::wait_for(machines, name, "an instance", |machine: Option<&Machine>| {
        let id = machine.and_then(|machine| machine.spec.provider_id.as_ref());
        id.is_some_and(|id| id.starts_with("shed://left/"))
    })
    .await;
}

async fn says_that_nobody_answers(machines: &Api<Machine>, name: &str) {
    testkit::wait_for(machines, name, "a condition that names the socket", |machine: Option<&Machine>| {
        let Some(machine) = machine else { return false };
        let conditions = machine.status.iter().flat_map(|status| &status.conditions);
        let text = json!(conditions.collect::<Vec<_>>()).to_string();
        text.contains("shed.sock") && machine.spec.provider_id.is_none()
    })
    .await;
}

#[tokio::test]
async fn machines_of_a_provider_of_ones_own_say_when_it_does_not_answer_and_go_on_when_it_does() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let plane = control_plane(Kind::Embedded).await.unwrap();
    plane.install().await;
    let client = plane.client().await;
    let namespace = json!({"metadata": {"name": MACHINE_API_NAMESPACE}});
    let _ = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &read(namespace)).await;
    let secret = json!({"metadata": {"name": "worker-user-data"}, "stringData": {"userData": "{}"}});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), MACHINE_API_NAMESPACE);
    secrets.create(&PostParams::default(), &read(secret)).await.unwrap();
    let machines: Api<Machine> = Api::namespaced(client, MACHINE_API_NAMESPACE);
    let folder = Folder::new(&[("shed.py", &program())]);

    let _controllers = start_controllers(&folder, &plane.kubeconfig());
    create(&machines, "a").await;
    says_that_nobody_answers(&machines, "a").await;
    let provider = start_provider(&folder);
    has_instance(&machines, "a").await;

    drop(provider);
    create(&machines, "b").await;
    says_that_nobody_answers(&machines, "b").await;
    let _provider = start_provider(&folder);
    has_instance(&machines, "b").await;
    machines.delete("a", &DeleteParams::default()).await.unwrap();
    testkit::wait_for_all(&machines, "machine a to be gone", |machines| machines.len() == 1).await;
}
