//! An API that fails for some resources, behind an ordinary client.
//!
//! A test breaks the reads of one resource and mends them again, while everything else, writes included, reaches the
//! real or embedded server. Open watches of a broken resource end at once, as they do when a server restarts. A stalled
//! resource is read as ever, but its watches fall silent, as on a connection that died unnoticed.

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

/// Which reads fail, and how. Clones are one.
#[derive(Clone)]
pub struct Faults {
    broken: Arc<Mutex<BTreeMap<String, u16>>>,
    stalled: Arc<Mutex<BTreeSet<String>>>,
    /// Changes whenever something breaks, for watches that are open.
    news: watch::Sender<()>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { broken: Arc::default(), stalled: Arc::default(), news: watch::channel(()).0 }
    }
}

impl Faults {
    /// From now on every read of `resource` (a plural, such as `secrets`) is answered with this status.
    pub fn fail(&self, resource: &str, code: u16) {
        self.broken.lock().unwrap().insert(resource.to_owned(), code);
        self.news.send_replace(());
    }

    /// From now on watches of `resource` tell nothing, until it is mended.
    pub fn stall(&self, resource: &str) {
        self.stalled.lock().unwrap().insert(resource.to_owned());
    }

    /// Reads and watches of `resource` work again.
    pub fn mend(&self, resource: &str) {
        self.broken.lock().unwrap().remove(resource);
        self.stalled.lock().unwrap().remove(resource);
        self.news.send_replace(());
    }

    /// A client that meets the faults on its way to where `client` leads.
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

    /// Gives out what a watch told once nothing holds it back.
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
