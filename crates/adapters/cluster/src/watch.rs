//! One shared watch per kind: a store of small records and a stream of what changed.
//!
//! Objects are read into records as they arrive, so a fleet of ten thousand nodes costs what the records cost. Each change
//! carries the record before and after, so that consumers do constant work and never scan.
//!
//! A store says how far it can be believed. [`Store::reading`] and [`Store::reading_of`] are for everything that deletes,
//! evicts, signs anew or counts: they tell what could not be read apart from what is not there. The plain getters give
//! the records as last seen, however long ago that was and also when nothing was ever listed.

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

/// How long a watch that fails is still believed. It is opened again within a second or two when an API server restarts,
/// and until then the records are hardly older than they would be on a slow network.
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

/// One object came, changed or went.
#[derive(Debug)]
pub struct Change<T> {
    pub key: Key,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
    /// It comes from a list, whose objects are told in the order of their names: older changes of others may follow.
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

/// How a watch is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was listed yet, and nothing went wrong.
    Starting,
    /// The list is complete and the watch follows it.
    Synced,
    /// The API does not have this kind. It is asked for again, because a kind may be installed at any moment.
    NotInstalled,
    /// The kind cannot be listed or watched now, and it is being tried again.
    Failing(Trouble),
}

/// Why a kind cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub problem: crate::Problem,
    pub text: String,
}

/// What is known of a watch's contact with the API.
#[derive(Clone, Debug)]
struct Contact {
    state: State,
    /// When the API last said anything about this kind. Before the first complete list that counts for nothing.
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

    /// Whether the records can be believed.
    pub fn contact(&self) -> Reading<()> {
        self.contact.borrow().reading()
    }

    /// All records, if they can be believed.
    pub fn reading(&self) -> Reading<Vec<Arc<T>>> {
        self.contact().map(|()| self.all())
    }

    /// One record, if the store can be believed; `None` inside means that the object does not exist.
    pub fn reading_of(&self, key: &Key) -> Reading<Option<Arc<T>>> {
        self.contact().map(|()| self.get(key))
    }

    /// All records, as they are known now. `what` is the plural that a person would ask for.
    ///
    /// # Errors
    /// When they cannot be believed, and when the kind does not exist.
    pub fn fresh(&self, what: &str) -> Result<Vec<Arc<T>>, Unread> {
        Ok(self.reading().fresh(what, Timestamp::now())?.into_inner().clone())
    }

    /// One record, as it is known now; `None` if there is no such object.
    ///
    /// # Errors
    /// When it cannot be believed, and when the kind does not exist.
    pub fn fresh_one(&self, what: &str, key: &Key) -> Result<Option<Arc<T>>, Unread> {
        Ok(self.reading_of(key).fresh(what, Timestamp::now())?.into_inner().clone())
    }

    /// How the watch is doing, for readiness and for conditions.
    pub fn state(&self) -> State {
        self.contact.borrow().state.clone()
    }

    /// When the API last said anything about this kind, once it was listed. Changes are told in their order: what happened
    /// well before this moment is in the records.
    pub fn heard(&self) -> Option<Instant> {
        self.contact.borrow().heard
    }

    /// Whether a list was ever complete.
    pub fn has_listed(&self) -> bool {
        self.contact.borrow().heard.is_some()
    }

    /// Returns once the API has given any first answer: a complete list, or a refusal. What follows must not take an empty
    /// store for an answer, because [`Store::reading`] tells the two apart.
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
            // Counted back from now, so that a clock that is set meanwhile makes nothing look younger.
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

    /// Every change from the first list on, in order.
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
            // A consumer that is gone is shutting down; the others still want to know.
            let _ = subscriber.send(change.clone());
        }
    }

    /// The API has answered: the list is complete, or an open watch said something.
    fn hear(&self) {
        self.contact.send_if_modified(|contact| {
            contact.heard = Some(Instant::now());
            std::mem::replace(&mut contact.state, State::Synced) != State::Synced
        });
    }

    /// The API did not answer, or refused.
    fn lose(&self, trouble: Trouble, is_list: bool) {
        let changed = self.contact.send_if_modified(|contact| {
            // Objects are read by their collection, so there is nothing else that could be missing.
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
