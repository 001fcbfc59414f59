//! Waiting for a state, never for a time.
//!
//! Each function watches and returns as soon as the state is there. The deadline is generous, because a loaded machine is
//! slow and not wrong; when it passes, the test fails with the last state seen.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Long enough for a laptop that runs every test at once.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until the named object satisfies `is_there` (`None`: it does not exist), and returns it.
#[track_caller]
pub fn wait_for<'a, K>(
    api: &Api<K>,
    name: &'a str,
    what: &'a str,
    is_there: impl Fn(Option<&K>) -> bool + 'a,
) -> impl Future<Output = Option<K>> + 'a
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    wait_for_within(DEADLINE, api, name, what, is_there)
}

/// As [`wait_for`], for a state that honestly takes longer.
#[track_caller]
pub fn wait_for_within<'a, K>(
    deadline: Duration,
    api: &Api<K>,
    name: &'a str,
    what: &'a str,
    is_there: impl Fn(Option<&K>) -> bool + 'a,
) -> impl Future<Output = Option<K>> + 'a
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let mut states = watch_object(api.clone(), name).boxed();
    let place = std::panic::Location::caller();
    async move {
        let mut last: Option<Option<K>> = None;
        let seen = async {
            while let Some(state) = states.next().await {
                // A failing watch is retried by the stream itself; the deadline bounds it.
                let Ok(state) = state else { continue };
                let done = is_there(state.as_ref());
                last = Some(state);
                if done {
                    break;
                }
            }
        };
        let in_time = tokio::time::timeout(deadline, seen).await.is_ok();
        assert!(in_time, "{place}: {name}: waited in vain for: {what}; the last state was {}", show(&last));
        last.flatten()
    }
}

/// Waits until all objects of the collection together satisfy `is_there`, and returns them sorted by namespace and name.
#[track_caller]
pub fn wait_for_all<'a, K>(
    api: &Api<K>,
    what: &'a str,
    is_there: impl Fn(&[K]) -> bool + 'a,
) -> impl Future<Output = Vec<K>> + 'a
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    let place = std::panic::Location::caller();
    async move {
        let mut objects: BTreeMap<(Option<String>, String), K> = BTreeMap::new();
        let mut complete = false;
        let seen = async {
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                match event {
                    Event::Init => {
                        objects.clear();
                        complete = false;
                    }
                    Event::InitApply(object) | Event::Apply(object) => {
                        objects.insert((object.namespace(), object.name_any()), object);
                    }
                    Event::Delete(object) => {
                        objects.remove(&(object.namespace(), object.name_any()));
                    }
                    Event::InitDone => complete = true,
                }
                if complete && is_there(&objects.values().cloned().collect::<Vec<_>>()) {
                    break;
                }
            }
        };
        let in_time = tokio::time::timeout(DEADLINE, seen).await.is_ok();
        let found: Vec<K> = objects.into_values().collect();
        assert!(in_time, "{place}: waited in vain for: {what}; the last state was {}", show(&found));
        found
    }
}

/// Asks again and again for a state that cannot be watched (a port, a file), until `ask` gives a value.
#[track_caller]
pub fn wait_until<'a, T, F>(what: &'a str, mut ask: impl FnMut() -> F + 'a) -> impl Future<Output = T> + 'a
where
    F: Future<Output = Option<T>> + 'a,
    T: 'a,
{
    let place = std::panic::Location::caller();
    async move {
        let asking = async {
            loop {
                if let Some(value) = ask().await {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let answer = tokio::time::timeout(DEADLINE, asking).await;
        answer.unwrap_or_else(|_| panic!("{place}: waited in vain for: {what}"))
    }
}

fn show(state: &impl Serialize) -> String {
    serde_json::to_string_pretty(state).unwrap_or_else(|error| error.to_string())
}
