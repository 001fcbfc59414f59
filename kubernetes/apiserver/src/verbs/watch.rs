//! Watch: changes as they are committed, one JSON document per line.
//!
//! A watcher keeps no queue: it remembers the version it has reached and reads on in the history of its collection. A
//! watcher of one object is woken by that object only and finds its changes by their versions, so a change costs the
//! thousands who watch others nothing. Whoever falls behind the history is told so (410) and lists again; whoever takes
//! nothing at all is ended by `http::patience`.

mod lines;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use rand::RngExt;
use schema::FieldError;
use serde_json::{Value, json};
use tokio::{
    sync::{futures::Notified, watch as latest},
    time::Instant,
};

use super::{
    Request, convert,
    list::{Selection, bytes_of},
    read::no_number,
    shape,
};
use crate::{
    http::{Accept, Body, Shape, respond},
    object::Object,
    registry::Resource,
    server::{Api, stopped},
    status::{Answer, Failure},
    store::{Change, Following, Index, Past},
};
use lines::Lines;

/// Bookmarks come about this often while nothing happens, as on the real server.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without a timeout of its own lasts between one and two of these.
const LEAST_TIMEOUT: u64 = 1800;

struct Watcher {
    api: Arc<Api>,
    resource: Arc<Resource>,
    namespace: String,
    selection: Selection,
    accept: Accept,
    bookmarks: bool,
    /// Everything up to this version has been sent.
    reached: u64,
    /// Whether column definitions were sent; only the first table carries them.
    headed: bool,
    source: Source,
    stopping: latest::Receiver<bool>,
    /// Of a custom resource: whether it is served no more, or differently.
    retired: Option<latest::Receiver<bool>>,
    deadline: Instant,
    bookmark_due: Instant,
    /// Objects that existed at the start and are still to be sent.
    initial: std::vec::IntoIter<Arc<Object>>,
    initial_end: bool,
    ended: bool,
    out: Lines,
    /// Events of a resource that a webhook converts, until it has.
    unconverted: Vec<(&'static str, Arc<Object>)>,
}

/// What tells of changes.
enum Source {
    /// That the history of the collection has grown.
    Collection(latest::Receiver<u64>),
    /// That one object has changed.
    Object(Following),
}

impl Source {
    /// Ends when there may be something to send, which one object tells by `notified`; false if there will never be.
    async fn wait(&mut self, notified: Option<Notified<'_>>) -> bool {
        match (self, notified) {
            (Self::Collection(changed), _) => changed.changed().await.is_ok(),
            (Self::Object(_), Some(notified)) => {
                notified.await;
                true
            }
            (Self::Object(_), None) => false,
        }
    }
}

enum Woken {
    Changed,
    Due,
    Retired,
    Stopped,
}

pub(crate) async fn watch(request: &Request<'_>) -> Answer<Response<Body>> {
    let Request { api, call, resource, .. } = *request;
    let selection = selection(request)?;
    let query = &call.query;
    let send_initial = query.get("sendInitialEvents").map(|text| text == "true");
    check_options(request, send_initial)?;
    let version = query.text("resourceVersion");
    let asked: u64 = match version {
        "" => 0,
        text => text.parse().map_err(|_| Failure::untyped(no_number(text)))?,
    };
    let timeout = match query.text("timeoutSeconds") {
        "" | "0" => LEAST_TIMEOUT + rand::rng().random_range(0..LEAST_TIMEOUT),
        text => text
            .parse::<u64>()
            .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
    };
    let now = Instant::now();
    let namespace = if resource.namespaced { request.namespace } else { "" };
    // Subscribing before reading the version means that no change falls between.
    let source = match selection.only(resource, namespace) {
        Some(name) => Source::Object(api.store.follow(&resource.collection, name)),
        None => Source::Collection(api.store.subscribe(&resource.collection)),
    };
    let mut watcher = Watcher {
        api: Arc::clone(api),
        resource: Arc::clone(resource),
        namespace: namespace.to_owned(),
        selection,
        accept: call.accept.clone(),
        bookmarks: query.flag("allowWatchBookmarks"),
        reached: asked,
        headed: false,
        source,
        stopping: api.stopping.clone(),
        retired: resource.custom.as_ref().map(|custom| custom.retired.subscribe()),
        deadline: now + Duration::from_secs(timeout.min(86_400)),
        bookmark_due: now + BOOKMARK_EVERY,
        initial: Vec::new().into_iter(),
        initial_end: false,
        ended: false,
        out: Lines::default(),
        unconverted: Vec::new(),
    };
    // Apart from the `?`: a watcher that ends here stops following, which needs the store's lock.
    let begun = watcher.begin(&api.store.read(), asked, send_initial);
    begun?;
    Ok(respond::stream(futures::stream::unfold(watcher, |mut watcher| async move {
        watcher.next().await.map(|chunk| (chunk, watcher))
    })))
}

fn selection(request: &Request<'_>) -> Answer<Selection> {
    let mut selection = Selection::of(request)?;
    if !request.name.is_empty() {
        let narrowed = format!("metadata.name={}", request.name);
        selection.fields = schema::selector::fields(&narrowed).map_err(Failure::bad_request)?;
    }
    Ok(selection)
}

fn check_options(request: &Request<'_>, send_initial: Option<bool>) -> Answer<()> {
    let matching = request.call.query.text("resourceVersionMatch");
    const FIELD: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    if send_initial.is_some() && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(FIELD, detail));
    }
    if !matching.is_empty() {
        if send_initial.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(FIELD, matching, &["NotOlderThan".to_owned()]));
        }
        if !request.call.query.text("continue").is_empty() {
            errors.push(FieldError::forbidden(FIELD, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

impl Watcher {
    /// Decides where to start: with what exists, or after a version.
    fn begin(&mut self, index: &Index, asked: u64, send_initial: Option<bool>) -> Answer<()> {
        let current = index.version();
        let collection = index.collection(&self.resource.collection);
        let initial = send_initial.unwrap_or(asked == 0);
        if !initial && asked > 0 {
            let forgotten = collection.is_some_and(|found| matches!(found.since(asked), Past::Forgotten));
            return if forgotten { Err(Failure::too_old(asked, current)) } else { Ok(()) };
        }
        self.reached = current;
        if let Some(found) = collection.filter(|_| initial) {
            let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let objects: Vec<Arc<Object>> = match &self.source {
                Source::Object(Following { name, .. }) => {
                    found.get(name).filter(|object| self.selects(object)).cloned().into_iter().collect()
                }
                Source::Collection(_) => {
                    found.iter(namespace, None).filter(|object| self.selects(object)).cloned().collect()
                }
            };
            self.initial = objects.into_iter();
        }
        self.initial_end = send_initial == Some(true) && self.bookmarks;
        Ok(())
    }

    fn selects(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || *object.namespace() == *self.namespace)
            && self.selection.matches(&self.resource, object)
    }

    /// The next chunk to write, or `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.out.pop() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            self.write_more().await;
        }
    }

    /// Waits until something happens and writes what there is to say about it.
    async fn write_more(&mut self) {
        while let Some(object) = self.initial.next() {
            self.write("ADDED", &object);
            if self.out.is_full() {
                return;
            }
        }
        // The list may have been long, the watch may last.
        self.initial = Vec::new().into_iter();
        self.convert().await;
        if std::mem::take(&mut self.initial_end) {
            self.write_bookmark(true);
        }
        // From here on it is told, so what is not seen now is not missed.
        let following = match &mut self.source {
            Source::Object(following) => Some(Arc::clone(&following.changed)),
            Source::Collection(changed) => {
                changed.mark_unchanged();
                None
            }
        };
        let notified = following.as_ref().map(|changed| changed.notified());
        self.catch_up();
        self.convert().await;
        if !self.out.is_empty() || self.ended {
            return;
        }
        let wake = self.deadline.min(if self.bookmarks { self.bookmark_due } else { self.deadline });
        let woken = tokio::select! {
            more = self.source.wait(notified) => if more { Woken::Changed } else { Woken::Stopped },
            () = stopped(&mut self.stopping) => Woken::Stopped,
            () = retired(&mut self.retired) => Woken::Retired,
            () = tokio::time::sleep_until(wake) => Woken::Due,
        };
        match woken {
            Woken::Changed => {}
            Woken::Stopped => self.ended = true,
            Woken::Retired => {
                self.catch_up();
                self.convert().await;
                self.ended = true;
            }
            Woken::Due => self.on_time(),
        }
    }

    /// A bookmark is due, or the watch has lasted long enough.
    fn on_time(&mut self) {
        let now = Instant::now();
        if self.bookmarks {
            self.catch_up();
            self.write_bookmark(false);
            self.bookmark_due = now + BOOKMARK_EVERY;
        }
        self.ended |= now >= self.deadline;
    }

    /// Writes the changes since `reached`, as many as are good to write at once, and moves it on.
    fn catch_up(&mut self) {
        let api = Arc::clone(&self.api);
        let index = api.store.read();
        let version = index.version();
        let Some(collection) = index.collection(&self.resource.collection) else {
            self.reached = self.reached.max(version);
            return;
        };
        let complete = match &self.source {
            Source::Object(Following { name, .. }) => match collection.since_of(name, self.reached) {
                Past::Known(changes) => self.send_all(changes.into_iter()),
                Past::Forgotten => return self.fell_behind(version),
            },
            Source::Collection(_) => match collection.since(self.reached) {
                Past::Known(changes) => self.send_all(changes),
                Past::Forgotten => return self.fell_behind(version),
            },
        };
        if complete {
            self.reached = self.reached.max(version);
        }
    }

    fn send_all<'a>(&mut self, changes: impl Iterator<Item = &'a Change>) -> bool {
        for change in changes {
            if self.out.is_full() {
                return false;
            }
            self.send(change);
        }
        true
    }

    /// Tells the client to list again, and ends the watch.
    fn fell_behind(&mut self, version: u64) {
        let failure = Failure::too_old(self.reached, version);
        self.out.line("ERROR", &serde_json::to_vec(&failure.value()).unwrap_or_default().into());
        self.ended = true;
    }

    /// Writes a change as the event it is to this watch, if it is one.
    fn send(&mut self, change: &Change) {
        // A watch that was begun in the future waits for it.
        if change.version <= self.reached {
            return;
        }
        self.reached = change.version;
        let before = change.previous.as_ref().is_some_and(|object| self.selects(object));
        let after = change.current.as_ref().filter(|object| self.selects(object));
        match (before, after) {
            (false, Some(object)) => self.write("ADDED", object),
            (true, Some(object)) => self.write("MODIFIED", object),
            (true, None) => self.write_departure(change),
            (false, None) => {}
        }
    }

    /// A deletion, or a change after which the selectors do not match any more: the last matching state, at the version
    /// of the change.
    fn write_departure(&mut self, change: &Change) {
        match (&change.last, &change.previous) {
            (Some(last), _) => self.write("DELETED", last),
            (None, Some(previous)) => {
                let moved = crate::object::Draft::new(previous.key.clone(), &previous.value()).at(change.version);
                self.write("DELETED", &Arc::new(moved));
            }
            (None, None) => {}
        }
    }

    /// Writes the events that had to wait for a webhook; one that cannot be converted ends the watch.
    async fn convert(&mut self) {
        if !self.unconverted.is_empty() {
            // Boxed: few watches ever come here, and none should be as large as this.
            Box::pin(self.ask_to_convert()).await;
        }
    }

    async fn ask_to_convert(&mut self) {
        let (kinds, objects): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unconverted).into_iter().unzip();
        let values = objects.iter().map(|object| object.value()).collect();
        match convert::all_from_stored(&self.api, &self.resource, values).await {
            Ok(values) => {
                for (kind, value) in kinds.into_iter().zip(values) {
                    self.write_value(kind, value);
                }
            }
            Err(failure) => {
                self.out.line("ERROR", &serde_json::to_vec(&failure.value()).unwrap_or_default().into());
                self.ended = true;
            }
        }
    }

    fn write(&mut self, kind: &'static str, object: &Arc<Object>) {
        if convert::asks(&self.resource) {
            self.unconverted.push((kind, Arc::clone(object)));
            return;
        }
        if self.accept.shape == Shape::Object {
            self.out.line(kind, &bytes_of(&self.resource, object));
            return;
        }
        self.write_value(kind, convert::plainly(&self.resource, object.value()));
    }

    fn write_value(&mut self, kind: &str, value: Value) {
        let shaped = match self.accept.shape {
            Shape::Object => value,
            Shape::Metadata => shape::metadata(value, &self.accept.shape_version),
            Shape::Table => {
                let version = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let mut table = shape::table_of(&self.api, &self.resource, &self.accept, &[value], &version, None);
                if std::mem::replace(&mut self.headed, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        self.out.line(kind, &serde_json::to_vec(&shaped).unwrap_or_default().into());
    }

    fn write_bookmark(&mut self, initial: bool) {
        let mut metadata = json!({"resourceVersion": self.reached.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.accept.shape {
            Shape::Metadata => ("PartialObjectMetadata", format!("meta.k8s.io/{}", self.accept.shape_version)),
            _ => (self.resource.kind.as_str(), self.resource.api_version()),
        };
        let bookmark = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        let bookmark = match self.accept.shape {
            Shape::Table => {
                let version = json!({"resourceVersion": self.reached.to_string()});
                let mut table = shape::table_of(&self.api, &self.resource, &self.accept, &[], &version, None);
                table["rows"] = json!([{"cells": [], "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{}", self.accept.shape_version),
                    "metadata": bookmark["metadata"],
                }}]);
                if std::mem::replace(&mut self.headed, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            _ => bookmark,
        };
        self.out.line("BOOKMARK", &serde_json::to_vec(&bookmark).unwrap_or_default().into());
    }
}

/// Ends when the resource is served no more; never for those that always are.
async fn retired(retired: &mut Option<latest::Receiver<bool>>) {
    match retired {
        Some(retired) => stopped(retired).await,
        None => std::future::pending().await,
    }
}
