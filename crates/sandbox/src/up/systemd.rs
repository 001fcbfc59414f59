//! The real nodes of `up --systemd`: each a systemd container, with machinistd as one of its services.
//!
//! Files, units and reboots are real. Only the kubelet is played: its unit runs a program that waits, and its heartbeats are
//! the stand-ins'.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use containers::{Base, Container, Overlay, Root, State};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::Arguments;
use super::nodes::{self, Place, SWITCH};
use super::told_to_stop;

/// What the daemon is as a service; the one that is installed on real hosts.
const UNIT: &str = include_str!("../../../../manifests/node/machinistd.service");

/// Stands where the kubelet's unit expects it. `machinist up` plays the kubelet, while its unit runs.
const KUBELET: &str = "#!/bin/sh\n# `machinist up` plays the kubelet; this tells it whether the unit runs.\n\
    trap 'touch /var/lib/machinist/kubelet-stopped; exit 0' TERM\nmkdir -p /var/lib/machinist\n\
    rm -f /var/lib/machinist/kubelet-stopped\nsleep infinity &\nwait\n";

/// How long a container may take to boot, also on a machine that does much else.
const BOOT: Duration = Duration::from_secs(90);
/// How long services have to end; longer than any of ours takes.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// What all nodes are made from.
pub(super) struct Parts {
    base: PathBuf,
    machinistd: PathBuf,
    os: String,
}

/// What one node is made from.
pub(super) struct Making {
    pub(super) parts: Arc<Parts>,
    pub(super) kubeconfig: String,
    pub(super) birth: Birth,
}

/// What a machine goes through before its own system starts, on its mounted root. It may take long, and ends early when the
/// machine is told to stop; it never leaves anything behind that still writes.
pub(super) struct Birth(Box<dyn FnOnce(PathBuf, watch::Receiver<bool>) -> Born + Send>);

type Born = BoxFuture<'static, anyhow::Result<()>>;

impl Birth {
    pub(super) fn new(birth: impl FnOnce(PathBuf, watch::Receiver<bool>) -> Born + Send + 'static) -> Self {
        Self(Box::new(birth))
    }
}

/// Finds or makes what nodes are made from, or says in one sentence what is missing.
pub(super) fn prepare(arguments: &Arguments) -> anyhow::Result<Parts> {
    if let Err(error) = containers::requirements() {
        bail!("{error}. Without --systemd the nodes are simulated, and nothing of this is needed");
    }
    let machinistd = find_machinistd(arguments.machinistd.as_deref())?;
    let base = Base::of_user();
    if !base.is_made() {
        anstream::println!("Making the Debian that nodes start from, once for this machine. It takes a minute or two.");
    }
    let base = base.make()?;
    let os = os_name(&std::fs::read_to_string(base.join("etc/os-release")).unwrap_or_default());
    Ok(Parts { base, machinistd, os })
}

/// The daemon's binary: the one that was named, else beside ours, else on the PATH.
fn find_machinistd(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return match named.canonicalize() {
            Ok(path) if path.is_file() => Ok(path),
            _ => bail!("--machinistd {}: there is no such file", named.display()),
        };
    }
    let ours = std::env::current_exe().ok();
    let beside = ours.as_deref().and_then(Path::parent).map(|folder| folder.join("machinistd"));
    let found = beside.filter(|path| path.is_file()).or_else(|| containers::find_program("machinistd"));
    found.with_context(|| {
        let place = ours.as_deref().and_then(Path::parent).unwrap_or(Path::new("machinist")).display();
        format!(
            "real nodes run machinistd, and it is neither in {place} nor on the PATH; build it with `cargo build -p machinistd`, \
             or name it with --machinistd"
        )
    })
}

