//! A node: a real systemd in a container of its own, with machinistd as one of its services.
//!
//! Its root is an overlay over the base. When the node asks for a reboot the container ends and is started again, as a
//! machine would be. Nodes share the host's network and have an address of their own on the loopback.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use testkit::ControlPlane;
use testkit::binaries::binary;

use super::base::base;

/// How systemd-nspawn says that the container wants to be started again.
const REBOOT: i32 = 133;
const PATIENCE: Duration = Duration::from_secs(90);

/// A kubelet as far as the cluster and the daemon can tell: it is healthy, and its node is ready.
const KUBELET: &str = r"[Service]
EnvironmentFile=/etc/machinist/machinistd.env
ExecStart=/usr/local/bin/on_node kubelet ${NODE_NAME} ${KUBELET_HEALTHZ}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";

/// What a DaemonSet does, without a container engine: a mount namespace of its own, with the host's tree at `/rootfs`.
const CONTAINER: &str = r#"[Service]
EnvironmentFile=/etc/machinist/machinistd.env
ExecStart=/usr/bin/unshare -m /bin/sh -c "mount --rbind / /rootfs && mount -t tmpfs tmpfs /rootfs/rootfs && exec /usr/local/bin/machinistd start --root /rootfs"
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"#;

/// What makes nodes differ.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// Lines for the daemon's environment.
    pub(crate) environment: Vec<String>,
    /// The daemon runs as it would in a privileged container: the host is at `/rootfs`.
    pub(crate) in_container: bool,
    /// A stand-in for the kubelet runs on the node.
    pub(crate) kubelet: bool,
    /// Files that are there from its first boot on.
    pub(crate) files: Vec<(&'static str, String)>,
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    root: PathBuf,
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

struct Shared {
    name: String,
    root: PathBuf,
    folder: PathBuf,
    is_ending: AtomicBool,
    life: Mutex<Life>,
    changed: Condvar,
}

/// What the container says of itself.
#[derive(Default)]
struct Life {
    boots: u32,
    /// The container's first process, while it runs.
    leader: Option<u32>,
    /// Its service manager has started everything.
    is_up: bool,
}

impl Node {
    /// Makes and boots a node. Its Node object must exist, or come soon.
    pub(crate) fn boot(control_plane: &ControlPlane, name: &str, number: u8, setup: &Setup) -> Self {
        let folder = tempfile::Builder::new().prefix("machinist-node-").tempdir().unwrap();
        let root = folder.path().join("root");
        for name in ["root", "upper", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            base().display(),
            folder.path().join("upper").display(),
            folder.path().join("work").display()
        );
        let mounted = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&root).status();
        assert!(mounted.unwrap().success(), "an overlay can be mounted");
        let address = Ipv4Addr::new(127, 88, 0, number);
        furnish(&root, name, address, control_plane, setup);
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            root: root.clone(),
            folder: folder.path().to_owned(),
            is_ending: AtomicBool::new(false),
            life: Mutex::default(),
            changed: Condvar::new(),
        });
        let socket = UnixDatagram::bind(shared.socket()).unwrap();
        let (keeper, listener) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads =
            vec![std::thread::spawn(move || keeper.keep()), std::thread::spawn(move || listener.listen(&socket))];
        let node = Self { name: name.to_owned(), address, root, shared, threads, _folder: folder };
        node.wait_until_up();
        node
    }

    /// How often it has booted.
    pub(crate) fn boots(&self) -> u32 {
        self.shared.life.lock().unwrap().boots
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Runs a command on the node.
    pub(crate) fn try_run(&self, command: &[&str]) -> Output {
        let leader = self.shared.leader().expect("the node is up");
        let mut enter = Command::new("nsenter");
        enter.args(["-t", &leader.to_string(), "-m", "-u", "-i", "-p", "-C"]).args(command);
        enter.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("nsenter runs")
    }

    #[track_caller]
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let output = self.try_run(command);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {}: {stdout}{stderr}", self.name, command.join(" "));
        stdout.into_owned()
    }

    /// Cuts the node off at once, as pulling its plug would; the keeper starts it again.
    pub(crate) fn kill(&self) {
        let leader = self.shared.leader().expect("the node is up");
        let _ = Command::new("kill").args(["-9", &leader.to_string()]).status();
    }

    /// Waits until the node has booted `count` times and has started everything.
    pub(crate) async fn booted(&self, count: u32) {
        let shared = Arc::clone(&self.shared);
        let up = tokio::task::spawn_blocking(move || shared.wait(|life| life.is_up && life.boots >= count)).await;
        assert!(up.unwrap(), "{} does not come up: {}", self.name, self.console());
    }

    /// Lets the daemon die or stand still at these points of its next update; see `faults` of the daemon.
    pub(crate) fn arm(&self, points: &[String]) {
        fs::create_dir_all(self.path("/var/lib")).unwrap();
        fs::write(self.path("/var/lib/machinistd-faults"), points.join("\n")).unwrap();
    }

    /// The points that were not reached.
    pub(crate) fn armed(&self) -> String {
        self.read("/var/lib/machinistd-faults").unwrap_or_default()
    }

    /// What the daemon has logged, for the message of a failed test.
    pub(crate) fn log(&self) -> String {
        let journal = self.try_run(&["journalctl", "-u", "machinistd", "--no-pager", "-n", "80", "-o", "cat"]);
        String::from_utf8_lossy(&journal.stdout).into_owned()
    }

    fn wait_until_up(&self) {
        let is_up = self.shared.wait(|life| life.is_up);
        assert!(is_up, "{} does not come up: {}", self.name, self.console());
    }

    fn console(&self) -> String {
        let text = fs::read(self.shared.folder.join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.name, self.log());
        }
        self.shared.is_ending.store(true, Ordering::SeqCst);
        if let Some(leader) = self.shared.leader() {
            let _ = Command::new("kill").args(["-9", &leader.to_string()]).status();
        }
        let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(b"END", self.shared.socket()));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = Command::new("umount").arg("-l").arg(&self.root).status();
    }
}

