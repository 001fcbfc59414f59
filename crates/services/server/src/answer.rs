//! Turns one request into one response. The body of every error says what to do and contains no secret.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use ignition::Version;
use serving::report::{self, Report};
use serving::route::{Route, route};
use serving::token::Refusal;
use tokio::time::timeout;

use crate::body::{Bodies, Body, Error};
use crate::daemon::Daemon;
use crate::limits::Limits;
use crate::metrics::{Answered, Metrics};
use crate::parcel::Parcel;
use crate::source::{Admitted, Denied, Missing, Source};

/// A report is small and sent at once.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// `Retry-After` for machines that come too early: the cluster renders within seconds.
const SOON: Duration = Duration::from_secs(5);

pub(crate) struct Answerer {
    pub(crate) source: Source,
    pub(crate) bodies: Bodies,
    /// The daemon's binary, if this server has one.
    pub(crate) daemon: Option<Daemon>,
    /// Failed attempts per address.
    pub(crate) limits: Limits,
    /// Reports per address.
    pub(crate) reports: Limits,
    pub(crate) metrics: Metrics,
}

type Answer = Response<Parcel>;

impl Answerer {
    pub(crate) async fn answer<B>(&self, request: Request<B>, from: IpAddr) -> Answer
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_head = request.method() == Method::HEAD;
        let mut answer = match route(request.uri().path()) {
            // Reports are rare, so their large future is boxed instead of being part of every request.
            Route::Report(_) => Box::pin(self.report(request, from)).await.unwrap_or_else(|answer| *answer),
            _ => self.route(&request, from).await,
        };
        self.metrics.answers.get_or_create(&Answered { code: answer.status().as_u16() }).inc();
        if is_head {
            *answer.body_mut() = Parcel::default();
        }
        answer
    }

    async fn route<B>(&self, request: &Request<B>, from: IpAddr) -> Answer {
        let route = route(request.uri().path());
        if route == Route::Nowhere {
            return refuse(StatusCode::NOT_FOUND, "nothing is here; a machine asks for /config/<pool>");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are answered here";
            return with(refuse(StatusCode::METHOD_NOT_ALLOWED, text), ALLOW, "GET, HEAD");
        }
        match route {
            Route::Config(pool) => self
                .config(pool, request.headers(), request.method() == Method::HEAD, from)
                .await
                .unwrap_or_else(|answer| *answer),
            Route::Daemon(sha256) => self.daemon(sha256, request.headers()),
            Route::Health => text(StatusCode::OK, "ok\n".to_owned()),
            Route::Ready if self.source.is_ready() => text(StatusCode::OK, "ok\n".to_owned()),
            Route::Ready => {
                let trouble = self.source.trouble();
                retry(SOON, trouble.as_deref().unwrap_or("the cluster's objects have not been read yet"))
            }
            Route::Metrics => text(StatusCode::OK, self.metrics.text()),
            Route::Report(_) | Route::Nowhere => refuse(StatusCode::NOT_FOUND, "nothing is here"),
        }
    }

    async fn config(
        &self,
        pool: &str,
        headers: &HeaderMap,
        is_head: bool,
        from: IpAddr,
    ) -> Result<Answer, Box<Answer>> {
        if !self.source.is_ready() {
            return Err(Box::new(retry(SOON, "the server has not read the cluster's objects yet; ask again")));
        }
        let version = version(headers)?;
        // The token is checked before the pool: a client without a token must not learn which pools exist.
        let found = self.source.pool(pool);
        let is_open = found.as_ref().is_ok_and(|pool| pool.open);
        let admitted = if is_open { Admitted::default() } else { self.admit(headers, pool, is_head, from).await? };
        let found = found.map_err(|missing| Box::new(absent(&missing)))?;
        let name = found.config.ok_or_else(|| {
            Box::new(retry(
                SOON,
                &format!("pool {pool} has no rendered config yet; `kubectl describe mcp {pool}` says why"),
            ))
        })?;
        let materials = || self.source.materials(&name, found.image.clone()).boxed();
        let body = self.bodies.get(&name, found.image.as_deref(), version, self.source.stamp(), materials).await;
        let body = body.map_err(|error| {
            tracing::warn!(pool, config = name, error = &error as &dyn std::error::Error, "no config could be served");
            Box::new(failed(&error))
        })?;
        if !is_head {
            self.source.served(pool, &name, from, &admitted);
        }
        Ok(deliver(&body, headers))
    }

    /// Serves the daemon's binary. It contains no secret and is addressed by its hash, so no token is needed.
    fn daemon(&self, sha256: &str, headers: &HeaderMap) -> Answer {
        let Some(daemon) = &self.daemon else {
            return refuse(StatusCode::NOT_FOUND, "this server has no daemon to give; start it with --daemon-binary");
        };
        if daemon.sha256() != sha256 {
            // During a rolling update of the servers, the one that named this hash may be behind the same address.
            return retry(SOON, "this server has another build of the daemon; ask again, or fetch the config anew");
        }
        let etag = format!("\"{sha256}\"");
        let builder = Response::builder().header(ETAG, &etag).header(VARY, "Accept-Encoding");
        let builder = builder.header(CACHE_CONTROL, "public, max-age=31536000, immutable");
        let answer = if asks(headers, IF_NONE_MATCH, &etag) {
            builder.status(StatusCode::NOT_MODIFIED).body(Parcel::default())
        } else {
            let (parcel, length, is_gzip) = daemon.parcel(asks(headers, ACCEPT_ENCODING, "gzip"));
            let builder = builder.header(CONTENT_TYPE, "application/octet-stream").header(CONTENT_LENGTH, length);
            let builder = if is_gzip { builder.header(CONTENT_ENCODING, "gzip") } else { builder };
            builder.body(parcel)
        };
        answer.expect("our own headers are valid")
    }

    /// Checks the client's token. Only a GET uses it up; a HEAD does not.
    async fn admit(
        &self,
        headers: &HeaderMap,
        pool: &str,
        is_head: bool,
        from: IpAddr,
    ) -> Result<Admitted, Box<Answer>> {
        let admitted = self.source.admit(secret(headers), pool, from, !is_head).await;
        admitted.map_err(|denied| Box::new(self.denied(&denied, pool, from)))
    }

    /// Returns the response for a refused client. Failures of an address never affect valid tokens, because all
    /// machines behind a load balancer share its address.
    fn denied(&self, denied: &Denied, pool: &str, from: IpAddr) -> Answer {
        let Denied::Refused(refusal) = denied else { return retry(SOON, &denied.to_string()) };
        let now = Instant::now();
        if let Some(wait) = self.limits.wait(from, now) {
            let text = "too many failed tries from this address; wait, then use a fresh pointer config";
            return wait_for(refuse(StatusCode::TOO_MANY_REQUESTS, text), wait);
        }
        self.limits.failed(from, now);
        tracing::warn!(pool, %from, %refusal, "a machine was refused");
        let text = "no valid token for this pool; make user data with `machinist pointer --pool <pool>`";
        with(refuse(StatusCode::UNAUTHORIZED, text), WWW_AUTHENTICATE, "Bearer")
    }

    /// Accepts a machine's report about its first boot.
    async fn report<B>(&self, request: Request<B>, from: IpAddr) -> Result<Answer, Box<Answer>>
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let Route::Report(pool) = route(head.uri.path()) else {
            return Err(Box::new(refuse(StatusCode::NOT_FOUND, "nothing is here")));
        };
        if head.method != Method::POST {
            let answer = refuse(StatusCode::METHOD_NOT_ALLOWED, "reports are sent here with POST");
            return Err(Box::new(with(answer, ALLOW, "POST")));
        }
        if let Some(wait) = self.reports.wait(from, Instant::now()) {
            let answer = refuse(StatusCode::TOO_MANY_REQUESTS, "too many reports from this address; wait");
            return Err(Box::new(wait_for(answer, wait)));
        }
        self.reports.failed(from, Instant::now());
        // Without a token the body is not read.
        let secret = secret(&head.headers).ok_or(Denied::Refused(Refusal::Missing));
        let secret = secret.map_err(|denied| Box::new(self.denied(&denied, pool, from)))?;
        let body = timeout(REPORT_TIME, Limited::new(body, report::LONGEST).collect()).await;
        let body = body.map_err(|_| Box::new(refuse(StatusCode::REQUEST_TIMEOUT, "the report did not arrive")))?;
        let body =
            body.map_err(|_| Box::new(refuse(StatusCode::PAYLOAD_TOO_LARGE, &report::Error::Long.to_string())))?;
        let report = Report::parse(&body.to_bytes())
            .map_err(|error| Box::new(refuse(StatusCode::BAD_REQUEST, &error.to_string())))?;
        let told = self.source.report(Some(secret), pool, from, &report).await;
        told.map_err(|denied| Box::new(self.denied(&denied, pool, from)))?;
        Ok(text(StatusCode::ACCEPTED, "noted\n".to_owned()))
    }
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "))
}

