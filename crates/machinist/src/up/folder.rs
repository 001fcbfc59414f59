//! The folder of one fleet: API data, logs and the root of each node. One process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub(super) struct Folder {
    path: PathBuf,
    /// Held as long as the fleet runs; the kernel lets go of it when the process dies.
    _lock: File,
    /// Removes a temporary folder at the end.
    _temporary: Option<tempfile::TempDir>,
}

impl Folder {
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let (path, temporary) = match path {
            Some(path) => {
                if let Err(error) = std::fs::create_dir_all(path) {
                    bail!("the folder {} cannot be made ({error}); choose another with --data", path.display());
                }
                (path.canonicalize().with_context(|| format!("cannot open {}", path.display()))?, None)
            }
            None => {
                let temporary = tempfile::Builder::new().prefix("machinist-up-").tempdir();
                let temporary = temporary.context("cannot make a temporary folder; give one with --data")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let lock = lock(&path)?;
        Ok(Self { path, _lock: lock, _temporary: temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    pub(super) fn root_of(&self, node: &str) -> PathBuf {
        self.path.join("nodes").join(node).join("root")
    }

    /// While this file is there, the node's machine is off.
    pub(super) fn switch_of(&self, node: &str) -> PathBuf {
        self.path.join("nodes").join(node).join("off")
    }

    /// Keeps the way to an API that has no folder of its own.
    pub(super) fn write_kubeconfig(&self, text: &str) -> anyhow::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.kubeconfig();
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.path.join("machinist.log")
    }

    pub(super) fn log(&self) -> anyhow::Result<File> {
        let path = self.log_path();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.with_context(|| format!("cannot write {}", path.display()))
    }
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("up.lock");
    let file = match OpenOptions::new().create(true).truncate(false).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("{} cannot be written by this user; choose another folder with --data", folder.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "a fleet is running in {} already; stop it first, or choose another folder with --data",
                folder.display()
            )
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_fleet_in_the_same_folder_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Folder::open(Some(folder.path())).expect("the first opens");
        let error = Folder::open(Some(folder.path())).err().expect("the second is refused").to_string();
        assert!(error.contains("is running") && error.contains("--data"), "{error}");
        drop(first);
        Folder::open(Some(folder.path())).expect("free again");
    }
}
