//! The store: every object, one resource version for all of them, and a bounded history for watches.
//!
//! Reads come from an index in memory. Writes go through one committer, which checks what each write expects, gives it
//! the next resource version, makes the whole batch durable and only then shows it to readers: what a client was told,
//! or could see, is on disk. In memory mode the same steps run without the disk.

mod disk;
mod index;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, mpsc as blocking},
    thread,
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use disk::Error as DiskError;
pub(crate) use index::{Change, Collection, Earlier, Index, Past};

use crate::object::{Draft, Key, Name, Object};
use disk::{Disk, Record};

/// What a write requires of the object it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Version(u64),
}

#[derive(Debug)]
pub(crate) enum Write {
    Put(Box<Draft>, Expect),
    Delete(Key, Expect),
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The object is not in the expected state any more: read again and decide again.
    #[error("the object changed")]
    Stale,
    #[error("{0}")]
    Disk(Arc<DiskError>),
    #[error("the server is shutting down")]
    Closed,
}

/// The committed object; for a deletion the last state, at the version of the deletion.
pub(crate) type Committed = Arc<Object>;

pub(crate) struct Store {
    index: Arc<RwLock<Index>>,
    committer: Committer,
    feed: Mutex<Option<mpsc::UnboundedReceiver<Change>>>,
}

/// An object that is followed as long as this lives.
pub(crate) struct Following {
    index: Arc<RwLock<Index>>,
    collection: Arc<str>,
    pub name: Name,
    pub changed: Arc<Notify>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.index.write().collection_or_new(&self.collection).unfollow(&self.name, &self.changed);
    }
}

enum Committer {
    Memory(Mutex<mpsc::UnboundedSender<Change>>),
    Disk(blocking::Sender<Request>),
}

enum Request {
    Commit {
        write: Write,
        reply: oneshot::Sender<Result<Committed, Error>>,
    },
    /// Ends the committer; answered when the file is closed.
    Close(oneshot::Sender<()>),
}

impl Store {
    pub(crate) fn in_memory() -> Self {
        let (changes, feed) = mpsc::unbounded_channel();
        Self {
            index: Arc::new(RwLock::new(Index::new(0))),
            committer: Committer::Memory(Mutex::new(changes)),
            feed: Mutex::new(Some(feed)),
        }
    }

    /// Opens or creates the store in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, DiskError> {
        let path = folder.join("store.redb");
        let (disk, loaded) = Disk::open(&path)?;
        let mut index = Index::new(loaded.version);
        for (key, version, json) in loaded.objects {
            let damaged =
                |reason: String| DiskError::Damaged { path: path.clone(), reason: format!("{key:?}: {reason}") };
            let place = parse_key(&key).ok_or_else(|| damaged("not a key of this store".to_owned()))?;
            let object = Object::load(place, version, json.into()).map_err(|error| damaged(error.to_string()))?;
            index.load(Arc::new(object));
        }
        let index = Arc::new(RwLock::new(index));
        let (changes, feed) = mpsc::unbounded_channel();
        let (requests, queue) = blocking::channel();
        let shared = Arc::clone(&index);
        thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || commit_loop(disk, &shared, &queue, &changes))
            .map_err(|source| DiskError::Open { path, source })?;
        Ok(Self { index, committer: Committer::Disk(requests), feed: Mutex::new(Some(feed)) })
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read()
    }

    pub(crate) fn version(&self) -> u64 {
        self.read().version()
    }

    pub(crate) fn get(&self, collection: &str, name: &Name) -> Option<Arc<Object>> {
        self.read().collection(collection)?.get(name).cloned()
    }

    /// A receiver that wakes at every change of the collection, created on first use.
    pub(crate) fn subscribe(&self, collection: &Arc<str>) -> tokio::sync::watch::Receiver<u64> {
        if let Some(found) = self.read().collection(collection) {
            return found.subscribe();
        }
        self.index.write().collection_or_new(collection).subscribe()
    }

    /// What wakes at every change of one object from now on.
    pub(crate) fn follow(&self, collection: &Arc<str>, name: Name) -> Following {
        let mut index = self.index.write();
        let version = index.version();
        let changed = index.collection_or_new(collection).follow(&name, version);
        Following { index: Arc::clone(&self.index), collection: Arc::clone(collection), name, changed }
    }

    /// Every change from the start of this process on, for the one reader that keeps house.
    pub(crate) fn take_feed(&self) -> Option<mpsc::UnboundedReceiver<Change>> {
        self.feed.lock().take()
    }

    pub(crate) async fn commit(&self, write: Write) -> Result<Committed, Error> {
        match &self.committer {
            Committer::Memory(changes) => {
                // The lock is held over check and apply, so that no other write comes between.
                let changes = changes.lock();
                let mut batch = Batch::new(self.index.read().version());
                let object = batch.stage(&self.index.read(), &write)?;
                batch.apply(&mut self.index.write(), &changes);
                Ok(object)
            }
            Committer::Disk(requests) => {
                let (reply, answer) = oneshot::channel();
                requests.send(Request::Commit { write, reply }).map_err(|_| Error::Closed)?;
                answer.await.map_err(|_| Error::Closed)?
            }
        }
    }

    /// Waits until everything accepted is on disk and the file is closed. Writes after this are refused.
    pub(crate) async fn close(&self) {
        if let Committer::Disk(requests) = &self.committer {
            let (reply, closed) = oneshot::channel();
            if requests.send(Request::Close(reply)).is_ok() {
                let _ = closed.await;
            }
        }
    }
}

