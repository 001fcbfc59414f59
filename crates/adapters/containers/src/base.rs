//! The root file system that all machines start from: a minimal Debian with systemd, created once and kept in the cache
//! folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, cannot, unmount_beneath};

/// The Debian release of the machines.
pub(crate) const RELEASE: &str = "bookworm";

/// Packages beyond the minimal system: a service manager, its bus, and an SSH server.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,openssh-server";

/// Programs from these packages. A root without one of them is incomplete.
const PROGRAMS: [&str; 2] = ["usr/sbin/sshd", "usr/bin/dbus-daemon"];

/// A base that exists or will be created.
#[derive(Clone, Debug)]
pub struct Base {
    folder: PathBuf,
    /// Comma-separated packages beyond the minimal system.
    packages: &'static str,
    programs: &'static [&'static str],
}

impl Base {
    /// Returns the base in the user's cache folder.
    pub fn of_user() -> Self {
        Self::named("node-base", PACKAGES, &PROGRAMS)
    }

    /// Returns a base with other packages, under its own name in the user's cache folder. `programs` are paths of files
    /// from these packages; a base without them is incomplete.
    pub fn named(name: &str, packages: &'static str, programs: &'static [&'static str]) -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = cache.unwrap_or_else(|| home.join(".cache")).join("machinist").join(name);
        Self { folder, packages, programs }
    }

    /// Whether the base exists, so that [`Base::make`] returns quickly.
    pub fn is_made(&self) -> bool {
        self.is_complete(&self.folder.join("root"))
    }

    /// Returns the root of the base and creates it if necessary. Other processes that need it wait meanwhile.
    ///
    /// # Errors
    /// If the folder cannot be written or debootstrap fails.
    pub fn make(&self) -> Result<PathBuf, Error> {
        fs::create_dir_all(&self.folder).map_err(cannot("make", &self.folder))?;
        let (root, making) = (self.folder.join("root"), self.folder.join("making"));
        let lock = self.folder.join("lock");
        let file = File::create(&lock).map_err(cannot("write", &lock))?;
        file.lock().map_err(cannot("lock", &lock))?;
        if self.is_complete(&root) {
            return Ok(root);
        }
        // Remove the remains of an interrupted attempt: debootstrap mounts /proc and /sys while it works.
        discard(&making)?;
        debootstrap(&making, self.packages)?;
        discard(&root)?;
        fs::rename(&making, &root).map_err(cannot("rename", &making))?;
        Ok(root)
    }

    fn is_complete(&self, root: &Path) -> bool {
        self.programs.iter().all(|program| root.join(program).exists()) && !root.join("debootstrap").exists()
    }
}

fn discard(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        unmount_beneath(folder)?;
        fs::remove_dir_all(folder).map_err(cannot("remove", folder))?;
    }
    Ok(())
}

fn debootstrap(folder: &Path, packages: &str) -> Result<(), Error> {
    let failed = |said: String| Error::Base { said, release: RELEASE };
    let include = format!("--include={packages}");
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &include, RELEASE]).arg(folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(last_words(&String::from_utf8_lossy(&said)).to_owned()))
}

/// Returns debootstrap's error, which begins with `E:`, or its last line.
fn last_words(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("E: "));
    error.or_else(|| lines().next_back()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn debootstraps_error_is_extracted_from_its_output() {
        let text = "I: Retrieving InRelease \nE: Failed getting release file http://x/Release\n";
        assert_eq!(last_words(text), "Failed getting release file http://x/Release");
        assert_eq!(last_words("W: odd\nW: Failure trying to run\n\n"), "W: Failure trying to run");
        assert_eq!(last_words(""), "it did not say why");
    }

    #[test]
    fn an_incomplete_base_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let base = Base { folder: folder.path().to_owned(), packages: PACKAGES, programs: &PROGRAMS };
        let root = folder.path().join("root");
        for path in PROGRAMS {
            assert!(!base.is_made());
            fs::create_dir_all(root.join(path)).unwrap();
        }
        assert!(base.is_made());
        fs::create_dir(root.join("debootstrap")).unwrap();
        assert!(!base.is_made(), "debootstrap has not finished");
    }
}
