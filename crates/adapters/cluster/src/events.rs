//! Publishes Kubernetes events without ever blocking a controller.
//!
//! Events are queued and written by a separate task. An event that is repeated while it is queued, or within minutes,
//! is counted in its series and not written again; a different message about the same object is a separate event. If
//! the API is unreachable and the queue is full, further events are dropped and logged: conditions hold the state,
//! events only announce changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error, Resource};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use crate::error::{Problem, problem};
use crate::write::in_time;

/// Holds the bursts of a rollout, but not the events of a day without an API.
const LINE: usize = 1024;

/// How long repetitions are counted on an existing event, as in client-go.
const SERIES: Duration = Duration::from_secs(360);

#[derive(Clone)]
pub struct Events {
    waiting: Arc<Mutex<Waiting>>,
    /// Wakes the task. The task ends when the last sender is dropped.
    wake: mpsc::Sender<()>,
    namespace: String,
    room: usize,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Normal,
    Warning,
}

/// The content of an event. Two events with equal content are repetitions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct News {
    severity: Severity,
    reason: String,
    note: String,
    api_version: Option<String>,
    kind: Option<String>,
    namespace: String,
    name: String,
    uid: Option<String>,
}

#[derive(Default)]
struct Waiting {
    order: VecDeque<Arc<News>>,
    counts: HashMap<Arc<News>, i32>,
}

impl Events {
    /// Starts the task that publishes events as `component`. Events about cluster-scoped objects go to `namespace`.
    pub fn start(client: Client, component: &str, namespace: &str) -> Self {
        Self::start_with_room(client, component, namespace, LINE)
    }

    /// Like [`Events::start`] with a larger queue, for processes that publish events about every machine of a fleet.
    pub fn start_with_room(client: Client, component: &str, namespace: &str, room: usize) -> Self {
        let (wake, mut woken) = mpsc::channel(1);
        let waiting = Arc::<Mutex<Waiting>>::default();
        let mut writer = Writer { client, component: component.to_owned(), written: HashMap::new() };
        let line = Arc::clone(&waiting);
        tokio::spawn(async move {
            while woken.recv().await.is_some() {
                loop {
                    let next = line.lock().next();
                    let Some((news, count)) = next else { break };
                    if let Err(error) = writer.write(news, count).await {
                        tracing::debug!(error = &error as &dyn std::error::Error, "an event could not be published");
                    }
                }
            }
        });
        Self { waiting, wake, namespace: namespace.to_owned(), room }
    }

    /// Publishes an event about an object of a kind known at compile time.
    pub fn publish<K>(&self, name: &str, uid: Option<&str>, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(name.to_owned()),
            uid: uid.map(str::to_owned),
            namespace: Some(self.namespace.clone()),
            ..ObjectReference::default()
        };
        self.publish_about(about, severity, reason, message);
    }

    pub fn publish_about(&self, about: ObjectReference, severity: Severity, reason: &str, message: &str) {
        let news = News {
            severity,
            reason: reason.to_owned(),
            note: shorten(message),
            api_version: about.api_version,
            kind: about.kind,
            namespace: about.namespace.unwrap_or_else(|| "default".to_owned()),
            name: about.name.unwrap_or_default(),
            uid: about.uid,
        };
        if !self.waiting.lock().add(news, self.room) {
            tracing::warn!(reason, "an event was dropped because the queue is full");
        }
        // If this fails, the task is already awake, and it drains the whole queue.
        let _ = self.wake.try_send(());
    }
}

impl Waiting {
    /// Returns whether there was room in the queue.
    fn add(&mut self, news: News, room: usize) -> bool {
        if let Some(count) = self.counts.get_mut(&news) {
            *count = count.saturating_add(1);
            return true;
        }
        if self.order.len() >= room {
            return false;
        }
        let news = Arc::new(news);
        self.order.push_back(Arc::clone(&news));
        self.counts.insert(news, 1);
        true
    }

    fn next(&mut self) -> Option<(Arc<News>, i32)> {
        let news = self.order.pop_front()?;
        let count = self.counts.remove(&news).unwrap_or(1);
        Some((news, count))
    }
}

/// Writes events and remembers recent ones for a while.
struct Writer {
    client: Client,
    component: String,
    written: HashMap<Arc<News>, Written>,
}

struct Written {
    name: String,
    count: i32,
    at: Instant,
}

impl Writer {
    async fn write(&mut self, news: Arc<News>, count: i32) -> Result<(), Error> {
        self.written.retain(|_, written| written.at.elapsed() < SERIES);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &news.namespace);
        let now = Timestamp::now();
        if let Some(written) = self.written.get_mut(&news) {
            let total = written.count.saturating_add(count);
            let patch = json!({"series": {"count": total, "lastObservedTime": MicroTime(now)}});
            match in_time(events.patch(&written.name, &PatchParams::default(), &Patch::Merge(patch))).await {
                Ok(_) => {
                    (written.count, written.at) = (total, Instant::now());
                    return Ok(());
                }
                // The event was deleted or has expired: create it again.
                Err(error) if problem(&error) == Problem::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(&news, count, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        in_time(events.create(&PostParams::default(), &event)).await?;
        self.written.insert(news, Written { name, count, at: Instant::now() });
        Ok(())
    }

    fn event(&self, news: &News, count: i32, now: Timestamp) -> Event {
        let series = (count > 1).then_some(EventSeries { count, last_observed_time: MicroTime(now) });
        let type_ = match news.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        Event {
            action: Some(news.reason.clone()),
            reason: Some(news.reason.clone()),
            note: Some(news.note.clone()),
            type_: Some(type_.to_owned()),
            event_time: Some(MicroTime(now)),
            series,
            regarding: Some(ObjectReference {
                api_version: news.api_version.clone(),
                kind: news.kind.clone(),
                name: Some(news.name.clone()),
                namespace: Some(news.namespace.clone()),
                uid: news.uid.clone(),
                ..ObjectReference::default()
            }),
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", news.name, now.as_nanosecond())),
                namespace: Some(news.namespace.clone()),
                ..ObjectMeta::default()
            },
            reporting_controller: Some(self.component.clone()),
            reporting_instance: Some(self.component.clone()),
            ..Event::default()
        }
    }
}

/// The API refuses notes longer than 1024 bytes.
fn shorten(message: &str) -> String {
    const LIMIT: usize = 1024;
    if message.len() <= LIMIT {
        return message.to_owned();
    }
    let end = (0..=LIMIT - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let note = shorten(&"ä".repeat(1000));
        assert!(note.len() <= 1024 && note.ends_with("ä..."), "{}", note.len());
        assert_eq!(shorten("short"), "short");
    }

    fn news(note: &str) -> News {
        News {
            severity: Severity::Normal,
            reason: "ConfigServed".to_owned(),
            note: note.to_owned(),
            api_version: None,
            kind: None,
            namespace: String::new(),
            name: "worker".to_owned(),
            uid: None,
        }
    }

    #[test]
    fn repeated_events_are_counted_and_others_are_queued_while_there_is_room() {
        let mut waiting = Waiting::default();
        assert!(waiting.add(news("to a"), 2) && waiting.add(news("to b"), 2) && waiting.add(news("to a"), 2));
        assert!(!waiting.add(news("to c"), 2), "the queue is full");
        let told: Vec<(String, i32)> =
            std::iter::from_fn(|| waiting.next()).map(|(news, count)| (news.note.clone(), count)).collect();
        assert_eq!(told, [("to a".to_owned(), 2), ("to b".to_owned(), 1)]);
    }
}
