//! Prepares a machine's root before it boots.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Error, base, cannot};

/// Services that are useless in a small container or fail in it.
const NEEDLESS: [&str; 5] = [
    "systemd-resolved.service",
    "systemd-networkd.service",
    "getty.target",
    "console-getty.service",
    "e2scrub_reap.service",
];

/// How long a freshly written program may be busy: a child process that another thread is forking holds it open for
/// writing until it calls exec.
const BUSY: Duration = Duration::from_secs(2);

/// A root that is not in use yet.
#[derive(Clone, Copy, Debug)]
pub struct Root<'a>(pub &'a Path);

impl Root<'_> {
    /// Sets the host name and masks services that are not needed.
    pub fn name(&self, name: &str) -> Result<(), Error> {
        self.write("etc/hostname", &format!("{name}\n"))?;
        NEEDLESS.iter().try_for_each(|unit| self.mask(unit))
    }

    /// Adds a user with a home folder; an existing user is not changed.
    pub fn add_user(&self, name: &str, id: u32) -> Result<(), Error> {
        let passwd = fs::read_to_string(self.path("etc/passwd")).unwrap_or_default();
        if passwd.lines().any(|line| line.starts_with(&format!("{name}:"))) {
            return Ok(());
        }
        self.append("etc/passwd", &format!("{name}:x:{id}:{id}::/home/{name}:/bin/bash\n"))?;
        self.append("etc/group", &format!("{name}:x:{id}:\n"))?;
        self.append("etc/shadow", &format!("{name}:*:19000:0:99999:7:::\n"))?;
        let home = self.path("home").join(name);
        fs::create_dir_all(&home).map_err(cannot("make", &home))?;
        std::os::unix::fs::chown(&home, Some(id), Some(id)).map_err(cannot("give away", &home))
    }

    /// Copies a program to `/usr/local/bin`.
    pub fn install(&self, program: &Path, name: &str) -> Result<(), Error> {
        let place = self.path("usr/local/bin").join(name);
        self.make_parent(&place)?;
        // A new inode: processes that still run the old program keep it.
        let _ = fs::remove_file(&place);
        fs::copy(program, &place).map_err(cannot("copy", program))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(cannot("write", &place))
    }

    /// Checks that a program runs on this root: one that was built against a newer C library does not.
    pub fn try_program(&self, program: &Path, name: &str) -> Result<(), Error> {
        self.install(program, name)?;
        let mut command = Command::new("chroot");
        command.arg(self.0).arg(format!("/usr/local/bin/{name}")).arg("--version").stdin(Stdio::null());
        let deadline = Instant::now() + BUSY;
        loop {
            let output = command.output().map_err(cannot("try", program))?;
            if output.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            if !(said.contains("Text file busy") && Instant::now() < deadline) {
                return Err(Error::Foreign { program: program.to_owned(), release: base::RELEASE, said });
            }
            std::thread::sleep(BUSY / 50);
        }
    }

    /// Writes a unit and enables it at boot.
    pub fn enable(&self, unit: &str, text: &str) -> Result<(), Error> {
        self.write(&format!("etc/systemd/system/{unit}"), text)?;
        self.link(&format!("etc/systemd/system/multi-user.target.wants/{unit}"), &format!("/etc/systemd/system/{unit}"))
    }

    /// Masks a unit, so that it never starts.
    pub fn mask(&self, unit: &str) -> Result<(), Error> {
        self.link(&format!("etc/systemd/system/{unit}"), "/dev/null")
    }

    pub fn write(&self, path: &str, text: &str) -> Result<(), Error> {
        let path = self.path(path);
        self.make_parent(&path)?;
        fs::write(&path, text).map_err(cannot("write", &path))
    }

    /// Writes an executable script.
    pub fn program(&self, path: &str, text: &str) -> Result<(), Error> {
        self.write(path, text)?;
        let path = self.path(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(cannot("write", &path))
    }

    pub fn make_folder(&self, path: &str) -> Result<(), Error> {
        let path = self.path(path);
        fs::create_dir_all(&path).map_err(cannot("make", &path))
    }

    fn append(&self, path: &str, text: &str) -> Result<(), Error> {
        let old = fs::read_to_string(self.path(path)).unwrap_or_default();
        self.write(path, &(old + text))
    }

    fn link(&self, path: &str, target: &str) -> Result<(), Error> {
        let path = self.path(path);
        self.make_parent(&path)?;
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, &path).map_err(cannot("write", &path))
    }

    fn make_parent(&self, path: &Path) -> Result<(), Error> {
        let parent = path.parent().unwrap_or(self.0);
        fs::create_dir_all(parent).map_err(cannot("make", parent))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn preparing_a_root_twice_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root(folder.path());
        root.write("etc/passwd", "core:x:7:7::/:/bin/sh\n").unwrap();
        for _ in 0..2 {
            root.name("n1").unwrap();
            root.add_user("core", 1000).unwrap();
            root.enable("a.service", "[Service]\n").unwrap();
        }
        let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(read("etc/hostname"), "n1\n");
        assert_eq!(read("etc/passwd"), "core:x:7:7::/:/bin/sh\n", "an existing user is not changed");
        let wants = folder.path().join("etc/systemd/system/multi-user.target.wants/a.service");
        assert_eq!(fs::read_link(wants).unwrap(), Path::new("/etc/systemd/system/a.service"));
    }
}
