//! The root file system all nodes start from: a small Debian with systemd, made once and kept in the cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a node needs beyond the smallest system: a service manager, its bus, and a way to log in.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,openssh-server";

/// The base root, made now if there is none. Other test processes wait for it.
pub(crate) fn base() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let folder = cache.join("machinist/node-base");
    fs::create_dir_all(&folder).unwrap();
    let (root, making) = (folder.join("root"), folder.join("making"));
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !is_complete(&root) {
        let _ = fs::remove_dir_all(&making);
        let include = format!("--include={PACKAGES}");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &include, "bookworm"]).arg(&making);
        let output = debootstrap.output().expect("debootstrap runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "debootstrap failed: {}", said.lines().last().unwrap_or_default());
        let _ = fs::remove_dir_all(&root);
        fs::rename(&making, &root).unwrap();
    }
    root
}

fn is_complete(root: &Path) -> bool {
    root.join("usr/sbin/sshd").exists()
        && root.join("usr/bin/dbus-daemon").exists()
        && !root.join("debootstrap").exists()
}
