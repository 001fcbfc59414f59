//! The root file system that all machines start from: a small Debian with systemd, made once and kept in the cache folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, cannot, unmount_beneath};

/// The Debian of the machines.
pub(crate) const RELEASE: &str = "bookworm";

/// What a machine needs beyond the smallest system: a service manager, its bus, and a way to log in.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,openssh-server";

/// Where the base is, or will be.
#[derive(Clone, Debug)]
pub struct Base {
    folder: PathBuf,
}

impl Base {
    /// The base in the user's cache folder.
    pub fn of_user() -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        Self { folder: cache.unwrap_or_else(|| home.join(".cache")).join("machinist/node-base") }
    }

    /// Whether it is there, so that making it takes no time.
    pub fn is_made(&self) -> bool {
        is_complete(&self.folder.join("root"))
    }

    /// The base's root, made now if there is none. Other processes that want it wait meanwhile.
    ///
    /// # Errors
    /// When the folder cannot be written or debootstrap fails.
    pub fn make(&self) -> Result<PathBuf, Error> {
        fs::create_dir_all(&self.folder).map_err(cannot("make", &self.folder))?;
        let (root, making) = (self.folder.join("root"), self.folder.join("making"));
        let lock = self.folder.join("lock");
        let file = File::create(&lock).map_err(cannot("write", &lock))?;
        file.lock().map_err(cannot("lock", &lock))?;
        if is_complete(&root) {
            return Ok(root);
        }
        // What an interrupted try has left: debootstrap mounts /proc and /sys while it works.
        discard(&making)?;
        debootstrap(&making)?;
        discard(&root)?;
        fs::rename(&making, &root).map_err(cannot("rename", &making))?;
        Ok(root)
    }
}

fn discard(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        unmount_beneath(folder)?;
        fs::remove_dir_all(folder).map_err(cannot("remove", folder))?;
    }
    Ok(())
}

fn debootstrap(folder: &Path) -> Result<(), Error> {
    let failed = |said: String| Error::Base { said, release: RELEASE };
    let include = format!("--include={PACKAGES}");
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &include, RELEASE]).arg(folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(last_words(&String::from_utf8_lossy(&said)).to_owned()))
}

/// Errors of debootstrap begin with `E:`; without one, its last line.
fn last_words(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("E: "));
    error.or_else(|| lines().next_back()).unwrap_or("it did not say why")
}

fn is_complete(root: &Path) -> bool {
    root.join("usr/sbin/sshd").exists()
        && root.join("usr/bin/dbus-daemon").exists()
        && !root.join("debootstrap").exists()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn of_what_debootstrap_says_the_error_is_told() {
        let text = "I: Retrieving InRelease \nE: Failed getting release file http://x/Release\n";
        assert_eq!(last_words(text), "Failed getting release file http://x/Release");
        assert_eq!(last_words("W: odd\nW: Failure trying to run\n\n"), "W: Failure trying to run");
        assert_eq!(last_words(""), "it did not say why");
    }

    #[test]
    fn half_a_base_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let base = Base { folder: folder.path().to_owned() };
        let root = folder.path().join("root");
        for path in ["usr/sbin/sshd", "usr/bin/dbus-daemon"] {
            assert!(!base.is_made());
            fs::create_dir_all(root.join(path)).unwrap();
        }
        assert!(base.is_made());
        fs::create_dir(root.join("debootstrap")).unwrap();
        assert!(!base.is_made(), "debootstrap has not finished");
    }
}
