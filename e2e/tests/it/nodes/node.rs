//! A node: a real systemd in its own container, with machinistd as one of its services.
//!
//! Nodes share the host's network, and each has its own address on the loopback interface.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use containers::{Container, Overlay, Root};
use testkit::ControlPlane;
use testkit::binaries::{binary, example};

use super::base::base;

const PATIENCE: Duration = Duration::from_secs(90);

/// A stand-in for the kubelet: healthy, and its node is ready.
const KUBELET: &str = r"[Service]
EnvironmentFile=/etc/machinist/machinistd.env
ExecStart=/usr/local/bin/on_node kubelet ${NODE_NAME} ${KUBELET_HEALTHZ}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";

/// Emulates a DaemonSet without a container engine: a separate mount namespace with the host's tree at `/rootfs`.
const CONTAINER: &str = r#"[Service]
EnvironmentFile=/etc/machinist/machinistd.env
ExecStart=/usr/bin/unshare -m /bin/sh -c "mount --rbind / /rootfs && mount -t tmpfs tmpfs /rootfs/rootfs && exec /usr/local/bin/machinistd start --root /rootfs"
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"#;

/// Settings in which nodes differ.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// Lines for the daemon's environment.
    pub(crate) environment: Vec<String>,
    /// The daemon runs as in a privileged container: the host is at `/rootfs`.
    pub(crate) in_container: bool,
    /// A stand-in for the kubelet runs on the node.
    pub(crate) kubelet: bool,
    /// Files that exist from the first boot on.
    pub(crate) files: Vec<(&'static str, String)>,
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    container: Arc<Container>,
    _folder: tempfile::TempDir,
}

impl Node {
    /// Creates and boots a node. Its Node object must exist already or be created soon.
    pub(crate) fn boot(control_plane: &ControlPlane, name: &str, number: u8, setup: &Setup) -> Self {
        let folder = tempfile::Builder::new().prefix("machinist-node-").tempdir().unwrap();
        let root = Overlay::mount(&base(), folder.path()).unwrap();
        let address = Ipv4Addr::new(127, 88, 0, number);
        furnish(&Root(root.path()), name, address, control_plane, setup);
        let container = Arc::new(Container::boot(name, folder.path(), root, |_| {}).unwrap());
        container.wait(PATIENCE, |state| state.is_up).unwrap();
        Self { name: name.to_owned(), address, container, _folder: folder }
    }

    /// Number of boots so far.
    pub(crate) fn boots(&self) -> u32 {
        self.container.state().boots
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.container.root().join(path.trim_start_matches('/'))
    }

    /// Runs a command on the node.
    pub(crate) fn try_run(&self, command: &[&str]) -> Output {
        self.container.command(command).expect("the node is up").output().expect("nsenter runs")
    }

    #[track_caller]
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {}: {stdout}{stderr}", self.name, command.join(" "));
        stdout.into_owned()
    }

    /// Kills the node like a power failure. It is started again.
    pub(crate) fn kill(&self) {
        self.container.kill();
    }

    /// Waits until the node has booted `count` times and finished starting up.
    pub(crate) async fn booted(&self, count: u32) {
        let container = Arc::clone(&self.container);
        let is_up = move || container.wait(PATIENCE, |state| state.is_up && state.boots >= count);
        tokio::task::spawn_blocking(is_up).await.unwrap().unwrap();
    }

    /// Makes the daemon die or halt at these points of its next update; see `faults` in the daemon.
    pub(crate) fn arm(&self, points: &[String]) {
        fs::create_dir_all(self.path("/var/lib")).unwrap();
        fs::write(self.path("/var/lib/machinistd-faults"), points.join("\n")).unwrap();
    }

    /// Returns the points that were not reached yet.
    pub(crate) fn armed(&self) -> String {
        self.read("/var/lib/machinistd-faults").unwrap_or_default()
    }

    /// Returns the daemon's log, for the message of a failed test.
    pub(crate) fn log(&self) -> String {
        let words = ["journalctl", "-u", "machinistd", "--no-pager", "-n", "80", "-o", "cat"];
        let journal = self.container.command(&words).and_then(|mut command| command.output().ok());
        journal.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.name, self.log());
        }
    }
}

fn furnish(root: &Root<'_>, name: &str, address: Ipv4Addr, control_plane: &ControlPlane, setup: &Setup) {
    let write = |path: &str, text: &str| root.write(path, text).unwrap();
    root.name(name).unwrap();
    for (path, text) in &setup.files {
        write(path, text);
    }
    write("etc/machine-id", "");
    root.add_user("core", 1000).unwrap();
    // Nodes share one network. Everything else is as the distribution has it, also where it reads keys from.
    let sshd = format!("ListenAddress {address}:22\nPasswordAuthentication no\nUsePAM no\n");
    write("etc/ssh/sshd_config.d/10-node.conf", &sshd);
    write("var/lib/kubelet/kubeconfig", &fs::read_to_string(control_plane.node_kubeconfig(name)).unwrap());
    let mut environment = vec![
        format!("NODE_NAME={name}"),
        "KUBECONFIG=/var/lib/kubelet/kubeconfig".to_owned(),
        "RUST_LOG=info,daemon=debug".to_owned(),
        // Nodes share one network, so each uses its own address for these.
        format!("KUBELET_HEALTHZ={address}:10248"),
        format!("METRICS_URL={address}:8797"),
    ];
    environment.extend(setup.environment.iter().cloned());
    write("etc/machinist/machinistd.env", &(environment.join("\n") + "\n"));
    root.install(&binary("machinistd"), "machinistd").unwrap();
    let unit =
        if setup.in_container { CONTAINER } else { include_str!("../../../../manifests/node/machinistd.service") };
    root.enable("machinistd.service", unit).unwrap();
    // Without the restart delay of a second, because the daemon dies often in some tests.
    write("etc/systemd/system/machinistd.service.d/10-story.conf", "[Service]\nRestartSec=100ms\n");
    root.make_folder("rootfs").unwrap();
    if setup.kubelet {
        root.install(&example("e2e", "on_node"), "on_node").unwrap();
        root.enable("kubelet.service", KUBELET).unwrap();
    }
}
