//! A host in memory, with a model of what a power cut loses.
//!
//! Names reach the disk when their folder is flushed, contents when their file is; until then a cut may keep or lose each of
//! them, as real file systems do. Every single write and flush is a point at which the power can be cut or the disk can
//! fail, so a test can try all of them.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use change::host::{
    Activity, Attributes, Backend, Entry, EntryKind, Error, ErrorKind, Files, Host, HostPath, PackageChange, Services,
    System,
};

use crate::simulated::Simulation;
use crate::units;

/// As many as Linux follows.
const LINKS: usize = 40;

#[derive(Debug, Default)]
pub struct Memory {
    disk: Disk,
    simulation: Simulation,
}

#[derive(Debug, Default)]
struct Disk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What programs see.
    live: BTreeMap<String, Node>,
    /// What a power cut certainly leaves.
    durable: BTreeMap<String, Node>,
    /// Changes of names that no flush has followed yet, in order.
    pending: Vec<Change>,
    points: u64,
    trouble: Option<Trouble>,
    is_dead: bool,
}

/// What goes wrong, and at which point.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// The power goes; nothing works afterwards.
    PowerCut { at: u64 },
    /// This one operation fails.
    Failure { at: u64 },
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    File { contents: Vec<u8>, is_synced: bool, mode: u32, user: u32, group: u32 },
    Folder { mode: u32, user: u32, group: u32 },
    Link(String),
}

/// One change of names. A rename takes the old name away and gives the new one at once.
#[derive(Clone, Debug)]
struct Change {
    path: String,
    node: Option<Node>,
    removes: Option<String>,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.simulation.backend = Some(backend);
        self
    }

    /// Something will go wrong.
    pub fn trouble(&self, trouble: Trouble) {
        let mut state = self.disk.state();
        state.points = 0;
        state.trouble = Some(trouble);
    }

    /// Lets time pass on this host.
    pub fn pass(&self, time: Duration) {
        self.simulation.pass(time);
    }

    /// How many points at which something could go wrong were passed since the last call of [`Memory::trouble`] or this.
    pub fn take_points(&self) -> u64 {
        std::mem::take(&mut self.disk.state().points)
    }

    /// The host as it comes up after the power was cut: of what was not flushed, `keeps` says what stays.
    pub fn after_power_cut(&self, mut keeps: impl FnMut() -> bool) -> Memory {
        let state = self.disk.state();
        let mut disk = state.durable.clone();
        for change in &state.pending {
            if keeps() {
                apply(&mut disk, change);
            }
        }
        for node in disk.values_mut() {
            if let Node::File { contents, is_synced, .. } = node
                && !*is_synced
            {
                contents.clear();
                *is_synced = true;
            }
        }
        drop_orphans(&mut disk);
        let fresh = State { live: disk.clone(), durable: disk, ..State::default() };
        let host =
            Memory { disk: Disk(Mutex::new(fresh)), simulation: Simulation::with_backend(self.simulation.backend) };
        // A cut is also a boot.
        let _ = host.simulation.reboot(&host.disk, "power cut");
        host.take_actions();
        host
    }

    /// What was asked of the service manager and the system since the last call, in order.
    pub fn take_actions(&self) -> Vec<String> {
        self.simulation.take_actions()
    }

    /// Every path with a short word on what is there, for comparing two hosts.
    pub fn listing(&self) -> BTreeMap<String, String> {
        let describe = |node: &Node| match node {
            Node::File { contents, mode, .. } => format!("{mode:o} {}", String::from_utf8_lossy(contents)),
            Node::Folder { .. } => "folder".to_owned(),
            Node::Link(target) => format!("-> {target}"),
        };
        self.disk.state().live.iter().map(|(path, node)| (path.clone(), describe(node))).collect()
    }
}

/// A name whose folder did not reach the disk is not there either.
fn drop_orphans(disk: &mut BTreeMap<String, Node>) {
    let paths: Vec<String> = disk.keys().cloned().collect();
    for path in paths {
        let parent = parent(&path);
        if !parent.is_empty() && !matches!(disk.get(parent), Some(Node::Folder { .. })) {
            disk.remove(&path);
        }
    }
}

