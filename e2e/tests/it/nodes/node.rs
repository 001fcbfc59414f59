//! A node: a real systemd in a container of its own, with machinistd as one of its services.
//!
//! Its root is an overlay over the base. When the node asks for a reboot the container ends and is started again, as a
//! machine would be. Nodes share the host's network and have an address of their own on the loopback.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use testkit::ControlPlane;
use testkit::binaries::binary;

use super::base::base;

/// How systemd-nspawn says that the container wants to be started again.
const REBOOT: i32 = 133;
const PATIENCE: Duration = Duration::from_secs(90);

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
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    root: PathBuf,
    shared: Arc<Shared>,
    keeper: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

struct Shared {
    name: String,
    root: PathBuf,
    console: PathBuf,
    is_ending: AtomicBool,
    boots: AtomicU32,
    /// The container's first process, while it runs.
    leader: Mutex<Option<u32>>,
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
            console: folder.path().join("console"),
            is_ending: AtomicBool::new(false),
            boots: AtomicU32::new(0),
            leader: Mutex::default(),
        });
        let keeper = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.keep()
        });
        let node = Self { name: name.to_owned(), address, root, shared, keeper: Some(keeper), _folder: folder };
        node.wait_until_up();
        node
    }

    /// How often it has booted.
    pub(crate) fn boots(&self) -> u32 {
        self.shared.boots.load(Ordering::SeqCst)
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Runs a command on the node.
    pub(crate) fn try_run(&self, command: &[&str]) -> Output {
        let leader = (*self.shared.leader.lock().unwrap()).expect("the node is up");
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
        let leader = (*self.shared.leader.lock().unwrap()).expect("the node is up");
        let _ = Command::new("kill").args(["-9", &leader.to_string()]).status();
    }

    /// What the daemon has logged, for the message of a failed test.
    pub(crate) fn log(&self) -> String {
        let journal = self.try_run(&["journalctl", "-u", "machinistd", "--no-pager", "-n", "80", "-o", "cat"]);
        String::from_utf8_lossy(&journal.stdout).into_owned()
    }

    fn wait_until_up(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let is_up = self.shared.leader.lock().unwrap().is_some() && {
                let output = self.try_run(&["systemctl", "is-system-running"]);
                ["running", "degraded"].contains(&String::from_utf8_lossy(&output.stdout).trim())
            };
            if is_up {
                return;
            }
            assert!(Instant::now() < end, "{} does not come up: {}", self.name, self.console());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn console(&self) -> String {
        let text = fs::read(&self.shared.console).unwrap_or_default();
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
        if let Some(leader) = *self.shared.leader.lock().unwrap() {
            let _ = Command::new("kill").args(["-9", &leader.to_string()]).status();
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        let _ = Command::new("umount").arg("-l").arg(&self.root).status();
    }
}

impl Shared {
    /// Starts the container again whenever it ends, until the node is given up.
    fn keep(&self) {
        while !self.is_ending.load(Ordering::SeqCst) {
            let mut container = self.start();
            if let Some(leader) = self.find_leader(&mut container) {
                *self.leader.lock().unwrap() = Some(leader);
                self.boots.fetch_add(1, Ordering::SeqCst);
                if self.is_ending.load(Ordering::SeqCst) {
                    let _ = container.kill();
                }
            }
            let status = container.wait().expect("the container can be waited for");
            *self.leader.lock().unwrap() = None;
            // A node that was killed is started again too, as after a power cut; only an odd end is worth a word.
            if ![Some(REBOOT), Some(0), None].contains(&status.code()) && !self.is_ending.load(Ordering::SeqCst) {
                eprintln!("{} ended with {status}", self.name);
            }
        }
    }

    fn start(&self) -> Child {
        let console = File::options().create(true).append(true).open(&self.console).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "systemd-nspawn", "--quiet", "-D"]).arg(&self.root);
        command.arg(format!("--machine={}", self.name));
        command.args(["--register=no", "--keep-unit", "--console=pipe", "--link-journal=no", "-b"]);
        command.stdin(Stdio::null()).stdout(console.try_clone().unwrap()).stderr(console);
        command.spawn().expect("systemd-nspawn starts")
    }

    fn find_leader(&self, container: &mut Child) -> Option<u32> {
        let pid = container.id();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if container.try_wait().ok().flatten().is_some() {
                return None;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let is_init = |child: &&str| {
                fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "systemd")
            };
            if let Some(leader) = children.split_whitespace().find(is_init).and_then(|child| child.parse().ok()) {
                return Some(leader);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
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
    ];
    environment.extend(setup.environment.iter().cloned());
    write("etc/machinist/machinistd.env", &(environment.join("\n") + "\n"));
    fs::create_dir_all(root.join("usr/local/bin")).unwrap();
    fs::copy(binary("machinistd"), root.join("usr/local/bin/machinistd")).unwrap();
    fs::set_permissions(root.join("usr/local/bin/machinistd"), fs::Permissions::from_mode(0o755)).unwrap();
    let unit =
        if setup.in_container { CONTAINER } else { include_str!("../../../../manifests/node/machinistd.service") };
    write("etc/systemd/system/machinistd.service", unit);
    fs::create_dir_all(root.join("rootfs")).unwrap();
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink("/etc/systemd/system/machinistd.service", wants.join("machinistd.service")).unwrap();
}
