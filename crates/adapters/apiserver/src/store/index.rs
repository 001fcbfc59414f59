//! Every object by place, who owns whom, and the recent changes of each collection.
//!
//! The history is kept per collection and bounded by bytes. It serves watches, and it can show a collection as it was
//! at an earlier version, which is what the later pages of a list need.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::{mpsc, watch};

use crate::object::{Key, Name, Object};

/// What a watcher may lag behind before it must list again, per collection.
const HISTORY_BYTES: usize = 8 << 20;
/// What a watcher of one object may leave unread before it must list again.
const UNREAD: usize = 256;
/// Small collections keep at least this many changes, however large the objects are.
const HISTORY_LEAST: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub version: u64,
    pub previous: Option<Arc<Object>>,
    pub current: Option<Arc<Object>>,
    /// Of a deletion: the last state, carrying the version of the deletion, as watchers receive it.
    pub last: Option<Arc<Object>>,
}

impl Change {
    /// The object the change is about, as it is after the change.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.current.as_ref().or(self.last.as_ref())
    }

    fn bytes(&self) -> usize {
        // The current state is shared with the index until it is replaced, so only what it replaced is counted.
        256 + self.previous.as_ref().map_or(0, |object| object.json.len())
    }
}

/// The answer to a question about an earlier version.
#[derive(Debug)]
pub(crate) enum Past<T> {
    Known(T),
    /// The history does not reach back that far.
    Forgotten,
}

pub(crate) struct Index {
    version: u64,
    /// The version at which this process began: what happened before is in no history.
    base: u64,
    collections: HashMap<Arc<str>, Collection>,
    uids: HashMap<Box<str>, Key>,
    dependents: HashMap<Box<str>, BTreeSet<Key>>,
    changed: Vec<Arc<str>>,
}

impl Index {
    pub(crate) fn new(version: u64) -> Self {
        // Version 0 means "any" in requests, so the first state already has version 1.
        Self {
            version: version.max(1),
            base: version.max(1),
            collections: HashMap::new(),
            uids: HashMap::new(),
            dependents: HashMap::new(),
            changed: Vec::new(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn collection(&self, name: &str) -> Option<&Collection> {
        self.collections.get(name)
    }

    pub(crate) fn collections(&self) -> impl Iterator<Item = (&Arc<str>, &Collection)> {
        self.collections.iter()
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Arc<Object>> {
        let key = self.uids.get(uid)?;
        self.collection(&key.collection)?.get(&key.name)
    }

    /// The objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        let Some(keys) = self.dependents.get(uid) else { return Vec::new() };
        keys.iter().filter_map(|key| self.collection(&key.collection)?.get(&key.name).cloned()).collect()
    }

    pub(super) fn collection_or_new(&mut self, name: &Arc<str>) -> &mut Collection {
        let base = self.base;
        self.collections.entry(Arc::clone(name)).or_insert_with(|| Collection::new(base))
    }

    pub(super) fn load(&mut self, object: Arc<Object>) {
        self.link(&object);
        self.collection_or_new(&object.key.collection).objects.insert(object.key.name.clone(), object);
    }

    pub(super) fn apply(&mut self, change: Change) {
        self.version = change.version;
        if let Some(object) = &change.previous {
            self.unlink(object);
        }
        if let Some(object) = &change.current {
            self.link(object);
        }
        let Some(object) = change.object() else { return };
        let name = Arc::clone(&object.key.collection);
        self.collection_or_new(&name).apply(change);
        self.changed.push(name);
    }

    /// Tells the watchers of the collections changed since the last call.
    pub(super) fn wake(&mut self) {
        let version = self.version;
        for name in std::mem::take(&mut self.changed) {
            if let Some(collection) = self.collections.get(&name) {
                collection.changed.send_replace(version);
            }
        }
    }

    fn link(&mut self, object: &Object) {
        self.uids.insert(object.uid.clone(), object.key.clone());
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(object.key.clone());
        }
    }

    fn unlink(&mut self, object: &Object) {
        self.uids.remove(&object.uid);
        for owner in &object.owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(&object.key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

pub(crate) struct Collection {
    objects: BTreeMap<Name, Arc<Object>>,
    history: VecDeque<Change>,
    bytes: usize,
    /// Changes up to and including this version are not in `history` any more.
    forgotten: u64,
    last: u64,
    changed: watch::Sender<u64>,
    /// Those who watch one object; thousands of them cost nothing while other objects change.
    followers: HashMap<Name, Vec<mpsc::Sender<Change>>>,
}

impl Collection {
    fn new(version: u64) -> Self {
        let changed = watch::Sender::new(version);
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            bytes: 0,
            forgotten: version,
            last: version,
            changed,
            followers: HashMap::new(),
        }
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Arc<Object>> {
        self.objects.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The version of the last change in this collection.
    pub(crate) fn last_version(&self) -> u64 {
        self.last
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Every change of one object from now on. A reader that leaves too much unread is cut off.
    pub(super) fn follow(&mut self, name: &Name) -> mpsc::Receiver<Change> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let known = self.followers.entry(name.clone()).or_default();
        known.retain(|sender| !sender.is_closed());
        known.push(sender);
        receiver
    }

    /// Objects in order, in one namespace or in all, after `after` if given.
    pub(crate) fn iter<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&Name>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let start = match (after, namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(Name::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        self.objects
            .range((start, Bound::Unbounded))
            .take_while(move |(name, _)| namespace.is_none_or(|namespace| *name.namespace == *namespace))
            .map(|(_, object)| object)
    }

    /// Changes after `version`, oldest first.
    pub(crate) fn since(&self, version: u64) -> Past<impl Iterator<Item = &Change>> {
        if version < self.forgotten {
            return Past::Forgotten;
        }
        let start = self.history.partition_point(|change| change.version <= version);
        Past::Known(self.history.range(start..))
    }

    /// The objects as they were at `version`.
    pub(crate) fn at(&self, version: u64) -> Past<BTreeMap<Name, Arc<Object>>> {
        let mut objects = self.objects.clone();
        let changes = match self.since(version) {
            Past::Known(changes) => changes.collect::<Vec<_>>(),
            Past::Forgotten => return Past::Forgotten,
        };
        for change in changes.into_iter().rev() {
            let Some(object) = change.object() else { continue };
            match &change.previous {
                Some(previous) => objects.insert(object.key.name.clone(), Arc::clone(previous)),
                None => objects.remove(&object.key.name),
            };
        }
        Past::Known(objects)
    }

    fn apply(&mut self, change: Change) {
        self.last = change.version;
        if let Some(object) = change.object() {
            if let Some(followers) = self.followers.get_mut(&object.key.name) {
                followers.retain(|follower| follower.try_send(change.clone()).is_ok());
                if followers.is_empty() {
                    self.followers.remove(&object.key.name);
                }
            }
            match &change.current {
                Some(current) => self.objects.insert(object.key.name.clone(), Arc::clone(current)),
                None => self.objects.remove(&object.key.name),
            };
        }
        self.bytes += change.bytes();
        self.history.push_back(change);
        while self.bytes > HISTORY_BYTES && self.history.len() > HISTORY_LEAST {
            let Some(oldest) = self.history.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.forgotten = oldest.version;
        }
    }
}