fn wait_for(answer: Answer, wait: Duration) -> Answer {
    with(answer, RETRY_AFTER, &(wait.as_secs() + 1).to_string())
}

fn version(headers: &HeaderMap) -> Result<Version, Box<Answer>> {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
    let asked = serving::accept::negotiate(&accept)
        .map_err(|error| Box::new(refuse(StatusCode::BAD_REQUEST, &error.to_string())))?;
    let version = Version::parse(&asked.to_string()).ok().filter(|version| Version::SERVED.contains(version));
    version.ok_or_else(|| {
        let served = Version::SERVED.map(Version::as_str).join(", ");
        Box::new(refuse(
            StatusCode::BAD_REQUEST,
            &format!("Ignition {asked} cannot be served; ask for one of {served}"),
        ))
    })
}

/// Whether a header with a list of values contains `wanted`.
fn asks(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim() == wanted)
}

fn deliver(body: &Body, headers: &HeaderMap) -> Answer {
    let builder = Response::builder().header(ETAG, &body.etag).header(VARY, "Accept, Accept-Encoding, Authorization");
    let answer = if asks(headers, IF_NONE_MATCH, &body.etag) {
        builder.status(StatusCode::NOT_MODIFIED).body(Parcel::default())
    } else if asks(headers, ACCEPT_ENCODING, "gzip") {
        let builder = builder.header(CONTENT_ENCODING, "gzip").header(CONTENT_LENGTH, body.gzip.len());
        builder.header(CONTENT_TYPE, "application/json").body(body.gzip.clone().into())
    } else {
        let builder = builder.header(CONTENT_LENGTH, body.plain.len());
        builder.header(CONTENT_TYPE, "application/json").body(body.plain.clone().into())
    };
    answer.expect("our own headers are valid")
}

fn absent(missing: &Missing) -> Answer {
    match missing {
        Missing::NotYet(text) => retry(SOON, text),
        Missing::Pool(_) => refuse(StatusCode::NOT_FOUND, &missing.to_string()),
        Missing::Broken(text) => refuse(StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

fn failed(error: &Error) -> Answer {
    match error {
        Error::Missing(missing) => absent(missing),
        Error::Compose(serving::Error::Lower { .. }) => refuse(StatusCode::NOT_ACCEPTABLE, &error.to_string()),
        Error::Compose(serving::Error::Config { .. }) | Error::Interrupted => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

fn retry(after: Duration, text: &str) -> Answer {
    with(refuse(StatusCode::SERVICE_UNAVAILABLE, text), RETRY_AFTER, &after.as_secs().to_string())
}

fn refuse(status: StatusCode, text_: &str) -> Answer {
    text(status, format!("{text_}\n"))
}

fn text(status: StatusCode, body: String) -> Answer {
    let builder = Response::builder().status(status).header(CONTENT_TYPE, "text/plain; charset=utf-8");
    builder.body(body.into()).expect("our own headers are valid")
}

fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = value.parse() {
        answer.headers_mut().insert(name, value);
    }
    answer
}
