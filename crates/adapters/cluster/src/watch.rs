//! One shared watch per kind: a store of small records and a stream of what changed.
//!
//! Objects are read into records as they arrive, so a fleet of ten thousand nodes costs what the records cost. Each change
//! carries the record before and after, so that consumers do constant work and never scan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch as cell};

use crate::patience::Patience;

/// A kind that is missing may be installed at any moment, and a process that waits for it should begin soon after.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

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
        Self { namespace: String::new(), name: name.to_owned() }
    }
}

/// One object came, changed or went.
#[derive(Debug)]
pub struct Change<T> {
    pub key: Key,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

/// The records of one kind as last seen.
#[derive(Debug)]
pub struct Store<T> {
    records: Arc<RwLock<BTreeMap<Key, Arc<T>>>>,
    state: cell::Receiver<State>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { records: self.records.clone(), state: self.state.clone() }
    }
}

/// Whether a store can be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was listed yet. `trouble` is the last error, for those who wait.
    Starting { trouble: Option<String> },
    /// The first list is complete and the watch follows.
    Synced,
    /// Records are as they were when the watch broke; it is being tried again.
    Broken { trouble: String, last: Instant },
}

/// A watch that takes up where it broke says so only with the next change, which may be long in coming. So trouble that
/// does not come back is over: the pauses between two tries are shorter than this.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(75);

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

    /// How the watch is doing, for readiness and for conditions.
    pub fn state(&self) -> State {
        match self.state.borrow().clone() {
            State::Broken { last, .. } if last.elapsed() > FORGOTTEN_AFTER => State::Synced,
            state => state,
        }
    }

    pub fn is_synced(&self) -> bool {
        !matches!(*self.state.borrow(), State::Starting { .. })
    }

    /// Returns once the first list is complete, or was refused: a kind that is not installed or not allowed has no objects
    /// here, and what can do without them need not wait.
    pub async fn settled(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| !matches!(state, State::Starting { trouble: None })).await;
    }

    /// Returns once the first list is complete.
    pub async fn synced(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| !matches!(state, State::Starting { .. })).await;
    }
}

/// A watch that is being set up; [`Watch::run`] drives it.
pub struct Watch<T> {
    store: Store<T>,
    state: cell::Sender<State>,
    subscribers: Vec<mpsc::UnboundedSender<Change<T>>>,
}

impl<T: Send + Sync + 'static> Default for Watch<T> {
    fn default() -> Self {
        let (state, receiver) = cell::channel(State::Starting { trouble: None });
        Self { store: Store { records: Arc::default(), state: receiver }, state, subscribers: Vec::new() }
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

    /// Lists and watches until the process ends; a broken watch is tried again with growing pauses.
    ///
    /// `read` makes the record; equal records are not passed on, so a change that no consumer looks at costs nothing.
    pub async fn run<K>(self, api: Api<K>, config: watcher::Config, read: impl Fn(K) -> T)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        T: PartialEq,
    {
        let events = watcher(api, config);
        pin_mut!(events);
        let mut seen = BTreeSet::new();
        let mut patience = Patience::up_to(LONGEST_PAUSE);
        while let Some(event) = patience.then(events.next()).await {
            match event {
                Ok(event) => {
                    patience.hear(&event);
                    self.take(event, &mut seen, &read);
                }
                Err(error) => {
                    patience.lose();
                    self.trouble(&error);
                }
            }
        }
    }

    fn take<K>(&self, event: Event<K>, seen: &mut BTreeSet<Key>, read: &impl Fn(K) -> T)
    where
        K: Resource,
        T: PartialEq,
    {
        match event {
            Event::Init => seen.clear(),
            Event::InitApply(object) => {
                let key = Key::of(&object);
                seen.insert(key.clone());
                self.put(key, Some(read(object)));
            }
            Event::InitDone => {
                let gone: Vec<Key> =
                    self.store.records.read().keys().filter(|key| !seen.contains(*key)).cloned().collect();
                gone.into_iter().for_each(|key| self.put(key, None));
                seen.clear();
                self.state.send_if_modified(|state| std::mem::replace(state, State::Synced) != State::Synced);
            }
            Event::Apply(object) => {
                self.state.send_if_modified(|state| {
                    matches!(state, State::Broken { .. }) && std::mem::replace(state, State::Synced) != State::Synced
                });
                self.put(Key::of(&object), Some(read(object)));
            }
            Event::Delete(object) => self.put(Key::of(&object), None),
        }
    }

    fn put(&self, key: Key, record: Option<T>)
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
        let change = Change { key, old, new };
        for subscriber in &self.subscribers {
            // A consumer that is gone is shutting down; the others still want to know.
            let _ = subscriber.send(change.clone());
        }
    }

    fn trouble(&self, error: &watcher::Error) {
        let trouble = error_chain(error);
        // An open watch that ends goes on where it was; if it cannot, the next error says so.
        if matches!(error, watcher::Error::WatchFailed(_)) {
            tracing::debug!(%trouble, "watch ended; going on");
            return;
        }
        let changed = self.state.send_if_modified(|state| {
            let now = match state {
                State::Starting { .. } => State::Starting { trouble: Some(trouble.clone()) },
                State::Synced | State::Broken { .. } => {
                    State::Broken { trouble: trouble.clone(), last: Instant::now() }
                }
            };
            let said = match &*state {
                State::Starting { trouble: Some(said) } | State::Broken { trouble: said, .. } => *said == trouble,
                State::Starting { trouble: None } | State::Synced => false,
            };
            *state = now;
            !said
        });
        if changed {
            tracing::warn!(%trouble, "watch failed; trying again");
        }
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;

    use super::*;

    /// An API that has never heard of anything, and counts who asks.
    fn ignorant(asked: Arc<AtomicUsize>) -> kube::Client {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
            let answer = http::Response::builder().status(404).body(Body::from(status.as_bytes().to_vec()));
            std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_missing_is_asked_for_ever_more_seldom() {
        let asked = Arc::new(AtomicUsize::new(0));
        let api: Api<ConfigMap> = Api::all(ignorant(asked.clone()));
        let watch = Watch::default().run(api, watcher::Config::default(), |_: ConfigMap| ());
        let minute = tokio::time::timeout(Duration::from_secs(60), watch).await;
        assert!(minute.is_err(), "a watch never ends");
        let asked = asked.load(Ordering::Relaxed);
        assert!((8..=16).contains(&asked), "{asked} times in a minute");
    }
}
