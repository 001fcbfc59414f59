//! A process that can die: its writes and its calls to the cloud are counted, and after the last one nothing gets through.
//!
//! The last effect still happens. Its answer is lost, which is the worst moment to die: whoever comes next has to find out.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tokio::sync::watch;

/// One life of a process. Clones are one.
#[derive(Clone)]
pub(crate) struct Life {
    effects: Arc<AtomicUsize>,
    /// The number of the effect that it dies with.
    last: usize,
    dead: watch::Sender<bool>,
    /// Requests that begin with this do not get through.
    held: watch::Sender<Option<String>>,
    /// While it is set, deletions are answered as by a webhook that refuses them.
    refused: watch::Sender<bool>,
    /// Methods and paths of all requests.
    requests: watch::Sender<Vec<String>>,
}

impl Life {
    pub(crate) fn endless() -> Self {
        Self::until(usize::MAX)
    }

    /// Dies with this effect, counted from 1.
    pub(crate) fn until(last: usize) -> Self {
        Self {
            effects: Arc::default(),
            last,
            dead: watch::channel(false).0,
            held: watch::channel(None).0,
            refused: watch::channel(false).0,
            requests: watch::channel(Vec::new()).0,
        }
    }

    /// Holds requests back on their way whose method and path begin with this, or lets all go on.
    pub(crate) fn hold(&self, held: Option<&str>) {
        self.held.send_replace(held.map(str::to_owned));
    }

    /// Waits until this request was sent more often than `before`.
    pub(crate) async fn sent_again(&self, line: &str, before: usize) {
        let is_more = |all: &Vec<String>| all.iter().filter(|request| *request == line).count() > before;
        let _ = self.requests.subscribe().wait_for(is_more).await;
    }

    /// How many requests were sent whose method and path are this.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.requests.borrow().iter().filter(|request| *request == line).count()
    }

    /// Refuses deletions, or lets them happen again.
    pub(crate) fn refuse_deletions(&self, refused: bool) {
        self.refused.send_replace(refused);
    }

    /// Waits until a request was sent whose method and path fit.
    pub(crate) async fn sent(&self, fits: impl Fn(&str) -> bool) {
        let _ = self.requests.subscribe().wait_for(|all| all.iter().any(|request| fits(request))).await;
    }

    /// Waits until a request of the second kind has followed the last one of the first kind.
    pub(crate) async fn followed(&self, first: impl Fn(&str) -> bool, then: impl Fn(&str) -> bool) {
        let is_followed = |all: &Vec<String>| {
            let last = all.iter().rposition(|request| first(request));
            last.is_some_and(|last| all[last..].iter().any(|request| then(request)))
        };
        let _ = self.requests.subscribe().wait_for(is_followed).await;
    }

    /// How many writes and calls there were.
    pub(crate) fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    pub(crate) async fn died(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Lets one effect happen, if the process lives, and its answer through, if it lives on.
    pub(crate) async fn effect<T>(&self, effect: impl Future<Output = T>) -> T {
        self.alive().await;
        let number = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        if number > self.last {
            return pending().await;
        }
        let answer = effect.await;
        if number == self.last {
            self.dead.send_replace(true);
        }
        self.alive().await;
        answer
    }

    async fn alive(&self) {
        if *self.dead.borrow() {
            pending::<()>().await;
        }
    }

    /// A client of this process.
    pub(crate) fn client(&self, client: Client) -> Client {
        let this = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (this, client) = (this.clone(), client.clone());
            async move { this.send(&client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let line = format!("{} {}", request.method(), request.uri().path());
        self.requests.send_modify(|all| all.push(line.clone()));
        let passes = |held: &Option<String>| held.as_ref().is_none_or(|held| !line.starts_with(held.as_str()));
        let _ = self.held.subscribe().wait_for(passes).await;
        if request.method() == Method::DELETE && *self.refused.borrow() {
            return Err(kube::Error::Api(Status::failure("a webhook refuses it", "Forbidden").with_code(403).boxed()));
        }
        // Events are news, and nothing depends on them.
        let is_effect = request.method() != Method::GET && !request.uri().path().contains("/events");
        if is_effect {
            return self.effect(client.send(request)).await;
        }
        self.alive().await;
        client.send(request).await
    }
}
