//! What a cluster takes of this machine, written down so that it can all be given back.
//!
//! A process that is killed leaves namespaces, mounts, cgroups and folders behind. Each cluster therefore has a record that
//! its process keeps locked. The kernel drops the lock with the process, so whoever starts the next cluster on the machine,
//! from whatever clone, finds the record unlocked and clears what it names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Cgroups};
use super::network;

/// Where the records of all clusters of this machine are.
const RECORDS: &str = "/run/machinist-real-clusters";

/// A node takes about 16 of the 128 inotify instances that root may have, so a third cluster would not come up.
const PLACES: usize = 2;

/// One cluster's share of the machine; given back when dropped.
pub(super) struct Claim {
    id: String,
    record: PathBuf,
    contents: Record,
    cgroups: Cgroups,
    // Locked for as long as this process lives and the claim is not given back.
    _lock: File,
    _place: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The nodes' roots and everything else on disk.
    folder: PathBuf,
    /// What the control plane writes; in memory where the machine has such a folder, because etcd waits for each write.
    quick_folder: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Claim {
    /// Clears what dead processes have left, waits for a place, and writes down what the new cluster will take.
    pub(super) fn take() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let records = Path::new(RECORDS);
        fs::create_dir_all(records).with_context(|| format!("cannot make {RECORDS}"))?;
        let place = wait_for_place(records)?;
        // Two processes must not clear the same record, nor one clear what another is about to write.
        let all = lock(&records.join("lock"))?;
        clear_unclaimed(records);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let record = records.join(&id);
        fs::create_dir(&record).with_context(|| format!("cannot make {}", record.display()))?;
        let lock = lock(&record.join("lock"))?;
        let cgroups = Cgroups::of(&id)?;
        let name = format!("{}{id}", network::PREFIX);
        let folder = std::env::temp_dir().join(&name);
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let quick_folder = memory.unwrap_or(&folder).join(name + "-control-plane");
        let contents = Record { folder, quick_folder, cgroups: cgroups.folders().map(Path::to_owned).collect() };
        fs::write(record.join("contents.json"), serde_json::to_vec_pretty(&contents)?)?;
        drop(all);
        for folder in [&contents.folder, &contents.quick_folder] {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Self { id, record, contents, cgroups, _lock: lock, _place: place })
    }

    /// Unique among all clusters of this machine.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn folder(&self) -> &Path {
        &self.contents.folder
    }

    pub(super) fn quick_folder(&self) -> &Path {
        &self.contents.quick_folder
    }

    pub(super) fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        give_back(&self.id, &self.contents);
        let _ = fs::remove_dir_all(&self.record);
    }
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

fn wait_for_place(records: &Path) -> Result<File> {
    loop {
        for place in 0..PLACES {
            let path = records.join(format!("place-{place}"));
            let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            if file.try_lock().is_ok() {
                return Ok(file);
            }
        }
        // A lock cannot be waited for among several.
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Clears each record whose process is gone.
fn clear_unclaimed(records: &Path) {
    for record in fs::read_dir(records).into_iter().flatten().filter_map(Result::ok) {
        let path = record.path();
        let Ok(file) = File::open(path.join("lock")) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let id = record.file_name().to_string_lossy().into_owned();
        let contents = fs::read(path.join("contents.json")).ok();
        if let Some(contents) = contents.and_then(|text| serde_json::from_slice::<Record>(&text).ok()) {
            eprintln!("testkit: clearing what cluster {id} has left");
            give_back(&id, &contents);
        }
        let _ = fs::remove_dir_all(&path);
    }
}

/// Ends and removes all that a record names. What is gone already is no error, and what stays is said.
fn give_back(id: &str, record: &Record) {
    // Ends the processes of nodes that still run on these roots, too.
    if let Err(error) = containers::unmount_beneath(&record.folder) {
        eprintln!("testkit: cluster {id}: {error}");
    }
    network::remove(id);
    for group in &record.cgroups {
        if let Err(error) = cgroups::remove(group) {
            eprintln!("testkit: cluster {id}: cannot remove {}: {error}", group.display());
        }
    }
    for folder in [&record.quick_folder, &record.folder] {
        if folder.exists()
            && let Err(error) = fs::remove_dir_all(folder)
        {
            eprintln!("testkit: cluster {id}: cannot remove {}: {error}", folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs;
    use crate::real_cluster::network::Network;

    #[test]
    fn what_a_killed_process_has_left_is_cleared_by_the_next() {
        if !needs::real_cluster() {
            return;
        }
        let mut claim = Claim::take().unwrap();
        let network = Network::create(claim.id()).unwrap();
        network.boot(1).unwrap();
        claim.cgroups().make("node-1").unwrap();
        let (folder, quick) = (claim.folder().to_owned(), claim.quick_folder().to_owned());
        let id = claim.id().to_owned();
        let groups: Vec<PathBuf> = claim.cgroups().folders().map(Path::to_owned).collect();
        let namespace = network.hub();
        assert!(folder.exists() && quick.exists() && namespace.exists());
        assert!(groups.iter().all(|group| group.exists()));
        // As the kernel does when the process dies: the locks go, and all else stays.
        let nothing = || File::open("/dev/null").unwrap();
        (claim._lock, claim._place) = (nothing(), nothing());
        std::mem::forget(claim);

        let next = Claim::take().unwrap();
        assert_ne!(next.id(), id);
        assert!(!folder.exists() && !quick.exists() && !namespace.exists());
        assert!(!groups.iter().any(|group| group.exists()), "{groups:?}");
    }
}
