//! libvirt's daemon with its test driver: domains and networks exist only in memory, storage is real.
//!
//! The daemon runs as an unprivileged user in its own folder, so it does not touch this machine. The test driver
//! forgets everything when its last connection closes, so one connection stays open while the daemon runs.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::Process;

/// The daemon first detects processors and devices, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Debian's `nobody`. As root, the daemon would need the users and folders of a full installation.
const NOBODY: u32 = 65_534;

/// A running daemon. Dropping it ends it.
pub struct LibvirtDaemon {
    folder: tempfile::TempDir,
    // Declared first, so that the connection is dropped before the daemon.
    _connection: Process,
    _daemon: Process,
}

impl LibvirtDaemon {
    /// Starts the daemon and blocks until it responds.
    pub fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("libvirt").tempdir()?;
        let is_root = crate::needs::is_root();
        for name in ["run", "home", "pools"] {
            fs::create_dir(folder.path().join(name))?;
        }
        if is_root {
            let all = ["", "run", "home", "pools"].map(|name| folder.path().join(name));
            all.iter().try_for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)))?;
        }
        let mut daemon = daemon(folder.path(), is_root)?;
        let socket = folder.path().join("run/libvirt/libvirt-sock");
        let since = Instant::now();
        while !answers(&socket) {
            if !daemon.is_running() || since.elapsed() > PATIENCE {
                bail!("libvirtd does not answer:\n{}", daemon.tail(20));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let virsh = crate::needs::on_path("virsh").context("virsh is not on the PATH")?;
        let arguments = ["-c", &driver_uri("test", "default", &socket), "event", "--event", "lifecycle", "--loop"];
        let log = folder.path().join("connection.log");
        let connection = Process::start(&virsh, &arguments.map(str::to_owned), &[], &log)?;
        let started = Self { folder, _connection: connection, _daemon: daemon };
        started.wait_for_the_connection()?;
        Ok(started)
    }

    /// The URI of the test driver's domains, networks and pools.
    pub fn uri(&self) -> String {
        driver_uri("test", "default", &self.socket())
    }

    /// The URI of pools and volumes that are folders and files.
    pub fn storage_uri(&self) -> String {
        driver_uri("storage", "session", &self.socket())
    }

    /// Returns a folder for a pool that the daemon can write to.
    pub fn pool_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join("pools").join(name)
    }

    /// Runs `virsh` and returns its output.
    pub fn virsh(uri: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new("virsh").args(["-q", "-c", uri]).args(arguments).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "virsh {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run/libvirt/libvirt-sock")
    }

    /// Objects created before the other connection is open are forgotten, so an object is created until one persists.
    fn wait_for_the_connection(&self) -> Result<()> {
        let since = Instant::now();
        loop {
            let trial = ["vol-create-as", "default-pool", "trial", "1"];
            let _ = Self::virsh(&self.uri(), &trial);
            if Self::virsh(&self.uri(), &["vol-list", "default-pool"])?.contains("trial") {
                return Ok(());
            }
            ensure!(since.elapsed() < PATIENCE, "the test driver keeps nothing");
        }
    }
}

fn daemon(folder: &Path, is_root: bool) -> Result<Process> {
    let libvirtd = crate::needs::on_path("libvirtd").context("libvirtd is not on the PATH")?;
    let home = folder.join("home").display().to_string();
    let runtime = folder.join("run").display().to_string();
    let environment =
        [("HOME", &home), ("XDG_CONFIG_HOME", &home), ("XDG_CACHE_HOME", &home), ("XDG_RUNTIME_DIR", &runtime)];
    let environment: Vec<_> = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect();
    let log = folder.join("libvirtd.log");
    if !is_root {
        return Ok(Process::start(&libvirtd, &[], &environment, &log)?);
    }
    let setpriv = crate::needs::on_path("setpriv").context("setpriv is not on the PATH")?;
    // Changing the user clears the parent-death signal, so it is set again.
    let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let rest = ["--clear-groups", "--pdeathsig", "KILL", "--"].map(str::to_owned);
    let arguments: Vec<_> = ids.into_iter().chain(rest).chain([libvirtd.display().to_string()]).collect();
    Ok(Process::start(&setpriv, &arguments, &environment, &log)?)
}

fn answers(socket: &Path) -> bool {
    socket.exists() && LibvirtDaemon::virsh(&driver_uri("test", "default", socket), &["version"]).is_ok()
}

fn driver_uri(driver: &str, path: &str, socket: &Path) -> String {
    format!("{driver}+unix:///{path}?socket={}", socket.display())
}
