//! The folder of one fleet: API data, logs and the root of each node. One process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

/// How temporary folders are called.
const PREFIX: &str = "machinist-up-";

/// A folder whose lock was made this long ago and is free is nobody's any more; a younger one may be about to be locked.
const LEFT: Duration = Duration::from_secs(30);

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
                remove_leftovers(&std::env::temp_dir(), LEFT);
                let temporary = tempfile::Builder::new().prefix(PREFIX).tempdir();
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

    /// The folder of all nodes.
    pub(super) fn nodes(&self) -> PathBuf {
        self.path.join("nodes")
    }

    pub(super) fn root_of(&self, node: &str) -> PathBuf {
        self.nodes().join(node).join("root")
    }

    /// A node that was made as a container cannot go on as a folder, nor the other way round.
    pub(super) fn keep_kind_of_nodes(&self, systemd: bool) -> anyhow::Result<()> {
        let folder = self.path.display();
        let nodes = std::fs::read_dir(self.nodes()).into_iter().flatten().filter_map(Result::ok);
        for node in nodes.map(|node| node.path()).filter(|node| node.join("root").is_dir()) {
            match (node.join("upper").is_dir(), systemd) {
                (true, false) => {
                    bail!(
                        "the nodes in {folder} are systemd containers; add --systemd, or choose another folder with --data"
                    )
                }
                (false, true) => {
                    bail!(
                        "the nodes in {folder} are simulated; leave --systemd out, or choose another folder with --data"
                    )
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// While this file is there, the node's machine is off.
    pub(super) fn switch_of(&self, node: &str) -> PathBuf {
        self.nodes().join(node).join("off")
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

    /// The account of the simulated cloud.
    pub(super) fn account(&self) -> PathBuf {
        self.path.join("cloud.jsonl")
    }

    /// The list of the containers that Machines asked for.
    pub(super) fn containers(&self) -> PathBuf {
        self.path.join("containers")
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
        Err(error) => bail!("{} cannot be written ({error}); choose another folder with --data", folder.display()),
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

/// Removes temporary folders of fleets that were killed, and unmounts what is mounted in them.
fn remove_leftovers(place: &Path, age: Duration) {
    for entry in std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok) {
        let (path, lock) = (entry.path(), entry.path().join("up.lock"));
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw());
        let is_old = || {
            lock.metadata().and_then(|data| data.modified()).is_ok_and(|made| made.elapsed().is_ok_and(|it| it >= age))
        };
        if !is_ours || !is_old() {
            continue;
        }
        // The lock is held while the folder goes, so that nobody moves in meanwhile.
        let Ok(file) = OpenOptions::new().write(true).open(&lock) else { continue };
        if file.try_lock().is_ok() && containers::unmount_beneath(&path).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
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

    #[test]
    fn what_a_killed_fleet_left_is_removed_and_what_runs_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.join("nodes/worker-1/root")).expect("a folder");
            lock(&path).map(|lock| (path, lock)).expect("a lock")
        };
        let (left, lock) = make("machinist-up-left");
        drop(lock);
        let (running, _held) = make("machinist-up-running");
        let (other, lock) = make("somebody-elses");
        drop(lock);
        remove_leftovers(place.path(), LEFT);
        assert!(left.exists(), "it may be about to be locked");
        remove_leftovers(place.path(), Duration::ZERO);
        assert!(!left.exists() && running.exists() && other.exists());
    }

    #[test]
    fn nodes_stay_what_they_are() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(Some(place.path())).expect("it opens");
        folder.keep_kind_of_nodes(true).expect("there are no nodes");
        std::fs::create_dir_all(folder.root_of("worker-1")).expect("a folder");
        folder.keep_kind_of_nodes(false).expect("simulated ones");
        let error = folder.keep_kind_of_nodes(true).expect_err("not containers").to_string();
        assert!(error.contains("are simulated") && error.contains("--data"), "{error}");
        std::fs::create_dir_all(folder.nodes().join("worker-1/upper")).expect("a folder");
        let error = folder.keep_kind_of_nodes(false).expect_err("containers").to_string();
        assert!(error.contains("--systemd") && error.contains("--data"), "{error}");
    }
}
