//! Every object by place, who owns whom, and the recent changes of each collection.
//!
//! The history is kept per collection and bounded by bytes. It serves watches, and it can show a collection as it was
//! at an earlier version, which is what the later pages of a list need.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::{Notify, watch};

use crate::object::{Key, Name, Object};

/// What a watcher may lag behind before it must list again, per collection.
const HISTORY_BYTES: usize = 8 << 20;
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
    uids: HashMap<Box<str>, Arc<Object>>,
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
        self.uids.get(uid)
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

    fn link(&mut self, object: &Arc<Object>) {
        self.uids.insert(object.uid.clone(), Arc::clone(object));
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
    followed: HashMap<Name, Followed>,
}

/// An object that somebody watches alone. Thousands of such watchers sleep while other objects change, and find the
/// changes of theirs without looking through those of others.
struct Followed {
    changed: Arc<Notify>,
    /// Its changes after `from`, by version; all of them are in the history.
    versions: VecDeque<u64>,
    from: u64,
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
            followed: HashMap::new(),
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

    /// What tells of every change of one object from `version`, the present one, on.
    pub(super) fn follow(&mut self, name: &Name, version: u64) -> Arc<Notify> {
        let fresh = || Followed { changed: Arc::default(), versions: VecDeque::new(), from: version };
        Arc::clone(&self.followed.entry(name.clone()).or_insert_with(fresh).changed)
    }

    /// Forgets that the object was followed, if `last` is the only other handle of what `follow` gave.
    pub(super) fn unfollow(&mut self, name: &Name, last: &Arc<Notify>) {
        if Arc::strong_count(last) <= 2 {
            self.followed.remove(name);
        }
    }

    /// Changes of one object after `version`, oldest first.
    pub(crate) fn since_of(&self, name: &Name, version: u64) -> Past<Vec<&Change>> {
        if let Some(followed) = self.followed.get(name).filter(|followed| followed.from <= version) {
            let start = followed.versions.partition_point(|known| *known <= version);
            return Past::Known(followed.versions.range(start..).filter_map(|version| self.change(*version)).collect());
        }
        let about = |change: &&Change| change.object().is_some_and(|object| object.key.name == *name);
        match self.since(version) {
            Past::Known(changes) => Past::Known(changes.filter(about).collect()),
            Past::Forgotten => Past::Forgotten,
        }
    }

    /// The change that made `version`, if it is known and of this collection.
    fn change(&self, version: u64) -> Option<&Change> {
        let at = self.history.partition_point(|change| change.version < version);
        self.history.get(at).filter(|change| change.version == version)
    }

    /// Objects in order, in one namespace or in all, after `after` if given.
    pub(crate) fn iter<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&Name>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.objects
            .range((start(namespace, after), Bound::Unbounded))
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

    /// The objects that have changed since `version`, as they were then: absent if they did not exist.
    pub(crate) fn at(&self, version: u64) -> Past<Earlier> {
        let changes = match self.since(version) {
            Past::Known(changes) => changes,
            Past::Forgotten => return Past::Forgotten,
        };
        let mut earlier = BTreeMap::new();
        for change in changes {
            let Some(object) = change.object() else { continue };
            // The first change after the version knows what was there before.
            earlier.entry(object.key.name.clone()).or_insert_with(|| change.previous.clone());
        }
        Past::Known(earlier)
    }

    /// As `iter`, with what `at` said in place of what is there now.
    pub(crate) fn iter_at<'a>(
        &'a self,
        earlier: &'a Earlier,
        namespace: Option<&'a str>,
        after: Option<&Name>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let start = start(namespace, after);
        let mut then = earlier
            .range((start, Bound::Unbounded))
            .take_while(move |(name, _)| namespace.is_none_or(|namespace| *name.namespace == *namespace))
            .peekable();
        let mut now = self.iter(namespace, after).peekable();
        std::iter::from_fn(move || {
            loop {
                let changed = match (then.peek(), now.peek()) {
                    (None, _) => return now.next(),
                    (Some(_), None) => true,
                    (Some((name, _)), Some(object)) if **name == object.key.name => {
                        now.next();
                        true
                    }
                    (Some((name, _)), Some(object)) => **name < object.key.name,
                };
                match changed {
                    false => return now.next(),
                    true => match then.next() {
                        Some((_, Some(object))) => return Some(object),
                        _ => continue,
                    },
                }
            }
        })
    }

    fn apply(&mut self, change: Change) {
        self.last = change.version;
        if let Some(object) = change.object() {
            if let Some(followed) = self.followed.get_mut(&object.key.name) {
                followed.versions.push_back(change.version);
                followed.changed.notify_waiters();
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
            let followed = oldest.object().and_then(|object| self.followed.get_mut(&object.key.name));
            if let Some(followed) = followed.filter(|followed| followed.versions.front() == Some(&oldest.version)) {
                followed.versions.pop_front();
                followed.from = oldest.version;
            }
        }
    }
}