/// One commit is one sync of the disk, whatever the number of writes in it; the bound only keeps replies prompt.
const BATCH: usize = 512;

fn commit_loop(
    mut disk: Disk,
    index: &RwLock<Index>,
    queue: &blocking::Receiver<Request>,
    changes: &mpsc::UnboundedSender<Change>,
) {
    while let Ok(first) = queue.recv() {
        let mut batch = Batch::new(index.read().version());
        let mut replies = Vec::new();
        let mut closing = None;
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                Request::Commit { write, reply } => {
                    let outcome = batch.stage(&index.read(), &write);
                    replies.push((reply, outcome));
                }
                Request::Close(reply) => {
                    closing = Some(reply);
                    break;
                }
            }
            if replies.len() < BATCH {
                next = queue.try_recv().ok();
            }
        }
        let written = batch.write(&mut disk);
        if written.is_ok() {
            batch.apply(&mut index.write(), changes);
        }
        for (reply, outcome) in replies {
            let outcome = match (&written, outcome) {
                (Err(error), Ok(_)) => Err(Error::Disk(Arc::clone(error))),
                (_, outcome) => outcome,
            };
            let _ = reply.send(outcome);
        }
        if let Some(reply) = closing {
            drop(disk);
            let _ = reply.send(());
            return;
        }
    }
}

/// Writes that become durable and visible together. Later ones see earlier ones.
struct Batch {
    version: u64,
    changes: Vec<Change>,
    latest: HashMap<Key, Option<Arc<Object>>>,
}

impl Batch {
    fn new(version: u64) -> Self {
        Self { version, changes: Vec::new(), latest: HashMap::new() }
    }

    fn stage(&mut self, index: &Index, write: &Write) -> Result<Arc<Object>, Error> {
        let (key, expect) = match write {
            Write::Put(draft, expect) => (draft.key(), *expect),
            Write::Delete(key, expect) => (key, *expect),
        };
        let previous = match self.latest.get(key) {
            Some(latest) => latest.clone(),
            None => index.collection(&key.collection).and_then(|found| found.get(&key.name).cloned()),
        };
        match (expect, &previous) {
            (Expect::Absent, None) => {}
            (Expect::Version(version), Some(object)) if object.version == version => {}
            _ => return Err(Error::Stale),
        }
        self.version += 1;
        let (current, answer) = match (write, &previous) {
            (Write::Put(draft, _), _) => {
                let object = Arc::new(draft.at(self.version));
                (Some(Arc::clone(&object)), object)
            }
            (Write::Delete(..), Some(object)) => {
                (None, Arc::new(Draft::new(key.clone(), &object.value()).at(self.version)))
            }
            (Write::Delete(..), None) => return Err(Error::Stale),
        };
        self.latest.insert(key.clone(), current.clone());
        let last = if current.is_none() { Some(Arc::clone(&answer)) } else { None };
        self.changes.push(Change { version: self.version, previous, current, last });
        Ok(answer)
    }

    fn write(&self, disk: &mut Disk) -> Result<(), Arc<DiskError>> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let records: Vec<Record<'_>> = self
            .latest
            .iter()
            .map(|(key, object)| Record {
                key: print_key(key),
                value: object.as_ref().map(|object| (object.version, &*object.json)),
            })
            .collect();
        disk.write(self.version, &records).map_err(Arc::new)
    }

    fn apply(self, index: &mut Index, changes: &mpsc::UnboundedSender<Change>) {
        for change in self.changes {
            let _ = changes.send(change.clone());
            index.apply(change);
        }
        index.wake();
    }
}

fn print_key(key: &Key) -> String {
    format!("{}\0{}\0{}", key.collection, key.name.namespace, key.name.name)
}

fn parse_key(text: &str) -> Option<Key> {
    let (collection, rest) = text.split_once('\0')?;
    let (namespace, name) = rest.split_once('\0')?;
    Some(Key { collection: collection.into(), name: Name::new(namespace, name) })
}
