//! Watch: changes as they are committed, one JSON document per line.
//!
//! A watcher of many objects keeps no queue: it remembers the version it has reached and reads on in the history of its
//! collection. A watcher of one object has a short queue of that object's changes, so that it sleeps while others change.
//! Whoever falls behind is told so (410) and lists again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use http::Response;
use rand::RngExt;
use schema::FieldError;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch as latest},
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
    object::{Name, Object},
    registry::Resource,
    server::{Api, stopped},
    status::{Answer, Failure},
    store::{Change, Index, Past},
};

/// Bookmarks come about this often while nothing happens, as on the real server.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without a timeout of its own lasts between one and two of these.
const LEAST_TIMEOUT: u64 = 1800;
/// Events are joined into chunks of about this size.
const CHUNK: usize = 64 * 1024;

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
    /// Events of a resource that a webhook converts, until it has.
    unconverted: Vec<(&'static str, Arc<Object>)>,
}

/// Where changes come from.
enum Source {
    /// The history of the collection; this tells when it has grown.
    Collection(latest::Receiver<u64>),
    /// The changes of one object.
    Object { queue: mpsc::Receiver<Change>, waiting: VecDeque<Change> },
}

impl Source {
    /// Ends when there may be something to send; false if there will never be.
    async fn wait(&mut self) -> bool {
        match self {
            Self::Collection(changed) => changed.changed().await.is_ok(),
            Self::Object { queue, waiting } => {
                // A queue that was cut off ends the watch with its reason, which sending finds out.
                waiting.extend(queue.recv().await);
                true
            }
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
    // Subscribing before reading the version means that no change falls between.
    let source = Source::Collection(api.store.subscribe(&resource.collection));
    let namespace = if resource.namespaced { request.namespace } else { "" };
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
        unconverted: Vec::new(),
    };
    match watcher.object() {
        Some(name) => {
            let mut began = VecDeque::new();
            let follow = |index: &Index| watcher.begin(index, asked, send_initial).map(|past| began = past);
            let (queue, outcome) = api.store.follow(&resource.collection, &name, follow);
            outcome?;
            watcher.source = Source::Object { queue, waiting: began };
        }
        None => watcher.begin(&api.store.read(), asked, send_initial).map(drop)?,
    }
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
    /// The one object this watch is about, if it is about one.
    fn object(&self) -> Option<Name> {
        let name = self.selection.fields.exact("metadata.name")?;
        (!self.resource.namespaced || !self.namespace.is_empty()).then(|| Name::new(&self.namespace, name))
    }

    /// Decides where to start: with what exists, or after a version. Returns the changes since that version which this
    /// watch is about, for those who do not read them from the history.
    fn begin(&mut self, index: &Index, asked: u64, send_initial: Option<bool>) -> Answer<VecDeque<Change>> {
        let current = index.version();
        let collection = index.collection(&self.resource.collection);
        if send_initial.unwrap_or(asked == 0) {
            let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let objects: Vec<Arc<Object>> = collection
                .map(|found| found.iter(namespace, None).filter(|object| self.selects(object)).cloned().collect())
                .unwrap_or_default();
            self.initial = objects.into_iter();
            self.initial_end = send_initial == Some(true) && self.bookmarks;
            self.reached = current;
            return Ok(VecDeque::new());
        }
        if asked == 0 {
            self.reached = current;
            return Ok(VecDeque::new());
        }
        let Some(wanted) = self.object() else {
            let forgotten = collection.is_some_and(|found| matches!(found.since(asked), Past::Forgotten));
            return if forgotten { Err(Failure::too_old(asked, current)) } else { Ok(VecDeque::new()) };
        };
        match collection.map(|found| found.since(asked)) {
            None => Ok(VecDeque::new()),
            Some(Past::Forgotten) => Err(Failure::too_old(asked, current)),
            Some(Past::Known(changes)) => {
                let about = |change: &&Change| change.object().is_some_and(|object| object.key.name == wanted);
                Ok(changes.filter(about).cloned().collect())
            }
        }
    }

    fn selects(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || *object.namespace() == *self.namespace)
            && self.selection.matches(&self.resource, object)
    }

