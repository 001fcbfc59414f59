//! Says whether the machine has what a test needs, and records the test where it does not.
//!
//! ```no_run
//! # fn story() {
//! if !testkit::needs::root() {
//!     return;
//! }
//! # }
//! ```
//! A skipped test is never silent: its name goes to the file named by `MACHINIST_SKIPPED`, which `cargo xtask test` prints at
//! its end. Under `CI=true` it panics instead, so a machine that should run everything cannot quietly run less.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The file that collects the names of tests that could not run.
pub const SKIPPED: &str = "MACHINIST_SKIPPED";

/// The Go toolchain, which builds the parts that are pinned Go modules.
#[must_use]
pub fn go() -> bool {
    program("go", "install Go 1.26 or newer")
}

/// etcd, which the real kube-apiserver stores its objects in.
#[must_use]
pub fn etcd() -> bool {
    program("etcd", "install Debian's etcd-server")
}

/// kubectl, the client users have.
#[must_use]
pub fn kubectl() -> bool {
    program("kubectl", "install kubectl")
}

/// systemd-nspawn and debootstrap, which make a node with a real systemd.
#[must_use]
pub fn nspawn() -> bool {
    program("systemd-nspawn", "install Debian's systemd-container")
        && program("debootstrap", "install Debian's debootstrap")
}

/// A program on the `PATH`; `fix` tells the reader of the skip list what to do.
#[must_use]
pub fn program(name: &str, fix: &str) -> bool {
    on_path(name).is_some() || missing(&format!("{name} is not on the PATH; {fix}"))
}

/// Root, for mounts, namespaces and real ownership of files.
#[must_use]
pub fn root() -> bool {
    let uid = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    let is_root = uid.is_ok_and(|output| output.stdout == b"0\n");
    is_root || missing("the test does not run as root")
}

/// Python with pip, which installs the simulators that come as Python packages.
#[must_use]
pub fn python() -> bool {
    let pip = || Command::new("python3").args(["-m", "pip", "--version"]).stderr(Stdio::null()).output();
    program("python3", "install Debian's python3")
        && (pip().is_ok_and(|output| output.status.success())
            || missing("python3 has no pip; install Debian's python3-pip"))
}

/// Everything the real control plane is made of.
#[must_use]
pub fn real_control_plane() -> bool {
    etcd() && program("setpriv", "install Debian's util-linux") && (crate::cache::control_plane_is_built() || go())
}

/// Records that the calling test cannot run because of `why`; always false, so that it can end a condition.
#[must_use]
pub fn missing(why: &str) -> bool {
    let test = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let line = format!("{test}: {why}");
    assert!(env::var("CI").as_deref() != Ok("true"), "cannot run under CI=true: {line}");
    eprintln!("skipped: {line}");
    if let Some(path) = env::var_os(SKIPPED) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("the skip list can be written");
    }
    false
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}
