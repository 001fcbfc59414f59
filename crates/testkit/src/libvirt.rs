//! libvirt's own daemon with its test driver: domains and networks that are only kept in memory, and real storage.
//!
//! The daemon runs as an ordinary user in a folder of its own, so it touches nothing of this machine. The test driver
//! forgets everything when its last connection closes; one connection is held open for as long as the daemon runs.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::Process;

/// The daemon asks the machine for its processors and devices first, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Debian's `nobody`. As root the daemon would want the users and folders of a whole installation.
const NOBODY: u32 = 65_534;

/// A running daemon; dropping it ends it.
pub struct LibvirtDaemon {
    folder: tempfile::TempDir,
    // The connection ends before the daemon does.
    _connection: Process,
    _daemon: Process,
}

impl LibvirtDaemon {
    /// Blocks until it answers.
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

    /// Domains, networks and pools of the test driver.
    pub fn uri(&self) -> String {
        driver_uri("test", "default", &self.socket())
    }

    /// Pools and volumes that are folders and files.
    pub fn storage_uri(&self) -> String {
        driver_uri("storage", "session", &self.socket())
    }

    /// A folder for a pool, which the daemon may write to.
    pub fn pool_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join("pools").join(name)
    }

    /// Runs `virsh` as a person would and returns what it prints.
    pub fn virsh(uri: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new("virsh").args(["-q", "-c", uri]).args(arguments).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "virsh {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run/libvirt/libvirt-sock")
    }

    /// What is made before another connection is open would be forgotten: make something until it stays.
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
    // Another user's process loses the death signal, so it is asked for again.
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
