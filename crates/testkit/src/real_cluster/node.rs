//! A node with a real kubelet: a systemd container with a network namespace and cgroups of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use containers::{Container, Overlay, Root, Surroundings};

use super::claim::Claim;
use super::control_plane::Files;
use super::furniture::{self, Furniture, IMAGES, PROGRAMS};
use super::network::{self, Network};

/// A boot takes two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A booted node; switched off when dropped.
pub struct Node {
    name: String,
    number: u8,
    network: Network,
    container: Arc<Container>,
}

/// What all nodes of a cluster have in common.
pub(super) struct Common<'a> {
    pub(super) claim: &'a Claim,
    pub(super) network: &'a Network,
    pub(super) files: &'a Files,
    pub(super) base: &'a Path,
    /// Folders that nodes only read: the programs of Kubernetes, and the archives of images.
    pub(super) programs: &'a Path,
    pub(super) images: &'a Path,
}

impl Node {
    /// Boots a new node, and returns while it still starts.
    pub(super) fn boot(common: &Common<'_>, furniture: &Furniture<'_>) -> Result<Self> {
        let Common { claim, network, files, base, programs, images } = *common;
        let &Furniture { name, number, .. } = furniture;
        let folder = claim.folder().join(name);
        // Neither may be on the overlay: containerd's own overlays cannot lie on another one.
        let own = ["containerd", "kubelet"].map(|part| folder.join(part));
        for path in &own {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        let settings = own[1].join("config.yaml");
        fs::write(&settings, furniture::kubelet().to_string())
            .with_context(|| format!("cannot write {}", settings.display()))?;
        let root = Overlay::mount(base, &folder)?;
        furniture.put_into(&Root(root.path()), files)?;
        claim.cgroups().make(name)?;
        let bind = |from: &Path, to: &str| format!("--bind={}:{to}", from.display());
        let bind_ro = |from: &Path, to: &str| format!("--bind-ro={}:{to}", from.display());
        let flags = vec![
            format!("--network-namespace-path={}", network.node(number).display()),
            // The kubelet opens /dev/kmsg, and runc makes containers with every right of ours.
            "--capability=all".to_owned(),
            "--system-call-filter=@keyring bpf perf_event_open".to_owned(),
            // The real one would show each kubelet the log of the whole machine.
            "--bind=/dev/null:/dev/kmsg".to_owned(),
            "--resolv-conf=off".to_owned(),
            bind(&own[0], "/var/lib/containerd"),
            bind(&own[1], "/var/lib/kubelet"),
            bind_ro(programs, PROGRAMS),
            bind_ro(images, IMAGES),
        ];
        let (again, groups, name_of_groups) = (network.clone(), claim.cgroups().clone(), name.to_owned());
        let prepare = move || {
            groups.clear(&name_of_groups).map_err(|error| format!("cannot clear its cgroups: {error}"))?;
            again.boot(number).map_err(|error| format!("{error:#}"))
        };
        let surroundings = Surroundings {
            launcher: claim.cgroups().launcher(name),
            flags,
            // Pods are routed by the node, so it must be allowed to say so.
            environment: vec![("SYSTEMD_NSPAWN_API_VFS_WRITABLE".to_owned(), "network".to_owned())],
            prepare: Some(Box::new(prepare)),
        };
        let container = Container::boot_in(surroundings, name, &folder, root, |_| {})?;
        Ok(Self { name: name.to_owned(), number, network: network.clone(), container: Arc::new(container) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, which only the cluster's own namespaces know.
    pub fn address(&self) -> Ipv4Addr {
        network::address(self.number)
    }

    /// How often it has booted.
    pub fn boots(&self) -> u32 {
        self.container.state().boots
    }

    /// Waits until it has booted `count` times and has started everything.
    pub async fn booted(&self, count: u32) {
        let container = Arc::clone(&self.container);
        let is_up = move || container.wait(PATIENCE, |state| state.is_up && state.boots >= count);
        tokio::task::spawn_blocking(is_up).await.unwrap().unwrap();
    }

    /// A path of its root, as this machine sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.container.root().join(path.trim_start_matches('/'))
    }

    /// A file of its root, whether it is up or not.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// Runs a command on the node; nothing while it is down.
    pub fn try_run(&self, command: &[&str]) -> Option<Output> {
        self.container.command(command).map(|mut command| command.output().expect("nsenter runs"))
    }

    /// Runs a command that has to succeed, and returns what it printed.
    #[track_caller]
    pub fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command).unwrap_or_else(|| panic!("{} is down", self.name));
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {}: {stdout}{stderr}", self.name, command.join(" "));
        stdout.into_owned()
    }

    /// Runs `work` on a thread in the node's network, as a program on the node would. Ends with `work` only.
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        network::spawn_inside(&self.network.node(self.number), work).unwrap()
    }

    /// Cuts it off at once, as pulling its plug would; it is started again.
    pub fn kill(&self) {
        self.container.kill();
    }

    /// Switches it off, as a power cut would, or on again.
    pub fn switch(&self, on: bool) {
        self.container.switch(on);
    }

    /// The last lines of a unit's journal, for the message of a failed test.
    pub fn journal(&self, unit: &str, lines: usize) -> String {
        let lines = lines.to_string();
        let output = self.try_run(&["journalctl", "-u", unit, "--no-pager", "-o", "cat", "-n", &lines]);
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }

    /// The last lines of its console.
    pub fn console(&self, lines: usize) -> String {
        self.container.console(lines)
    }
}