    /// The next chunk to write, or `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = BytesMut::new();
        while let Some(object) = self.initial.next() {
            self.write(&mut out, "ADDED", &object);
            if out.len() >= CHUNK {
                return Some(out.freeze());
            }
        }
        self.convert(&mut out).await;
        if std::mem::take(&mut self.initial_end) {
            self.write_bookmark(&mut out, true);
        }
        if !out.is_empty() {
            return Some(out.freeze());
        }
        loop {
            if let Source::Collection(changed) = &mut self.source {
                changed.mark_unchanged();
            }
            self.catch_up(&mut out);
            self.convert(&mut out).await;
            if !out.is_empty() {
                return Some(out.freeze());
            }
            if self.ended {
                return None;
            }
            let wake = self.deadline.min(if self.bookmarks { self.bookmark_due } else { self.deadline });
            let woken = tokio::select! {
                more = self.source.wait() => if more { Woken::Changed } else { Woken::Stopped },
                () = stopped(&mut self.stopping) => Woken::Stopped,
                () = retired(&mut self.retired) => Woken::Retired,
                () = tokio::time::sleep_until(wake) => Woken::Due,
            };
            match woken {
                Woken::Changed => {}
                Woken::Stopped => return None,
                Woken::Retired => {
                    self.catch_up(&mut out);
                    self.convert(&mut out).await;
                    self.ended = true;
                    return (!out.is_empty()).then(|| out.freeze());
                }
                Woken::Due => {
                    self.on_time(&mut out);
                    if !out.is_empty() {
                        return Some(out.freeze());
                    }
                    if self.ended {
                        return None;
                    }
                }
            }
        }
    }

    /// A bookmark is due, or the watch has lasted long enough.
    fn on_time(&mut self, out: &mut BytesMut) {
        let now = Instant::now();
        if self.bookmarks {
            self.catch_up(out);
            self.write_bookmark(out, false);
            self.bookmark_due = now + BOOKMARK_EVERY;
        }
        self.ended |= now >= self.deadline;
    }

    /// Writes the changes since `reached` and moves it on.
    fn catch_up(&mut self, out: &mut BytesMut) {
        let api = Arc::clone(&self.api);
        if let Source::Object { queue, waiting } = &mut self.source {
            // Changes are queued before their version can be read, so all up to this one are here.
            let version = api.store.version();
            let cut_off = loop {
                match queue.try_recv() {
                    Ok(change) => waiting.push_back(change),
                    Err(mpsc::error::TryRecvError::Empty) => break false,
                    Err(mpsc::error::TryRecvError::Disconnected) => break true,
                }
            };
            for change in std::mem::take(waiting) {
                self.send(out, &change);
            }
            self.reached = self.reached.max(version);
            if cut_off {
                self.fell_behind(out, version);
            }
            return;
        }
        let index = api.store.read();
        let Some(collection) = index.collection(&self.resource.collection) else {
            self.reached = self.reached.max(index.version());
            return;
        };
        let changes = match collection.since(self.reached) {
            Past::Known(changes) => changes,
            Past::Forgotten => return self.fell_behind(out, index.version()),
        };
        let mut complete = true;
        for change in changes {
            self.send(out, change);
            if out.len() >= CHUNK {
                complete = false;
                break;
            }
        }
        if complete {
            self.reached = self.reached.max(index.version());
        }
    }

    /// Tells the client to list again, and ends the watch.
    fn fell_behind(&mut self, out: &mut BytesMut, version: u64) {
        let failure = Failure::too_old(self.reached, version);
        line(out, "ERROR", &serde_json::to_vec(&failure.value()).unwrap_or_default());
        self.ended = true;
    }

    /// Writes a change as the event it is to this watch, if it is one.
    fn send(&mut self, out: &mut BytesMut, change: &Change) {
        // A watch that was begun in the future waits for it.
        if change.version <= self.reached {
            return;
        }
        self.reached = change.version;
        let before = change.previous.as_ref().is_some_and(|object| self.selects(object));
        let after = change.current.as_ref().filter(|object| self.selects(object));
        match (before, after) {
            (false, Some(object)) => self.write(out, "ADDED", object),
            (true, Some(object)) => self.write(out, "MODIFIED", object),
            (true, None) => self.write_departure(out, change),
            (false, None) => {}
        }
    }

    /// A deletion, or a change after which the selectors do not match any more: the last matching state, at the version
    /// of the change.
    fn write_departure(&mut self, out: &mut BytesMut, change: &Change) {
        match (&change.last, &change.previous) {
            (Some(last), _) => self.write(out, "DELETED", last),
            (None, Some(previous)) => {
                let moved = crate::object::Draft::new(previous.key.clone(), &previous.value()).at(change.version);
                self.write(out, "DELETED", &Arc::new(moved));
            }
            (None, None) => {}
        }
    }

    /// Writes the events that had to wait for a webhook; one that cannot be converted ends the watch.
    async fn convert(&mut self, out: &mut BytesMut) {
        if self.unconverted.is_empty() {
            return;
        }
        let (kinds, objects): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unconverted).into_iter().unzip();
        let values = objects.iter().map(|object| object.value()).collect();
        match convert::all_from_stored(&self.api, &self.resource, values).await {
            Ok(values) => {
                for (kind, value) in kinds.into_iter().zip(values) {
                    self.write_value(out, kind, value);
                }
            }
            Err(failure) => {
                line(out, "ERROR", &serde_json::to_vec(&failure.value()).unwrap_or_default());
                self.ended = true;
            }
        }
    }

    fn write(&mut self, out: &mut BytesMut, kind: &'static str, object: &Arc<Object>) {
        if convert::asks(&self.resource) {
            self.unconverted.push((kind, Arc::clone(object)));
            return;
        }
        if self.accept.shape == Shape::Object {
            line(out, kind, &bytes_of(&self.resource, object));
            return;
        }
        self.write_value(out, kind, convert::plainly(&self.resource, object.value()));
    }

    fn write_value(&mut self, out: &mut BytesMut, kind: &str, value: Value) {
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
        line(out, kind, &serde_json::to_vec(&shaped).unwrap_or_default());
    }

    fn write_bookmark(&mut self, out: &mut BytesMut, initial: bool) {
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
        line(out, "BOOKMARK", &serde_json::to_vec(&bookmark).unwrap_or_default());
    }
}

/// Ends when the resource is served no more; never for those that always are.
async fn retired(retired: &mut Option<latest::Receiver<bool>>) {
    match retired {
        Some(retired) => stopped(retired).await,
        None => std::future::pending().await,
    }
}

fn line(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.reserve(object.len() + 40);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}