/// Objects at an earlier version, where they differ from now.
pub(crate) type Earlier = BTreeMap<Name, Option<Arc<Object>>>;

fn start(namespace: Option<&str>, after: Option<&Name>) -> Bound<Name> {
    match (after, namespace) {
        (Some(after), _) => Bound::Excluded(after.clone()),
        (None, Some(namespace)) => Bound::Included(Name::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use serde_json::json;

    use super::*;
    use crate::object::Draft;

    const COLLECTION: &str = "/configmaps";

    /// Random changes of a few objects of two namespaces; returns every state there was, by version.
    fn changed(index: &mut Index, random: &mut StdRng, count: usize) -> Vec<(u64, BTreeMap<Name, Arc<Object>>)> {
        let collection: Arc<str> = COLLECTION.into();
        let mut states = vec![(index.version(), index.collection_or_new(&collection).objects.clone())];
        for _ in 0..count {
            let namespace = if random.random_bool(0.5) { "n" } else { "o" };
            let name = Name::new(namespace, &random.random_range(0..8).to_string());
            let key = Key { collection: Arc::clone(&collection), name };
            let previous = index.collection(COLLECTION).unwrap().get(&key.name).cloned();
            let version = index.version() + 1;
            let fill = "x".repeat(random.random_range(0..200_000));
            let draft = Draft::new(key, &json!({"metadata": {}, "data": fill}));
            let object = Arc::new(draft.at(version));
            let change = match &previous {
                Some(_) if random.random_bool(0.3) => Change { version, previous, current: None, last: Some(object) },
                _ => Change { version, previous, current: Some(object), last: None },
            };
            index.apply(change);
            states.push((version, index.collection(COLLECTION).unwrap().objects.clone()));
        }
        states
    }

    fn versions<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<u64> {
        changes.map(|change| change.version).collect()
    }

    #[test]
    fn a_collection_can_be_read_as_it_was() {
        let mut random = StdRng::seed_from_u64(1);
        let mut index = Index::new(0);
        let states = changed(&mut index, &mut random, 300);
        let collection = index.collection(COLLECTION).unwrap();
        let mut known = 0;
        for (version, state) in &states {
            let Past::Known(earlier) = collection.at(*version) else { continue };
            known += 1;
            for namespace in [None, Some("n"), Some("o")] {
                for after in [None, Some(Name::new("n", "3")), Some(Name::new("o", "5"))] {
                    let expected = state.values().filter(|object| {
                        namespace.is_none_or(|namespace| object.namespace() == namespace)
                            && after.as_ref().is_none_or(|after| object.key.name > *after)
                    });
                    let expected: Vec<u64> = expected.map(|object| object.version).collect();
                    // The start of a page is always inside its namespace.
                    if after
                        .as_ref()
                        .is_some_and(|after| namespace.is_some_and(|namespace| *after.namespace != *namespace))
                    {
                        continue;
                    }
                    let found = collection.iter_at(&earlier, namespace, after.as_ref());
                    let found: Vec<u64> = found.map(|object| object.version).collect();
                    assert_eq!(found, expected, "{version} {namespace:?} {after:?}");
                }
            }
        }
        assert!(known > 60 && known < states.len(), "{known}: some of the past is forgotten, some is not");
    }

    #[test]
    fn a_followed_object_has_the_changes_that_the_history_has_of_it() {
        let mut random = StdRng::seed_from_u64(2);
        let mut index = Index::new(0);
        let collection: Arc<str> = COLLECTION.into();
        let followed = Name::new("n", "1");
        changed(&mut index, &mut random, 20);
        let begin = index.version();
        let changes = index.collection_or_new(&collection).follow(&followed, begin);
        let mut own: Vec<u64> = Vec::new();
        for _ in 0..30 {
            let states = changed(&mut index, &mut random, 10);
            let at = |state: &BTreeMap<Name, Arc<Object>>| state.get(&followed).map(|object| object.version);
            own.extend(states.windows(2).filter(|pair| at(&pair[0].1) != at(&pair[1].1)).map(|pair| pair[1].0));
            let found = index.collection(COLLECTION).unwrap();
            for since in begin..=index.version() {
                let after: Vec<u64> = own.iter().copied().filter(|version| *version > since).collect();
                match found.since_of(&followed, since) {
                    // What the history has forgotten may have been about others only.
                    Past::Known(changes) => assert_eq!(versions(changes.into_iter()), after),
                    Past::Forgotten => assert!(after.first().is_none_or(|first| *first <= found.forgotten), "{since}"),
                }
            }
        }
        let found = index.collection_or_new(&collection);
        assert!(found.forgotten > begin, "the history has gone on");
        let second = found.follow(&followed, 0);
        found.unfollow(&followed, &second);
        assert!(found.followed.contains_key(&followed), "another one follows it still");
        drop(second);
        found.unfollow(&followed, &changes);
        assert!(!found.followed.contains_key(&followed));
    }
}
