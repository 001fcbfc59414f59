//! The wire: connections, requests taken apart, answers put together.

pub(crate) mod accept;
pub(crate) mod listen;
mod patience;
pub(crate) mod query;
pub(crate) mod respond;
pub(crate) mod target;
pub(crate) mod websocket;

use std::{panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Limited};

pub(crate) use accept::{Accept, Shape};
pub(crate) use query::Query;
pub(crate) use respond::Body;
pub(crate) use target::Target;

use crate::{
    auth::{Peer, User},
    server::Api,
    status::{Answer, Failure},
};

/// The largest body accepted, the same as the real server's.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// One request, authenticated and taken apart.
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub user: User,
    pub accept: Accept,
    pub body: Bytes,
    /// The connection itself, for who wants to speak something else on it.
    pub upgrade: parking_lot::Mutex<Option<hyper::upgrade::OnUpgrade>>,
    /// Lines for `Warning` headers, collected while the request is worked on.
    pub warnings: parking_lot::Mutex<Vec<String>>,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
}

/// What a body fails with while it is read.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) async fn serve<B>(api: Arc<Api>, peer: Arc<Peer>, request: Request<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BodyError>>,
{
    let (mut parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let accept_header = parts.headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = Accept::parse(accept_header.unwrap_or_default());
    let pretty = accept.pretty || query.get("pretty").is_some_and(|value| value != "0" && value != "false");
    let mut call = Call {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query,
        headers: parts.headers,
        user: User::anonymous(),
        accept,
        body: Bytes::new(),
        upgrade: parking_lot::Mutex::new(parts.extensions.remove()),
        warnings: parking_lot::Mutex::default(),
    };
    let outcome = AssertUnwindSafe(answer(&api, &peer, &mut call, body)).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| {
        tracing::error!(path = call.path, "a request caused a panic");
        Err(Failure::internal("This request caused apiserver to panic. Look in the logs for details."))
    });
    let gzip = call.method == Method::GET && call.header("accept-encoding").contains("gzip");
    let mut response = match outcome {
        Ok(response) if gzip => respond::compressed(response).await,
        Ok(response) => response,
        Err(failure) => respond::failure(&failure, call.accept.yaml, pretty),
    };
    respond::warnings(&mut response, &call.warnings.into_inner());
    respond::audited(&mut response);
    if call.method == Method::HEAD {
        return respond::headers_only(response);
    }
    response
}

async fn answer<B>(api: &Arc<Api>, peer: &Peer, call: &mut Call, body: B) -> Answer<Response<Body>>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BodyError>>,
{
    call.user = api.access.authenticate(&api.store, peer, &call.headers)?;
    call.user = api.access.impersonate(api, call)?;
    if !matches!(call.method, Method::GET | Method::HEAD) {
        call.body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Failure::too_large(BODY_LIMIT));
            }
            Err(error) => return Err(Failure::bad_request(error.to_string())),
        };
    }
    crate::route::route(api, call).await
}
