//! Checks the prerequisites of this machine before anything is started.

use std::path::{Path, PathBuf};

use crate::Error;

/// Required programs, and the Debian packages that provide them.
const PROGRAMS: [(&str, &str); 6] = [
    ("debootstrap", "debootstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("setpriv", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
];

/// Returns what is missing. Root is checked first, because nothing works without it.
pub fn requirements() -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    programs(&path)
}

fn programs(path: &std::ffi::OsStr) -> Result<(), Error> {
    let missing = PROGRAMS.iter().find(|(program, _)| find_in(path, program).is_none());
    missing.map_or(Ok(()), |(program, package)| Err(Error::Missing { program, package }))
}

/// Looks a program up in the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

fn find_in(path: &std::ffi::OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let error = programs(folder.path().as_os_str()).unwrap_err().to_string();
        assert_eq!(error, "debootstrap is not on the PATH; install debootstrap, as Debian calls it");
        let place = folder.path().join("debootstrap");
        std::fs::write(&place, "").unwrap();
        assert!(
            find_in(folder.path().as_os_str(), "debootstrap").is_none(),
            "a file that is not executable does not count"
        );
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = programs(folder.path().as_os_str()).unwrap_err().to_string();
        assert_eq!(error, "systemd-nspawn is not on the PATH; install systemd-container, as Debian calls it");
    }
}