impl Shared {
    fn socket(&self) -> PathBuf {
        self.folder.join("notify")
    }

    fn leader(&self) -> Option<u32> {
        self.life.lock().unwrap().leader
    }

    /// Waits for a state of the container. False when it does not come.
    fn wait(&self, is_there: impl Fn(&Life) -> bool) -> bool {
        let life = self.life.lock().unwrap();
        let (_life, waited) = self.changed.wait_timeout_while(life, PATIENCE, |life| !is_there(life)).unwrap();
        !waited.timed_out()
    }

    fn change(&self, change: impl FnOnce(&mut Life)) {
        change(&mut self.life.lock().unwrap());
        self.changed.notify_all();
    }

    /// Takes in what the container says of itself, in the words of `sd_notify(3)`.
    fn listen(&self, socket: &UnixDatagram) {
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            for line in text.lines() {
                match line.split_once('=') {
                    Some(("X_NSPAWN_LEADER_PID", leader)) => self.change(|life| {
                        life.leader = leader.parse().ok();
                        life.boots += 1;
                    }),
                    Some(("READY", "1")) => self.change(|life| life.is_up = true),
                    None if line == "END" => return,
                    _ => {}
                }
            }
        }
    }

    /// Starts the container again whenever it ends, until the node is given up.
    fn keep(&self) {
        while !self.is_ending.load(Ordering::SeqCst) {
            let mut container = self.start();
            let status = container.wait().expect("the container can be waited for");
            self.change(|life| (life.leader, life.is_up) = (None, false));
            // A node that was killed is started again too, as after a power cut; only an odd end is worth a word.
            if ![Some(REBOOT), Some(0), None].contains(&status.code()) && !self.is_ending.load(Ordering::SeqCst) {
                eprintln!("{} ended with {status}", self.name);
            }
        }
    }

    fn start(&self) -> Child {
        let console = File::options().create(true).append(true).open(self.folder.join("console")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "systemd-nspawn", "--quiet", "-D"]).arg(&self.root);
        command.arg(format!("--machine={}", self.name));
        command.args([
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--link-journal=no",
            "--notify-ready=yes",
            "-b",
        ]);
        command.env("NOTIFY_SOCKET", self.socket());
        command.stdin(Stdio::null()).stdout(console.try_clone().unwrap()).stderr(console);
        command.spawn().expect("systemd-nspawn starts")
    }
}

