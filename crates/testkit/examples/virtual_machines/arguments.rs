//! Kernel arguments that `machinistd` gives to Debian's GRUB: a machine boots with them, and goes back when its trial fails.
//!
//! The daemon runs as its own unit, sandbox and all, and speaks to the embedded API. Each boot reports the line that the
//! kernel was given.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::MachineConfig;
use api::{annotations, labels, names};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::binaries::binary;
use testkit::{ControlPlane, Kind, control_plane, wait_for_within};

use crate::host::{ADDRESS, virsh};

const NODE: &str = "grub";
const LINES_PORT: u16 = 8098;
const FILES_PORT: u16 = 8097;
const UNIT: &str = include_str!("../../../../manifests/node/machinistd.service");
/// An emulated machine boots in half a minute on idle cores, and runs `update-grub` in ten seconds, but these may be busy.
const PATIENCE: Duration = Duration::from_secs(900);
/// One with quotes around spaces and one with quotes that say nothing: GRUB moves and drops them.
const WANTED: [&str; 3] = ["machinist.story=1", "machinist.words=\"one two\"", "cgroup_no_v1=\"all\""];

type Lines = Arc<Mutex<Vec<String>>>;

pub(crate) async fn tell(folder: &Path) -> Result<()> {
    let lines = listen()?;
    let control_plane = control_plane(Kind::Embedded).await.context("the embedded API cannot run here")?;
    control_plane.install().await;
    let client = control_plane.client().await;
    prepare(&client).await?;
    let port: u16 = control_plane.server().rsplit(':').next().context("the API has a port")?.parse()?;
    forward(port)?;
    serve_daemon(folder)?;
    let since = Instant::now();
    start(folder, &user_data(&control_plane, port)?)?;
    boots(&lines, 1).await?;
    println!("arguments: the machine has booted, {:.0?} after it was defined: {}", since.elapsed(), last(&lines));
    let own = last(&lines);

    let since = Instant::now();
    ask_for(&client, "rendered-worker-arguments").await?;
    node(&client, "the arguments to be taken", |all| {
        all(annotations::CURRENT_CONFIG) == "rendered-worker-arguments" && all(annotations::STATE) == "Done"
    })
    .await?;
    println!("arguments: written, booted and Done after {:.0?}: {}", since.elapsed(), last(&lines));
    let with_arguments = last(&lines);
    for part in ["machinist.story=1", "\"machinist.words=one two\"", "cgroup_no_v1=all"] {
        ensure!(with_arguments.contains(part), "{part} is not in {with_arguments}");
    }
    ensure!(with_arguments.starts_with(own.trim_end()), "the host's own arguments have changed");

    let since = Instant::now();
    let before = lines.lock().unwrap().len();
    ask_for(&client, "rendered-worker-broken").await?;
    node(&client, "the broken config to be given back", |all| {
        all(annotations::STATE) == "Degraded" && all(annotations::CURRENT_CONFIG) == "rendered-worker-arguments"
    })
    .await?;
    boots(&lines, before + 2).await?;
    let seen = lines.lock().unwrap()[before..].to_vec();
    println!("arguments: a config that fails its trial was given back after {:.0?}:", since.elapsed());
    seen.iter().for_each(|line| println!("  {line}"));
    ensure!(seen[0].contains("machinist.story=2"), "the machine has not booted with the broken config");
    ensure!(seen[seen.len() - 1] == with_arguments, "the arguments are not as they were");
    virsh(&["destroy", NODE])?;
    virsh(&["undefine", NODE])?;
    virsh(&["vol-delete", "--pool", "default", &format!("{NODE}.qcow2")])?;
    Ok(())
}

fn config(name: &str, arguments: &[&str], units: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {labels::RENDERED_FOR: "worker"}},
        "spec": {"kernelArguments": arguments, "config": {"ignition": {"version": "3.4.0"}, "systemd": {"units": units}}},
    })
}

/// The Node as its kubelet would have made it, and its configs.
async fn prepare(client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": names::NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let broken = "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n";
    let units = json!([{"name": "broken.service", "enabled": true, "contents": broken}]);
    let configs: Api<MachineConfig> = Api::all(client.clone());
    for config in [
        config("rendered-worker-bare", &[], &json!([])),
        config("rendered-worker-arguments", &WANTED, &json!([])),
        config("rendered-worker-broken", &["machinist.story=2"], &units),
    ] {
        configs.create(&PostParams::default(), &serde_json::from_value(config)?).await?;
    }
    let node = json!({"metadata": {"name": NODE, "annotations": {
        annotations::CURRENT_CONFIG: "rendered-worker-bare", annotations::DESIRED_CONFIG: "rendered-worker-bare",
        annotations::STATE: "Done",
        // Such a node is not drained; nobody drains here.
        annotations::CONTROL_PLANE_TOPOLOGY: "SingleReplica",
    }}});
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    Ok(())
}

async fn ask_for(client: &Client, config: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {annotations::DESIRED_CONFIG: config}}});
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn node(client: &Client, what: &str, is_so: impl Fn(&dyn Fn(&str) -> String) -> bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let holds = |node: Option<&Node>| {
        let all = node.and_then(|node| node.metadata.annotations.as_ref());
        all.is_some_and(|all| is_so(&|key| all.get(key).cloned().unwrap_or_default()))
    };
    wait_for_within(PATIENCE, &nodes, NODE, what, holds).await;
    Ok(())
}

