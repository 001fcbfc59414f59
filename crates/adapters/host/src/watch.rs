//! Tells that one of many paths may have changed, also one that does not exist yet.
//!
//! The folders that hold the paths are watched; where a folder is missing, the deepest one that exists, for the name that
//! leads on. Which files differ is for others to find out: a file event only says when to look.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use change::host::{Error, ErrorKind, HostPath};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::root::Root;

/// A watch on a set of paths. Readable when something has happened.
pub struct Watch {
    root: Root,
    inotify: OwnedFd,
    paths: Vec<HostPath>,
    /// Names that matter, by the watched folder that holds them.
    names: BTreeSet<(i32, u64)>,
}

impl Watch {
    pub fn open(root: &Path) -> Result<Self, Error> {
        let root = Root::open(root)?;
        Ok(Self { inotify: new_inotify()?, root, paths: Vec::new(), names: BTreeSet::new() })
    }

    /// Watches these paths and no others.
    pub fn follow(&mut self, paths: Vec<HostPath>) -> Result<(), Error> {
        self.paths = paths;
        self.renew()
    }

    /// Takes in what has happened. True when a path that matters may have changed.
    pub fn drain(&mut self) -> bool {
        let mut matters = false;
        let mut shape_changed = false;
        let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.intersects(
                ReadFlags::QUEUE_OVERFLOW | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT,
            ) {
                (matters, shape_changed) = (true, true);
                continue;
            }
            let Some(name) = event.file_name() else { continue };
            if !self.names.contains(&(event.wd(), hash(&name.to_string_lossy()))) {
                continue;
            }
            matters = true;
            let moved = ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
            shape_changed |= flags.contains(ReadFlags::ISDIR) && flags.intersects(moved);
        }
        if shape_changed {
            // A folder on the way to some path came or went: others are to be watched now.
            let _ = self.renew();
        }
        matters
    }

    /// How many folders are watched.
    pub fn folders(&self) -> usize {
        self.names.iter().map(|(folder, _)| folder).collect::<BTreeSet<_>>().len()
    }

    /// Watches what must be watched now. The descriptor stays the same, so whoever waits for it goes on waiting.
    fn renew(&mut self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        // Most paths share a few folders, so each folder is opened once.
        let mut folders: BTreeMap<Option<HostPath>, Option<(i32, Option<HostPath>)>> = BTreeMap::new();
        for path in &self.paths {
            let parent = path.parent();
            let place =
                folders.entry(parent.clone()).or_insert_with(|| watch_nearest(&self.root, &self.inotify, parent));
            let Some((watched, folder)) = place else { continue };
            let depth = folder.as_ref().map_or(0, |folder| folder.as_str().len());
            let name = path.as_str()[depth..].trim_start_matches('/').split('/').next().unwrap_or_default();
            names.insert((*watched, hash(name)));
        }
        let is_needed = |folder: i32| names.iter().any(|(watched, _)| *watched == folder);
        let old: BTreeSet<i32> = self.names.iter().map(|(folder, _)| *folder).collect();
        for folder in old.into_iter().filter(|folder| !is_needed(*folder)) {
            // A folder that is gone has taken its watch with it.
            let _ = rustix::fs::inotify::remove_watch(&self.inotify, folder);
        }
        self.names = names;
        Ok(())
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

fn new_inotify() -> Result<OwnedFd, Error> {
    rustix::fs::inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
        .map_err(|errno| Error::new(ErrorKind::Failed, "watch", "files", errno.to_string()))
}

fn watch_nearest(root: &Root, inotify: &OwnedFd, folder: Option<HostPath>) -> Option<(i32, Option<HostPath>)> {
    let (open, found) = root.nearest_folder(folder)?;
    let flags = WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    // By its descriptor, so that exactly the folder that was opened beneath the root is watched.
    let path = format!("/proc/self/fd/{}", open.as_raw_fd());
    let watched = rustix::fs::inotify::add_watch(inotify, path, flags).ok()?;
    Some((watched, found))
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
