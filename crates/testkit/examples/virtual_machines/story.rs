//! From a MachineSet to two booted machines, and back to nothing.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::machine::Machine;
use api::machineconfiguration::MachineConfigPool;
use api::names;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{ControlPlane, Kind, control_plane, objects, wait_for};

use crate::host::{ADDRESS, Host, assert_empty, virsh};
use crate::promises;

/// An emulated machine boots in half a minute on idle cores, but these may be busy.
const PATIENCE: Duration = Duration::from_secs(900);
const CONFIG_PORT: u16 = 22623;
const REPORT_PORT: u16 = 8099;
const GUIDE: &str = include_str!("../../../../docs/guide/libvirt.md");

/// The report of each machine, by its address.
type Reports = Arc<Mutex<BTreeMap<String, String>>>;

pub(crate) async fn tell(image: &Path) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("machinist-vm-").tempdir()?;
    let _host = Host::start(folder.path(), image)?;
    if !is_alone() {
        machines(folder.path()).await?;
    }
    crate::arguments::tell(folder.path()).await
}

/// Whether only the story of kernel arguments is asked for, with `MACHINIST_VM_STORY=arguments`.
pub(crate) fn is_alone() -> bool {
    std::env::var("MACHINIST_VM_STORY").is_ok_and(|story| story == "arguments")
}

/// The MachineSet of two.
async fn machines(folder: &Path) -> Result<()> {
    let spec = manifest()?["spec"]["template"]["spec"]["providerSpec"]["value"].clone();
    tokio::task::spawn_blocking(|| promises::keep(spec)).await??;
    let reports = listen()?;
    let control_plane = control_plane(Kind::Embedded).await.context("the embedded API cannot run here")?;
    control_plane.install().await;
    let client = control_plane.client().await;
    let _processes = serve(&control_plane, &client, folder).await?;
    println!("cluster: the API, the controllers and the config server run");

    let since = Instant::now();
    let set = manifest()?;
    apply(&client, &set).await?;
    until("two machines to report", || reports.lock().unwrap().len() == 2, || say(folder)).await?;
    println!("boot: 2 machines fetched their config and applied it, {:.0?} after their MachineSet", since.elapsed());
    for (address, text) in reports.lock().unwrap().iter() {
        println!("  {address}: {}", text.trim().replace('\n', ", "));
        ensure!(text.contains("hello from the pool"), "{address} has not written its files: {text}");
    }
    check_machines(&client, &reports).await?;

    let since = Instant::now();
    let scale = json!({"spec": {"replicas": 0}});
    let sets: Api<DynamicObject> = api(&client, &set)?;
    sets.patch("workers", &PatchParams::default(), &Patch::Merge(scale)).await?;
    let is_gone = || machines_of_host().is_ok_and(|machines| machines.is_empty());
    until("the machines to be gone", is_gone, || say(folder)).await?;
    let machines: Api<Machine> = Api::namespaced(client.clone(), names::MACHINE_API_NAMESPACE);
    testkit::wait_for_all(&machines, "the Machines to be gone", <[Machine]>::is_empty).await;
    println!("scale down: domains, volumes and reservations gone after {:.1?}", since.elapsed());
    assert_empty()?;
    let leases = virsh(&["net-dhcp-leases", "default"])?;
    println!(
        "leases that DHCP keeps until they end: {}",
        leases.lines().filter(|line| !line.trim().is_empty()).count()
    );
    Ok(())
}

/// Checks that every Machine has the address from which its machine reported, and that two configs were served.
async fn check_machines(client: &Client, reports: &Reports) -> Result<()> {
    let machines: Api<Machine> = Api::namespaced(client.clone(), names::MACHINE_API_NAMESPACE);
    let addresses = |machine: &Machine| {
        let status = machine.status.clone().unwrap_or_default();
        status.addresses.into_iter().map(|it| it.address).collect::<Vec<_>>()
    };
    let reported: Vec<String> = reports.lock().unwrap().keys().cloned().collect();
    let shown = |machines: &[Machine]| {
        let all: Vec<_> = machines.iter().flat_map(addresses).collect();
        machines.len() == 2 && reported.iter().all(|address| all.contains(address))
    };
    for machine in testkit::wait_for_all(&machines, "Machines to show their addresses", shown).await {
        let phase = machine.status.clone().and_then(|status| status.phase);
        let id = machine.spec.provider_id.clone().unwrap_or_default();
        println!("  {}: {phase:?}, {id}, {}", machine.name_any(), addresses(&machine).join(" "));
    }
    Ok(())
}

