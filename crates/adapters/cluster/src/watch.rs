//! One shared watch per kind: a store of small records and a stream of changes.
//!
//! Objects are converted to records as they arrive, so a fleet of ten thousand nodes needs only the memory of its
//! records. Each change carries the record before and after, so that consumers do constant work and never scan.
//!
//! A store knows whether its records are current. Use [`Store::reading`] and [`Store::reading_of`] for every decision
//! that deletes, evicts, renews certificates or counts: they distinguish what could not be read from what does not
//! exist. The plain getters return the records as last seen, however old they are, and nothing if there never was a
//! complete list.

mod follow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::known::{Reading, Unread, last_heard};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use parking_lot::RwLock;
use tokio::sync::{mpsc, watch as cell};
use tokio::time::Instant;

/// How long records count as current after a watch has failed. When an API server restarts, the watch is open again
/// within a second or two, and until then the records are hardly older than on a slow network.
const GRACE: Duration = Duration::from_secs(10);

/// Namespace and name; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }

    pub fn cluster(name: &str) -> Self {
        Self::in_namespace("", name)
    }

    pub fn in_namespace(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// An object was added, changed or removed.
#[derive(Debug)]
pub struct Change<T> {
    pub key: Key,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
    /// The change comes from a list. A list is ordered by name, so older changes of other objects may follow.
    pub listed: bool,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone(), listed: self.listed }
    }
}

/// The records of one kind as last seen.
#[derive(Debug)]
pub struct Store<T> {
    records: Arc<RwLock<BTreeMap<Key, Arc<T>>>>,
    contact: cell::Receiver<Contact>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { records: self.records.clone(), contact: self.contact.clone() }
    }
}

/// The state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first list is not complete yet, and there was no error.
    Starting,
    /// The list is complete and the watch is open.
    Synced,
    /// The API does not have this kind. Listing is retried, because the kind may be installed at any time.
    NotInstalled,
    /// Listing or watching fails at the moment and is retried.
    Failing(Trouble),
}

/// Why a kind cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub problem: crate::Problem,
    pub text: String,
}

/// A watch's contact with the API.
#[derive(Clone, Debug)]
struct Contact {
    state: State,
    /// When the API last responded for this kind. `None` until the first list is complete.
    heard: Option<Instant>,
}

impl<T> Store<T> {
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.records.read().get(key).cloned()
    }

    pub fn named(&self, name: &str) -> Option<Arc<T>> {
        self.get(&Key::cluster(name))
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        self.records.read().values().cloned().collect()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.records.read().keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.records.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.read().is_empty()
    }

    /// Whether the records are current.
    pub fn contact(&self) -> Reading<()> {
        self.contact.borrow().reading()
    }

    /// Returns all records, if they are current.
    pub fn reading(&self) -> Reading<Vec<Arc<T>>> {
        self.contact().map(|()| self.all())
    }

    /// Returns one record, if the store is current. `None` inside the reading means that the object does not exist.
    pub fn reading_of(&self, key: &Key) -> Reading<Option<Arc<T>>> {
        self.contact().map(|()| self.get(key))
    }

    /// Returns all current records. `what` is the plural of the kind for the error text.
    ///
    /// # Errors
    /// If the records are not current or the kind does not exist.
    pub fn fresh(&self, what: &str) -> Result<Vec<Arc<T>>, Unread> {
        Ok(self.reading().fresh(what, Timestamp::now())?.into_inner().clone())
    }

    /// Returns one current record, or `None` if there is no such object.
    ///
    /// # Errors
    /// If the records are not current or the kind does not exist.
    pub fn fresh_one(&self, what: &str, key: &Key) -> Result<Option<Arc<T>>, Unread> {
        Ok(self.reading_of(key).fresh(what, Timestamp::now())?.into_inner().clone())
    }

    /// Returns the state of the watch, for readiness and conditions.
    pub fn state(&self) -> State {
        self.contact.borrow().state.clone()
    }

    /// Returns when the API last responded for this kind, once it was listed. Changes arrive in order, so the records
    /// contain everything that happened well before this time.
    pub fn heard(&self) -> Option<Instant> {
        self.contact.borrow().heard
    }

    /// Whether there ever was a complete list.
    pub fn has_listed(&self) -> bool {
        self.contact.borrow().heard.is_some()
    }

    /// Returns once the API has responded for the first time, with a complete list or an error. An empty store may mean
    /// either; [`Store::reading`] tells them apart.
    pub async fn settled(&self) {
        let mut contact = self.contact.clone();
        let _ = contact.wait_for(|contact| contact.state != State::Starting).await;
    }

    /// Returns once the first list is complete.
    pub async fn synced(&self) {
        let mut contact = self.contact.clone();
        let _ = contact.wait_for(|contact| contact.heard.is_some()).await;
    }
}

