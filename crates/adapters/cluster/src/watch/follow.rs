//! Lists and watches a collection, and records every response of the API.
//!
//! kube's own watcher hides bookmarks and reopened watches, but they are the only responses for a collection that does
//! not change. Without them, a quiet collection cannot be distinguished from a lost API.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::api::{Api, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::runtime::watcher::{Config, ListSemantic};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Key, Trouble, Watch};
use crate::patience::Patience;
use crate::write::in_time;
use crate::{Problem, problem};

/// A missing kind may be installed at any time, and a process that waits for it should start soon afterwards.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// API servers send a bookmark about once a minute. A watch without any event for one and a half minutes may be a dead
/// connection, so it is reopened.
const SILENCE: Duration = Duration::from_secs(90);

/// A watch that ends sooner than this without an event is reopened only after a pause.
const BRIEF: Duration = Duration::from_secs(1);

/// After this many failures to open a watch, the collection is listed again: after a restore from backup the API may
/// never have had the version that the watch starts from.
const TRIES: u32 = 3;

/// Why a watch or list ended early.
enum Lost {
    /// The version to continue from is too old: list again.
    Expired,
    Listing(kube::Error),
    Watching(kube::Error),
    /// The watch ended immediately, without an event.
    Brief,
}

impl<T: Send + Sync + PartialEq + 'static> Watch<T> {
    /// Lists and watches until the process ends; a broken watch is reopened with growing pauses.
    ///
    /// `read` converts an object to its record. Equal records are not passed on, so a change that no consumer looks at
    /// costs nothing.
    pub async fn run<K>(self, api: Api<K>, config: Config, read: impl Fn(K) -> T)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut patience = Patience::up_to(LONGEST_PAUSE);
        let mut version: Option<String> = None;
        let mut failures = 0;
        loop {
            let going_on = async {
                match version.take() {
                    None => self.list(&api, &config, &read).await.map(Some).map_err(|lost| (lost, None)),
                    Some(from) => self.follow(&api, &config, &read, from).await.map(Some),
                }
            };
            match patience.then(going_on).await {
                Ok(reached) => {
                    version = reached;
                    failures = 0;
                    patience.reset();
                }
                Err((lost, reached)) => {
                    failures += 1;
                    version = reached.filter(|_| failures < TRIES && !matches!(lost, Lost::Expired));
                    patience.lose();
                    self.note(lost);
                }
            }
        }
    }

    fn note(&self, lost: Lost) {
        let trouble = |error: &kube::Error| Trouble { problem: problem(error), text: crate::error::chain(error) };
        match lost {
            Lost::Expired | Lost::Brief => {}
            Lost::Listing(error) => self.lose(trouble(&error), true),
            Lost::Watching(error) => self.lose(trouble(&error), false),
        }
    }

    /// Lists everything, page by page, and returns the version to watch from.
    async fn list<K>(&self, api: &Api<K>, config: &Config, read: &impl Fn(K) -> T) -> Result<String, Lost>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let mut seen = BTreeSet::new();
        let mut parameters = list_parameters(config);
        loop {
            let page = match in_time(api.list(&parameters)).await {
                Ok(page) => page,
                Err(error) if is_gone(&error) => return Err(Lost::Expired),
                Err(error) => return Err(Lost::Listing(error)),
            };
            for object in page.items {
                let key = Key::of(&object);
                seen.insert(key.clone());
                self.put(key, Some(read(object)), true);
            }
            if let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) {
                parameters = parameters.continue_token(&token);
                continue;
            }
            let gone: Vec<Key> = self.store.keys().into_iter().filter(|key| !seen.contains(key)).collect();
            gone.into_iter().for_each(|key| self.put(key, None, true));
            self.hear();
            return Ok(page.metadata.resource_version.unwrap_or_default());
        }
    }

    /// Follows one watch to its end, and returns the last version it delivered.
    async fn follow<K>(
        &self,
        api: &Api<K>,
        config: &Config,
        read: &impl Fn(K) -> T,
        from: String,
    ) -> Result<String, (Lost, Option<String>)>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut version = from;
        let events = match in_time(api.watch(&watch_parameters(config), &version)).await {
            Ok(events) => events,
            Err(error) if is_gone(&error) => return Err((Lost::Expired, None)),
            Err(error) if problem(&error) == Problem::NotFound => return Err((Lost::Watching(error), None)),
            Err(error) => return Err((Lost::Watching(error), Some(version))),
        };
        self.hear();
        let (opened, mut has_spoken) = (Instant::now(), false);
        pin_mut!(events);
        // A silent watch is reopened, like one that ended.
        while let Ok(Some(event)) = tokio::time::timeout(SILENCE, events.next()).await {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    version = object.resource_version().unwrap_or(version);
                    self.put(Key::of(&object), Some(read(object)), false);
                }
                Ok(WatchEvent::Deleted(object)) => {
                    version = object.resource_version().unwrap_or(version);
                    self.put(Key::of(&object), None, false);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(status)) if status.code == 410 => return Err((Lost::Expired, None)),
                Ok(WatchEvent::Error(status)) => {
                    return Err((Lost::Watching(kube::Error::Api(status)), Some(version)));
                }
                Err(error) => {
                    // The connection broke. If the API is lost, reopening the watch will report it.
                    tracing::debug!(error = &error as &dyn std::error::Error, "watch ended; reopening it");
                    break;
                }
            }
            has_spoken = true;
            self.hear();
        }
        if !has_spoken && opened.elapsed() < BRIEF { Err((Lost::Brief, Some(version))) } else { Ok(version) }
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

fn list_parameters(config: &Config) -> ListParams {
    let (resource_version, version_match) = match config.list_semantic {
        ListSemantic::Any => (Some("0".to_owned()), Some(VersionMatch::NotOlderThan)),
        ListSemantic::MostRecent => (None, None),
    };
    ListParams {
        label_selector: config.label_selector.clone(),
        field_selector: config.field_selector.clone(),
        limit: config.page_size,
        resource_version,
        version_match,
        ..ListParams::default()
    }
}

fn watch_parameters(config: &Config) -> WatchParams {
    WatchParams {
        label_selector: config.label_selector.clone(),
        field_selector: config.field_selector.clone(),
        timeout: config.timeout,
        bookmarks: true,
        send_initial_events: false,
    }
}