fn apply(names: &mut BTreeMap<String, Node>, change: &Change) {
    if let Some(gone) = &change.removes {
        names.remove(gone);
    }
    match &change.node {
        Some(node) => drop(names.insert(change.path.clone(), node.clone())),
        None => drop(names.remove(&change.path)),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A point at which the power may go or the disk may fail.
    fn point(&mut self, action: &'static str, path: &str) -> Result<(), Error> {
        let cut = || Error::new(ErrorKind::PowerCut, action, path, "the power was cut");
        if self.is_dead {
            return Err(cut());
        }
        let now = self.points;
        self.points += 1;
        match self.trouble {
            Some(Trouble::PowerCut { at }) if at == now => {
                self.is_dead = true;
                Err(cut())
            }
            Some(Trouble::Failure { at }) if at == now => {
                Err(Error::new(ErrorKind::Failed, action, path, "input/output error"))
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    /// The path with every link on the way followed, and the last one too if wanted.
    fn resolve(&self, path: &str, follows_last: bool, action: &'static str) -> Result<String, Error> {
        let refused = |detail: &str| Error::new(ErrorKind::Refused, action, path, detail);
        let mut todo: Vec<String> = path.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut done = String::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "." => continue,
                ".." => {
                    done.truncate(parent(&done).len());
                    continue;
                }
                _ => {}
            }
            let next = format!("{done}/{part}");
            match self.live.get(&next) {
                Some(Node::Link(target)) if !todo.is_empty() || follows_last => {
                    links += 1;
                    if links > LINKS {
                        return Err(refused("too many levels of symbolic links"));
                    }
                    if target.starts_with('/') {
                        done.clear();
                    }
                    todo.extend(target.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned));
                }
                Some(Node::File { .. }) if !todo.is_empty() => return Err(refused("not a directory")),
                _ => done = next,
            }
        }
        Ok(done)
    }

    fn make_parents(&mut self, path: &str, action: &'static str) -> Result<(), Error> {
        let parent = parent(path).to_owned();
        if parent.is_empty() || self.live.contains_key(&parent) {
            return Ok(());
        }
        self.make_parents(&parent, action)?;
        self.point(action, &parent)?;
        self.change(Change {
            path: parent,
            node: Some(Node::Folder { mode: 0o755, user: 0, group: 0 }),
            removes: None,
        });
        Ok(())
    }

    /// The way every file and link is replaced: temporary name, contents, flush, rename.
    fn replace(&mut self, path: &HostPath, node: Node, action: &'static str) -> Result<(), Error> {
        let path = self.resolve(path.as_str(), false, action)?;
        if matches!(self.live.get(&path), Some(Node::Folder { .. })) {
            return Err(Error::new(ErrorKind::Refused, action, path, "a folder is in its place"));
        }
        self.make_parents(&path, action)?;
        let temporary = format!("{}/.{}.machinist", parent(&path), path.rsplit('/').next().unwrap_or_default());
        self.point(action, &path)?;
        let unsynced = match node.clone() {
            Node::File { contents, mode, user, group, .. } => {
                Node::File { contents, is_synced: false, mode, user, group }
            }
            other => other,
        };
        self.change(Change { path: temporary.clone(), node: Some(unsynced), removes: None });
        let result = self.point(action, &path).and_then(|()| self.point(action, &path));
        if let Err(error) = result {
            if error.kind != ErrorKind::PowerCut {
                self.change(Change { path: temporary, node: None, removes: None });
            }
            return Err(error);
        }
        self.change(Change { path, node: Some(node), removes: Some(temporary) });
        Ok(())
    }
}

impl Files for Disk {
    fn look(&self, path: &HostPath) -> Result<Option<Entry>, Error> {
        let state = self.state();
        let Ok(real) = state.resolve(path.as_str(), false, "look at") else { return Ok(None) };
        Ok(state.live.get(&real).map(|node| match node.clone() {
            Node::File { contents, mode, user, group, .. } => {
                Entry { kind: EntryKind::File, mode, user, group, size: contents.len() as u64 }
            }
            Node::Folder { mode, user, group } => Entry { kind: EntryKind::Folder, mode, user, group, size: 0 },
            Node::Link(target) => Entry { kind: EntryKind::Link(target), mode: 0o777, user: 0, group: 0, size: 0 },
        }))
    }

    fn read(&self, path: &HostPath) -> Result<Option<Vec<u8>>, Error> {
        let state = self.state();
        let real = state.resolve(path.as_str(), true, "read")?;
        match state.live.get(&real) {
            None => Ok(None),
            Some(Node::File { contents, .. }) => Ok(Some(contents.clone())),
            Some(_) => Err(Error::new(ErrorKind::Refused, "read", path.as_str(), "it is not a regular file")),
        }
    }

    fn open(&self, path: &HostPath) -> Result<Option<Box<dyn Read>>, Error> {
        Ok(self.read(path)?.map(|contents| Box::new(Cursor::new(contents)) as Box<dyn Read>))
    }

    fn list(&self, folder: &HostPath) -> Result<Vec<String>, Error> {
        let state = self.state();
        let prefix = format!("{}/", state.resolve(folder.as_str(), true, "list")?);
        let names = state.live.keys().filter_map(|path| path.strip_prefix(&prefix));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn put(&self, path: &HostPath, contents: &[u8], attributes: &Attributes) -> Result<(), Error> {
        let Attributes { mode, user, group } = *attributes;
        let node = Node::File { contents: contents.to_vec(), is_synced: true, mode, user, group };
        self.state().replace(path, node, "write")
    }

    fn put_from(&self, path: &HostPath, contents: &mut dyn Read, attributes: &Attributes) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let read = contents.read_to_end(&mut bytes);
        read.map_err(|error| Error::new(ErrorKind::Failed, "write", path.as_str(), error.to_string()))?;
        self.put(path, &bytes, attributes)
    }

    fn link(&self, path: &HostPath, target: &str) -> Result<(), Error> {
        self.state().replace(path, Node::Link(target.to_owned()), "link")
    }

    fn make_folder(&self, path: &HostPath, attributes: &Attributes) -> Result<(), Error> {
        let mut state = self.state();
        let real = state.resolve(path.as_str(), true, "make folder")?;
        state.make_parents(&real, "make folder")?;
        state.point("make folder", &real)?;
        let Attributes { mode, user, group } = *attributes;
        state.change(Change { path: real, node: Some(Node::Folder { mode, user, group }), removes: None });
        Ok(())
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> Result<(), Error> {
        let mut state = self.state();
        let real = state.resolve(from.as_str(), false, "copy")?;
        match state.live.get(&real).cloned() {
            Some(node @ (Node::File { .. } | Node::Link(_))) => state.replace(to, node, "copy to"),
            Some(Node::Folder { .. }) => {
                Err(Error::new(ErrorKind::Refused, "copy", from.as_str(), "it is neither a file nor a link"))
            }
            None => Err(Error::new(ErrorKind::Failed, "copy", from.as_str(), "no such file or directory")),
        }
    }

    fn remove(&self, path: &HostPath) -> Result<(), Error> {
        let mut state = self.state();
        let Ok(real) = state.resolve(path.as_str(), false, "remove") else { return Ok(()) };
        let Some(node) = state.live.get(&real) else { return Ok(()) };
        let inside = format!("{real}/");
        if matches!(node, Node::Folder { .. }) && state.live.keys().any(|path| path.starts_with(&inside)) {
            return Err(Error::new(ErrorKind::Failed, "remove", path.as_str(), "directory not empty"));
        }
        state.point("remove", &real)?;
        state.change(Change { path: real, node: None, removes: None });
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        let mut state = self.state();
        if state.is_dead {
            return Err(Error::new(ErrorKind::PowerCut, "flush", "disk", "the power was cut"));
        }
        let mut folders: Vec<String> = state.pending.iter().map(|change| parent(&change.path).to_owned()).collect();
        folders.sort();
        folders.dedup();
        for folder in folders {
            state.point("flush", &folder)?;
            let (now, later): (Vec<Change>, Vec<Change>) =
                std::mem::take(&mut state.pending).into_iter().partition(|change| parent(&change.path) == folder);
            now.iter().for_each(|change| apply(&mut state.durable, change));
            state.pending = later;
        }
        Ok(())
    }

    fn refuses(&self, _path: &HostPath) -> Option<String> {
        None
    }
}

impl Host for Memory {
    fn files(&self) -> &dyn Files {
        &self.disk
    }
    fn services(&self) -> &dyn Services {
        self
    }
    fn system(&self) -> &dyn System {
        self
    }
    fn images(&self) -> Option<&dyn change::host::Images> {
        Some(self)
    }
}

crate::simulated_services!(Memory, disk);