/// The program of stories that runs on nodes.
fn on_node() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("tests live in target/PROFILE/deps");
    let program = profile.join("examples/on_node");
    if std::env::var_os("MACHINIST_BUILT").is_none() || !program.is_file() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "-p", "e2e", "--example", "on_node"]);
        cargo.arg("--target-dir").arg(profile.parent().expect("a target folder"));
        assert!(cargo.status().expect("cargo runs").success(), "on_node can be built");
    }
    program
}

fn install(root: &Path, program: &Path, name: &str) {
    let place = root.join("usr/local/bin").join(name);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(program, &place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
}

fn furnish(root: &Path, name: &str, address: Ipv4Addr, control_plane: &ControlPlane, setup: &Setup) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    };
    let append = |path: &str, text: &str| {
        let old = fs::read_to_string(root.join(path)).unwrap_or_default();
        write(path, &(old + text));
    };
    write("etc/hostname", &format!("{name}\n"));
    for (path, text) in &setup.files {
        write(path.trim_start_matches('/'), text);
    }
    write("etc/machine-id", "");
    append("etc/passwd", "core:x:1000:1000::/home/core:/bin/bash\n");
    append("etc/group", "core:x:1000:\n");
    append("etc/shadow", "core:*:19000:0:99999:7:::\n");
    fs::create_dir_all(root.join("home/core")).unwrap();
    assert!(Command::new("chown").arg("1000:1000").arg(root.join("home/core")).status().unwrap().success());
    let sshd = format!(
        "ListenAddress {address}:22\nPasswordAuthentication no\nUsePAM no\n\
         AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys.d/ignition\n"
    );
    write("etc/ssh/sshd_config.d/10-node.conf", &sshd);
    // Services that only slow a small container down.
    for unit in [
        "systemd-resolved.service",
        "systemd-networkd.service",
        "getty.target",
        "console-getty.service",
        "e2scrub_reap.service",
    ] {
        let _ = std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system").join(unit));
    }
    let kubeconfig = fs::read(control_plane.node_kubeconfig(name)).unwrap();
    fs::create_dir_all(root.join("var/lib/kubelet")).unwrap();
    fs::write(root.join("var/lib/kubelet/kubeconfig"), kubeconfig).unwrap();
    let mut environment = vec![
        format!("NODE_NAME={name}"),
        "KUBECONFIG=/var/lib/kubelet/kubeconfig".to_owned(),
        "RUST_LOG=info,daemon=debug".to_owned(),
        // Nodes share one network, so each has its own address for these.
        format!("KUBELET_HEALTHZ={address}:10248"),
        format!("METRICS_URL={address}:8797"),
    ];
    environment.extend(setup.environment.iter().cloned());
    write("etc/machinist/machinistd.env", &(environment.join("\n") + "\n"));
    install(root, &binary("machinistd"), "machinistd");
    let unit =
        if setup.in_container { CONTAINER } else { include_str!("../../../../manifests/node/machinistd.service") };
    write("etc/systemd/system/machinistd.service", unit);
    // Stories in which the daemon dies often need not wait a second each time.
    write("etc/systemd/system/machinistd.service.d/10-story.conf", "[Service]\nRestartSec=100ms\n");
    fs::create_dir_all(root.join("rootfs")).unwrap();
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    let enable = |unit: &str| {
        std::os::unix::fs::symlink(format!("/etc/systemd/system/{unit}"), wants.join(unit)).unwrap();
    };
    enable("machinistd.service");
    if setup.kubelet {
        install(root, &on_node(), "on_node");
        write("etc/systemd/system/kubelet.service", KUBELET);
        enable("kubelet.service");
    }
}