impl Contact {
    fn reading(&self) -> Reading<()> {
        let heard = self.heard.map(|heard| {
            // Computed backwards from now, so that setting the clock cannot make records look newer.
            let silence = SignedDuration::try_from(heard.elapsed()).unwrap_or(SignedDuration::MAX);
            (heard.elapsed(), Timestamp::now().saturating_sub(silence).unwrap_or(Timestamp::MIN))
        });
        match (&self.state, heard) {
            (State::NotInstalled, _) => Reading::NotInstalled,
            (State::Failing(trouble), None) => Reading::Unknown(trouble.text.clone()),
            (State::Failing(trouble), Some((silence, at))) if silence > GRACE => {
                Reading::Unknown(format!("{}; {}", trouble.text, last_heard(at)))
            }
            (State::Starting | State::Synced, None) => Reading::Unknown("they are being listed".to_owned()),
            (State::Starting | State::Synced | State::Failing(_), Some((_, at))) => Reading::known((), at),
        }
    }
}

/// A watch that is being set up; [`Watch::run`] drives it.
pub struct Watch<T> {
    store: Store<T>,
    contact: cell::Sender<Contact>,
    subscribers: Vec<mpsc::UnboundedSender<Change<T>>>,
}

impl<T: Send + Sync + 'static> Default for Watch<T> {
    fn default() -> Self {
        let (contact, receiver) = cell::channel(Contact { state: State::Starting, heard: None });
        Self { store: Store { records: Arc::default(), contact: receiver }, contact, subscribers: Vec::new() }
    }
}

impl<T: Send + Sync + 'static> Watch<T> {
    pub fn store(&self) -> Store<T> {
        self.store.clone()
    }

    /// Returns a stream of all changes in order, starting with the first list.
    pub fn subscribe(&mut self) -> mpsc::UnboundedReceiver<Change<T>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.subscribers.push(sender);
        receiver
    }

    fn put(&self, key: Key, record: Option<T>, listed: bool)
    where
        T: PartialEq,
    {
        let new = record.map(Arc::new);
        let old = {
            let mut records = self.store.records.write();
            match &new {
                Some(record) => records.insert(key.clone(), record.clone()),
                None => records.remove(&key),
            }
        };
        if old == new {
            return;
        }
        let change = Change { key, old, new, listed };
        for subscriber in &self.subscribers {
            // The receiver is dropped when its consumer shuts down; other consumers still need the change.
            let _ = subscriber.send(change.clone());
        }
    }

    /// The API responded: the list is complete, or an open watch delivered something.
    fn hear(&self) {
        self.contact.send_if_modified(|contact| {
            contact.heard = Some(Instant::now());
            std::mem::replace(&mut contact.state, State::Synced) != State::Synced
        });
    }

    /// The API did not respond, or returned an error.
    fn lose(&self, trouble: Trouble, is_list: bool) {
        let changed = self.contact.send_if_modified(|contact| {
            // A list has no name that could be missing, so 404 means that the kind is not installed.
            let is_missing = is_list && trouble.problem == crate::Problem::NotFound;
            let state = if is_missing { State::NotInstalled } else { State::Failing(trouble.clone()) };
            let changed = contact.state != state;
            contact.state = state;
            changed
        });
        if changed {
            tracing::warn!(trouble = %trouble.text, "watch failed; trying again");
        }
    }
}