/// What Ignition gives the machine: the daemon with its unit, its way to the API, and a report of each boot.
fn user_data(control_plane: &ControlPlane, port: u16) -> Result<Value> {
    let kubeconfig = std::fs::read_to_string(control_plane.node_kubeconfig(NODE))?;
    let mut kubeconfig: Value = serde_saphyr::from_str(&kubeconfig)?;
    let cluster = &mut kubeconfig["clusters"][0]["cluster"];
    cluster["server"] = json!(format!("https://{ADDRESS}:{port}"));
    // The API's certificate knows nothing of the host's address on its network.
    cluster["tls-server-name"] = json!("localhost");
    let report = format!(
        "[Unit]\nAfter=systemd-networkd.service\n[Service]\nType=oneshot\nExecStart=/bin/bash -c 'until exec \
         3<>/dev/tcp/{ADDRESS}/{LINES_PORT}; do sleep 1; done; cat /proc/cmdline >&3'\n[Install]\n\
         WantedBy=multi-user.target\n"
    );
    let bare = serde_json::to_string(&config("rendered-worker-bare", &[], &json!([])))?;
    let inline = |text: &str| json!({"source": format!("data:;base64,{}", STANDARD.encode(text))});
    let environment = format!("NODE_NAME={NODE}\nKUBECONFIG=/etc/machinist/kubeconfig\n");
    let file = |path: &str, mode: u32, contents: Value| json!({"path": path, "mode": mode, "contents": contents});
    Ok(json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [
            file("/usr/local/bin/machinistd", 0o755, json!({"source": format!("http://{ADDRESS}:{FILES_PORT}/machinistd")})),
            file("/etc/machinist/machinistd.env", 0o600, inline(&environment)),
            file("/etc/machinist/kubeconfig", 0o600, inline(&kubeconfig.to_string())),
            file("/etc/machine-config-daemon/currentconfig", 0o600, inline(&bare)),
        ]},
        "systemd": {"units": [
            {"name": "machinistd.service", "enabled": true, "contents": UNIT,
             "dropins": [{"name": "console.conf", "contents": "[Service]\nStandardOutput=journal+console\n"}]},
            {"name": "report.service", "enabled": true, "contents": report},
        ]},
    }))
}

fn start(folder: &Path, user_data: &Value) -> Result<()> {
    let config = folder.join("grub.ign");
    std::fs::write(&config, user_data.to_string())?;
    let (volume, config) = (format!("{NODE}.qcow2"), config.display());
    let backing = ["--backing-vol", "base.qcow2", "--backing-vol-format", "qcow2"];
    virsh(&[&["vol-create-as", "default", &volume, "2GiB", "--format", "qcow2"], &backing[..]].concat())?;
    let console = folder.join("grub.console");
    let domain = format!(
        "<domain type='qemu'><name>{NODE}</name><memory unit='MiB'>512</memory><vcpu>2</vcpu>
         <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
         <features><acpi/><apic/><tcg><tb-cache unit='MiB'>128</tb-cache></tcg></features>
         <cpu mode='custom' match='exact'><model>qemu64</model></cpu>
         <sysinfo type='fwcfg'><entry name='opt/com.coreos/config' file='{config}'/></sysinfo>
         <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
         <devices>
         <disk type='volume' device='disk'><driver name='qemu' type='qcow2' cache='unsafe'/>
         <source pool='default' volume='{volume}'/><target dev='vda' bus='virtio'/></disk>
         <interface type='network'><source network='default'/><model type='virtio'/></interface>
         <serial type='file'><source path='{}'/><target port='0'/></serial>
         <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
         <memballoon model='none'/><controller type='usb' model='none'/>
         </devices></domain>",
        console.display()
    );
    let path = folder.join("grub.xml");
    std::fs::write(&path, domain)?;
    virsh(&["define", &path.display().to_string()])?;
    virsh(&["start", NODE])?;
    Ok(())
}

/// Waits until this many boots have reported.
async fn boots(lines: &Lines, count: usize) -> Result<()> {
    let since = Instant::now();
    while lines.lock().unwrap().len() < count {
        ensure!(since.elapsed() < PATIENCE, "{count} boots have not reported: {:?}", lines.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

fn last(lines: &Lines) -> String {
    lines.lock().unwrap().last().cloned().unwrap_or_default()
}

/// Collects the lines that kernels were given.
fn listen() -> Result<Lines> {
    let lines = Lines::default();
    let listener = TcpListener::bind(SocketAddr::new(ADDRESS.parse()?, LINES_PORT))?;
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut text = String::new();
            if stream.read_to_string(&mut text).is_ok() && !text.is_empty() {
                kept.lock().unwrap().push(text.trim().to_owned());
            }
        }
    });
    Ok(lines)
}

/// Lets machines reach the API, which listens on the loopback only.
fn forward(port: u16) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::new(ADDRESS.parse()?, port))?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (Ok(back), Ok(from)) = (stream.try_clone(), server.try_clone()) else { continue };
            pour(stream, server);
            pour(from, back);
        }
    });
    Ok(())
}

fn pour(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}

/// Serves the daemon, which Ignition fetches, without what only debuggers read.
fn serve_daemon(folder: &Path) -> Result<()> {
    let (built, slim) = (binary("machinistd"), folder.join("machinistd"));
    ensure!(built.is_file(), "{} is missing", built.display());
    let status = Command::new("strip").arg("-o").args([&slim, &built]).status()?;
    ensure!(status.success(), "strip failed");
    let bytes = std::fs::read(&slim)?;
    let listener = TcpListener::bind(SocketAddr::new(ADDRESS.parse()?, FILES_PORT))?;
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Whatever is asked for, there is one file.
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
        }
    });
    Ok(())
}
