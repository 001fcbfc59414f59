//! A client whose requests fail for chosen resources.
//!
//! A test breaks the reads of one resource and repairs them later, while everything else, including writes, reaches the
//! real or embedded server. Open watches of a broken resource end at once, as when a server restarts. Reads of a
//! stalled resource succeed, but its watches deliver nothing, as on a dead connection.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// Which reads fail, and how. Clones share their state.
#[derive(Clone)]
pub struct Faults {
    broken: Arc<Mutex<BTreeMap<String, u16>>>,
    stalled: Arc<Mutex<BTreeSet<String>>>,
    /// Notifies open watches of every new fault.
    news: watch::Sender<()>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { broken: Arc::default(), stalled: Arc::default(), news: watch::channel(()).0 }
    }
}

impl Faults {
    /// Lets every read of `resource` (a plural, such as `secrets`) fail with this status.
    pub fn fail(&self, resource: &str, code: u16) {
        self.broken.lock().unwrap().insert(resource.to_owned(), code);
        self.news.send_replace(());
    }

    /// Lets watches of `resource` deliver nothing until it is repaired.
    pub fn stall(&self, resource: &str) {
        self.stalled.lock().unwrap().insert(resource.to_owned());
    }

    /// Repairs reads and watches of `resource`.
    pub fn mend(&self, resource: &str) {
        self.broken.lock().unwrap().remove(resource);
        self.stalled.lock().unwrap().remove(resource);
        self.news.send_replace(());
    }

    /// Returns a client that applies the faults and otherwise forwards to `client`.
    pub fn client(&self, client: Client) -> Client {
        let this = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let (this, client) = (this.clone(), client.clone());
            async move { this.answer(&client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn answer(&self, client: &Client, request: Request<Body>) -> Result<Answer, kube::Error> {
        let path = request.uri().path().to_owned();
        if request.method() != Method::GET {
            return Ok(client.send(request).await?.map(BodyExt::boxed_unsync));
        }
        if let Some(code) = self.code(&path) {
            return Ok(refusal(code));
        }
        let (this, mut news) = (self.clone(), self.news.subscribe());
        let broken = async move {
            while this.code(&path).is_none() {
                if news.changed().await.is_err() {
                    std::future::pending::<Infallible>().await;
                }
            }
        };
        let (this, path) = (self.clone(), request.uri().path().to_owned());
        if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            let response = client.send(request).await?;
            let frames =
                move |body| BodyStream::new(body).then(move |frame| this.clone().let_through(path.clone(), frame));
            let body = |body| StreamBody::new(Box::pin(frames(body).take_until(Box::pin(broken)))).boxed_unsync();
            return Ok(response.map(body));
        }
        let response = client.send(request).await?;
        Ok(response.map(|body| StreamBody::new(BodyStream::new(body).take_until(Box::pin(broken))).boxed_unsync()))
    }

    /// Returns a watch's frame as soon as its resource is not stalled.
    async fn let_through<T>(self, path: String, frame: T) -> T {
        let mut news = self.news.subscribe();
        while path.split('/').any(|segment| self.stalled.lock().unwrap().contains(segment)) {
            if news.changed().await.is_err() {
                std::future::pending::<Infallible>().await;
            }
        }
        frame
    }

    fn code(&self, path: &str) -> Option<u16> {
        let broken = self.broken.lock().unwrap();
        path.split('/').find_map(|segment| broken.get(segment)).copied()
    }
}

fn refusal(code: u16) -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "a fault of the test", "code": code,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    Response::builder().status(code).body(body.boxed_unsync()).expect("a response")
}