/// Renders the pool, and starts the controllers and the config server.
async fn serve(control_plane: &ControlPlane, client: &Client, folder: &Path) -> Result<Vec<Process>> {
    for namespace in [names::NAMESPACE, names::MACHINE_API_NAMESPACE] {
        apply(client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
    }
    let mut controller_config = objects::controller_config();
    controller_config["metadata"]["name"] = json!(names::CONTROLLER_CONFIG);
    apply(client, &controller_config).await?;
    apply(client, &serde_json::to_value(objects::machine_config("00-worker", "worker", config()))?).await?;
    apply(client, &serde_json::to_value(objects::pool("worker"))?).await?;
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let start = |name: &str, arguments: &[&str]| {
        let arguments: Vec<_> = [&[name], arguments, &["--kubeconfig", &kubeconfig]].concat();
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        Process::start(&binary("machinist"), &arguments, &[], &folder.join(format!("{name}.log")))
    };
    let controller = start("controller", &["--lease-duration", "0", "--settle", "0"])?;
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    wait_for(&pools, "worker", "the pool to have a config", |pool| {
        pool.and_then(|pool| pool.status.as_ref()?.configuration.as_ref()?.name.as_ref()).is_some()
    })
    .await;
    certify(folder)?;
    let path = |name: &str| folder.join(name).display().to_string();
    let (certificate, key, port) = (path("tls.crt"), path("tls.key"), CONFIG_PORT.to_string());
    // The machines have no kubelet that would use this token.
    let token = folder.join("bootstrap-token");
    std::fs::create_dir(&token)?;
    std::fs::write(token.join("token"), "unused")?;
    std::fs::copy(folder.join("tls.crt"), token.join("ca.crt"))?;
    let token = token.display().to_string();
    let mut arguments = vec!["--address", ADDRESS, "--secure-port", &port, "--cert", &certificate, "--key", &key];
    arguments.extend(["--apiserver-url", control_plane.server(), "--bootstrap-token", &token]);
    let mut server = start("server", &arguments)?;
    while !server.output().contains("Serving https://") {
        ensure!(server.is_running(), "the config server ended:\n{}", server.tail(5));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let user_data = pointer(&kubeconfig, &certificate)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"userData": user_data},
        "metadata": {"name": "worker-user-data", "namespace": names::MACHINE_API_NAMESPACE},
    });
    apply(client, &secret).await?;
    let machines = start("machines", &["--provider", "libvirt", "--emulate", "--lease-duration", "0"])?;
    Ok(vec![controller, server, machines])
}

/// A file, and a unit that reports the file to this program once the machine has booted.
fn config() -> Value {
    let report = format!(
        "[Unit]\nAfter=systemd-networkd.service\n[Service]\nType=oneshot\nExecStart=/bin/bash -c 'until exec \
         3<>/dev/tcp/{ADDRESS}/{REPORT_PORT}; do sleep 1; done; {{ cat /etc/greeting; uname -sr; cut -d. -f1 /proc/uptime; \
         }} >&3'\n[Install]\nWantedBy=multi-user.target\n"
    );
    let contents = json!({"source": "data:,hello%20from%20the%20pool%0A"});
    json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [{"path": "/etc/greeting", "mode": 420, "overwrite": true, "contents": contents}]},
        "systemd": {"units": [{"name": "report.service", "enabled": true, "contents": report}]},
    })
}

/// Returns the MachineSet from the guide.
fn manifest() -> Result<Value> {
    let yaml = GUIDE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    Ok(serde_saphyr::from_str(yaml.context("the guide has no manifest")?)?)
}

/// Returns user data for any number of machines, created with the command that users run.
fn pointer(kubeconfig: &str, authority: &str) -> Result<String> {
    let mut command = Command::new(binary("machinist"));
    command.args(["pointer", "--pool", "worker", "--uses", "2", "--ca", authority, "--kubeconfig", kubeconfig]);
    let output = command.arg("--server").arg(format!("{ADDRESS}:{CONFIG_PORT}")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn certify(folder: &Path) -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec![ADDRESS.to_owned()])?.self_signed(&key)?;
    std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
    std::fs::write(folder.join("tls.crt"), certificate.pem())?;
    Ok(())
}

/// Collects the machines' reports, by client address.
fn listen() -> Result<Reports> {
    let reports = Reports::default();
    let listener = TcpListener::bind(SocketAddr::new(ADDRESS.parse()?, REPORT_PORT))?;
    let kept = Arc::clone(&reports);
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            let mut text = String::new();
            if stream.read_to_string(&mut text).is_ok() && !text.is_empty() {
                kept.lock().unwrap().insert(peer.ip().to_string(), text);
            }
        }
    });
    Ok(reports)
}

fn machines_of_host() -> Result<Vec<String>> {
    let listed = virsh(&["list", "--all", "--name"])?;
    Ok(listed.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// Waits for a state, and prints everything that is known if it is not reached.
async fn until(what: &str, is_so: impl Fn() -> bool, tell: impl Fn()) -> Result<()> {
    let since = Instant::now();
    while !is_so() {
        if since.elapsed() > PATIENCE {
            tell();
            anyhow::bail!("waited {PATIENCE:?} for {what}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

fn say(folder: &Path) {
    for name in ["machines", "server", "controller"] {
        let log = std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        println!("== {name}\n{}", lines[lines.len().saturating_sub(15)..].join("\n"));
    }
    for arguments in [["list", "--all"], ["net-dhcp-leases", "default"]] {
        println!("{}", virsh(&arguments).unwrap_or_else(|error| error.to_string()));
    }
}

async fn apply(client: &Client, object: &Value) -> Result<()> {
    let name = object["metadata"]["name"].as_str().context("an object has a name")?;
    let api: Api<DynamicObject> = api(client, object)?;
    api.patch(name, &PatchParams::apply("virtual-machines").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// All kinds in this test have regular plurals.
fn api(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &kind));
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}