fn os_name(release: &str) -> String {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Debian".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// Runs one node until it is told to stop; then its services are stopped and its root is unmounted.
pub(super) async fn run(
    client: Client,
    place: Place,
    Making { parts, kubeconfig, birth }: Making,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Place { name, number, root, machines } = place;
    let folder = root.parent().context("a node has a folder")?.to_owned();
    machines.set_rebooting(&name, true);
    let (node, whole, at) = (name.clone(), Arc::clone(&parts), folder.clone());
    let mounting = spawn_blocking(move || {
        let overlay = Overlay::mount(&whole.base, &at)?;
        furnish(&Root(overlay.path()), &node, number, &whole.machinistd, &kubeconfig)?;
        anyhow::Ok(overlay)
    });
    let overlay = mounting.await?.with_context(|| format!("cannot make node {name}"))?;
    let born = (birth.0)(overlay.path().to_owned(), stopped.clone()).await;
    born.with_context(|| format!("the first boot of {name} failed"))?;
    if *stopped.borrow() {
        return Ok(());
    }
    let (tell, mut states) = watch::channel(State::default());
    let (node, leader) = (name.clone(), folder.join("leader"));
    let booting = spawn_blocking(move || {
        Container::boot(&node, &folder, overlay, move |state| {
            let _ = tell.send(state);
        })
    });
    let container = Arc::new(booting.await?.with_context(|| format!("cannot start node {name}"))?);
    let nodes: Api<Node> = Api::all(client);
    let (mut is_off, mut restarts) = (false, 0);
    let first = tokio::time::sleep(BOOT);
    tokio::pin!(first);
    loop {
        let is_slow = !is_off && container.state().boots <= 1 && !container.state().is_up;
        tokio::select! {
            changed = states.changed() => {
                changed.context("the container is gone")?;
                let state = *states.borrow_and_update();
                // For whoever wants to have a look: nsenter -t $(cat leader).
                let _ = std::fs::write(&leader, state.leader.map(|id| id.to_string()).unwrap_or_default());
                tracing::info!(node = name, boots = state.boots, is_up = state.is_up, "machine");
                machines.set_rebooting(&name, !state.is_up);
                let boot_id = if state.is_up { boot_id(&container).await } else { String::new() };
                let (info, message) = (node_info(&parts.os, &boot_id), "a systemd container of machinist up");
                if let Err(error) = nodes::set_ready(&nodes, &name, state.is_up, message, &info).await {
                    tracing::warn!(error = &error as &dyn std::error::Error, node = name, "cannot tell that it is up");
                }
            }
            () = tokio::time::sleep(SWITCH) => {
                if machines.is_switched_off(&name) != is_off {
                    is_off = !is_off;
                    container.switch(!is_off);
                }
                if machines.restarts_of(&name) != restarts {
                    restarts = machines.restarts_of(&name);
                    let container = Arc::clone(&container);
                    spawn_blocking(move || container.command(&["systemctl", "restart", "machinistd"])?.status().ok());
                }
            }
            () = &mut first, if is_slow => container.wait(Duration::ZERO, |state| state.is_up)?,
            () = told_to_stop(stopped.clone()) => break,
        }
    }
    let ending = spawn_blocking(move || Arc::into_inner(container).map(|container| container.stop(SHUTDOWN)));
    ending.await.map(drop).context("cannot stop a container")
}

/// What the kubelet of a real node would tell of it.
fn node_info(os: &str, boot_id: &str) -> Value {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut info = nodes::node_info();
    info["osImage"] = json!(os);
    info["kernelVersion"] = json!(kernel.trim());
    info["bootID"] = json!(boot_id);
    info
}

/// Another one with each boot, also of a container.
async fn boot_id(container: &Arc<Container>) -> String {
    let container = Arc::clone(container);
    let read = move || {
        let output = container.command(&["cat", "/proc/sys/kernel/random/boot_id"])?.output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    spawn_blocking(read).await.ok().flatten().unwrap_or_default()
}

/// What a machine has before its daemon first starts. A second time only what may have changed is written.
fn furnish(root: &Root<'_>, name: &str, number: u32, machinistd: &Path, kubeconfig: &str) -> anyhow::Result<()> {
    root.try_program(machinistd, "machinistd")?;
    let secret = root.0.join("var/lib/kubelet/kubeconfig");
    root.write("var/lib/kubelet/kubeconfig", kubeconfig)?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).context("cannot close the kubeconfig")?;
    // Nodes share one network, so each has its own address for its metrics. The kubelet has no health to ask for.
    let metrics = format!("127.88.{}.{}:8797", number / 250, number % 250 + 1);
    let environment = format!(
        "NODE_NAME={name}\nKUBECONFIG=/var/lib/kubelet/kubeconfig\nRUST_LOG=info\nKUBELET_HEALTHZ=\nMETRICS_URL={metrics}\n"
    );
    root.write("etc/machinist/machinistd.env", &environment)?;
    root.enable("machinistd.service", UNIT)?;
    let is_made = root.0.join("usr/bin/kubelet").exists();
    root.write("usr/bin/kubelet", KUBELET)?;
    let kubelet = root.0.join("usr/bin/kubelet");
    std::fs::set_permissions(&kubelet, std::fs::Permissions::from_mode(0o755)).context("cannot write the kubelet")?;
    if is_made {
        return Ok(());
    }
    root.name(name)?;
    // All nodes were made from one system; each gets an id of its own at its first boot.
    root.write("etc/machine-id", "")?;
    root.add_user("core", 1000)?;
    // Port 22 is the host's: nodes share its network.
    Ok(root.mask("ssh.service")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_not_there_is_asked_for_by_name() {
        let error = find_machinistd(Some(Path::new("/nowhere/machinistd"))).expect_err("it is not there").to_string();
        assert_eq!(error, "--machinistd /nowhere/machinistd: there is no such file");
        // Test binaries lie in a folder without a machinistd.
        if containers::find_program("machinistd").is_none() {
            let error = find_machinistd(None).expect_err("it is not there").to_string();
            assert!(error.contains("cargo build -p machinistd") && error.contains("--machinistd"), "{error}");
        }
    }

    #[test]
    fn a_system_is_called_by_the_name_people_know() {
        assert_eq!(os_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        assert_eq!(os_name(""), "Debian");
    }
}
