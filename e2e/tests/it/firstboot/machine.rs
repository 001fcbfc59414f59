//! A new machine: a bare root from the shared base, Ignition, and a boot in a container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use containers::{Overlay, Root};
use testkit::binaries::binary;
use testkit::process::Process;

use crate::nodes::base;

const MODULE: &str = "github.com/coreos/ignition/v2";
/// The same version as the validator's.
const VERSION: &str = "v2.24.0";

pub(super) struct Machine {
    name: String,
    container: Mutex<Option<Process>>,
    /// Declared in this order so that it is unmounted after the container has ended and before its folder is removed.
    _root: Overlay,
    folder: tempfile::TempDir,
}

impl Machine {
    /// Creates a root without anything of ours, not even the daemon.
    pub(super) fn new(name: &str, user_data: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("machinist-first-").tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::write(folder.path().join("user-data"), user_data).unwrap();
        let root = Overlay::mount(&base::base(), folder.path()).unwrap();
        let machine = Self { name: name.to_owned(), container: Mutex::default(), _root: root, folder };
        machine.furnish();
        machine
    }

    fn furnish(&self) {
        let folder = self.path("");
        let root = Root(&folder);
        root.name(&self.name).unwrap();
        root.mask("ssh.service").unwrap();
        // Without a machine id, systemd treats this as the first boot and enables the units that Ignition asked for.
        let _ = fs::remove_file(self.path("etc/machine-id"));
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Returns the mode of a file if it exists.
    pub(super) fn mode(&self, path: &str) -> Option<u32> {
        fs::metadata(self.path(path)).ok().map(|data| data.permissions().mode() & 0o7777)
    }

    /// Runs the stages of the real Ignition; the error is its log.
    pub(super) fn ignite(&self) -> Result<(), String> {
        let program = ignition();
        let run = self.folder.path().join("run");
        for stage in ["fetch", "files"] {
            let mut ignition = Command::new(&program);
            let root = self.path("");
            let argument = |name: &str, path: &Path| format!("--{name}={}", path.display());
            ignition.arg("--platform=file").arg(format!("--stage={stage}")).arg("--log-to-stdout");
            ignition.arg("--fetch-timeout=20s").arg(argument("root", &root));
            ignition
                .arg(argument("config-cache", &run.join("ignition.json")))
                .arg(argument("state-file", &run.join("state")));
            ignition.arg(argument("neednet", &run.join("neednet")));
            ignition.env("IGNITION_CONFIG_FILE", self.folder.path().join("user-data"));
            let output = ignition.output().expect("Ignition runs");
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stdout).into_owned());
            }
        }
        // The next attempt starts from the user data again, like a machine that was reset.
        let _ = fs::remove_file(run.join("ignition.json"));
        Ok(())
    }

    /// Does what a unit in the initramfs does after Ignition failed.
    pub(super) fn report_ignition(&self, log: &str) {
        let path = self.folder.path().join("ignition.log");
        fs::write(&path, log).unwrap();
        let mut report = Command::new(binary("machinistd"));
        report.arg("ignition-failed").arg(path).arg("--config").arg(self.folder.path().join("run/ignition.json"));
        let output = report.arg("--root").arg(self.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts systemd on the root. It runs until the machine is dropped.
    pub(super) fn boot(&self) {
        let (root, machine) = (self.path("").display().to_string(), format!("--machine={}", self.name));
        let arguments = [
            "--quiet",
            "-D",
            &root,
            &machine,
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--link-journal=no",
            "-b",
        ]
        .map(str::to_owned);
        let log = self.folder.path().join("console");
        let container = Process::start(Path::new("systemd-nspawn"), &arguments, &[], &log).unwrap();
        *self.container.lock().unwrap() = Some(container);
    }

    /// Runs a command on the booted machine and returns its exit code and output.
    pub(super) fn run(&self, command: &[&str]) -> (i32, String) {
        let leader = self.leader().expect("the machine is up");
        let mut enter = Command::new("nsenter");
        enter.args(["-t", &leader, "-m", "-u", "-i", "-p", "-C"]).args(command);
        let output = enter.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the pid of the container's first process.
    fn leader(&self) -> Option<String> {
        let pid = self.container.lock().unwrap().as_ref()?.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let is_init =
            |child: &&str| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "systemd");
        children.split_whitespace().find(is_init).map(str::to_owned)
    }
}

/// The real Ignition, built as for distributions without SELinux.
fn ignition() -> PathBuf {
    let variable = format!("{MODULE}/internal/distro.selinuxRelabel=false");
    testkit::cache::go_tool_with(MODULE, VERSION, &format!("{MODULE}/internal"), &[&variable]).unwrap()
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() && self.leader().is_some() {
            let (_, log) = self.run(&["journalctl", "--no-pager", "-n", "60", "-o", "cat", "-u", "machinistd*"]);
            eprintln!("--- log of {} ---\n{log}", self.name);
        }
        if let Some(leader) = self.leader() {
            let _ = Command::new("kill").args(["-9", &leader]).status();
        }
        drop(self.container.lock().unwrap().take());
    }
}
