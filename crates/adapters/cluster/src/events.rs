//! Kubernetes events that never hold up a controller.
//!
//! Events are handed to a task of their own. When the API is away and the line is full, further events are dropped and
//! counted in the log: an event is news, and conditions hold the state.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

/// Bursts of a rollout fit; a day without an API does not.
const LINE: usize = 1024;

#[derive(Clone)]
pub struct Events {
    line: mpsc::Sender<(Event, ObjectReference)>,
    namespace: String,
}

/// How bad the news is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Events {
    /// Starts the task that publishes in the name of `component`. Events about cluster-scoped objects go to `namespace`.
    pub fn start(client: Client, component: &str, namespace: &str) -> Self {
        let (line, mut news) = mpsc::channel::<(Event, ObjectReference)>(LINE);
        let reporter = Reporter { controller: component.to_owned(), instance: None };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some((event, about)) = news.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, "an event could not be published");
                }
            }
        });
        Self { line, namespace: namespace.to_owned() }
    }

    /// Tells about an object of a kind known at compile time.
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
        let event = Event {
            type_: match severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(shorten(message)),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.line.try_send((event, about)).is_err() {
            tracing::warn!(reason, "an event was dropped because too many wait");
        }
    }
}

/// The API refuses notes above 1024 bytes.
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
}
