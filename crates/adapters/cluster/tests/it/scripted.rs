//! A scripted API with one collection of ConfigMaps, whose responses to lists and watches a test controls.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// How requests are answered at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Every request gets this status.
    Refusing(u16),
    /// Requests get no response.
    Hanging,
}

#[derive(Clone)]
pub(crate) struct Scripted(Arc<Mutex<Inner>>);

struct Inner {
    mood: Mood,
    objects: Vec<&'static str>,
    lists: usize,
    /// The open watch.
    watch: Option<UnboundedSender<Vec<u8>>>,
    watches: usize,
}

impl Scripted {
    pub(crate) fn new(objects: &[&'static str]) -> Self {
        let objects = objects.to_vec();
        Self(Arc::new(Mutex::new(Inner { mood: Mood::Well, objects, lists: 0, watch: None, watches: 0 })))
    }

    pub(crate) fn client(&self) -> Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| this.clone().answer(request));
        Client::new(service, "default")
    }

    pub(crate) fn turn(&self, mood: Mood) {
        self.0.lock().mood = mood;
    }

    pub(crate) fn hold(&self, objects: &[&'static str]) {
        self.0.lock().objects = objects.to_vec();
    }

    /// Ends the open watch, like a server that restarts.
    pub(crate) fn cut(&self) {
        self.0.lock().watch = None;
    }

    /// Sends one event on the open watch.
    pub(crate) fn say(&self, event: &Value) {
        let line = format!("{event}\n").into_bytes();
        self.0.lock().watch.as_ref().expect("a watch is open").send(line).expect("somebody listens");
    }

    pub(crate) fn lists(&self) -> usize {
        self.0.lock().lists
    }

    pub(crate) fn watches(&self) -> usize {
        self.0.lock().watches
    }

    async fn answer(self, request: Request<Body>) -> Result<Answer, Infallible> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mood = {
            let mut inner = self.0.lock();
            if is_watch {
                inner.watches += 1
            } else {
                inner.lists += 1
            }
            inner.mood
        };
        Ok(match mood {
            Mood::Hanging => std::future::pending().await,
            Mood::Refusing(code) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not now", "code": code});
                text(code, &status)
            }
            Mood::Well if is_watch => {
                let (sender, receiver) = unbounded_channel::<Vec<u8>>();
                self.0.lock().watch = Some(sender);
                let frames = futures::stream::unfold(receiver, async |mut lines| {
                    let line = lines.recv().await?;
                    Some((Ok::<_, Infallible>(Frame::data(line.into())), lines))
                });
                Response::new(StreamBody::new(frames).boxed_unsync())
            }
            Mood::Well => text(200, &self.list()),
        })
    }

    fn list(&self) -> Value {
        let items: Vec<Value> = self.0.lock().objects.iter().map(|name| object(name)).collect();
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items})
    }
}

pub(crate) fn object(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": "5"}})
}

pub(crate) fn bookmark() -> Value {
    let metadata = json!({"resourceVersion": "9"});
    json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}})
}

pub(crate) fn expired() -> Value {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410});
    json!({"type": "ERROR", "object": status})
}

fn text(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).expect("a response")
}
