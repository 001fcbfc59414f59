//! One request to one answer. Every error says in its body what to do; none says anything secret.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName,
    IF_NONE_MATCH, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use ignition::Version;
use serving::route::{Route, route};

use crate::body::{Bodies, Body, Error};
use crate::limits::Limits;
use crate::metrics::{Answered, Metrics};
use crate::source::{Missing, Source};

/// What machines that come too early should wait: the cluster renders within seconds.
const SOON: Duration = Duration::from_secs(5);

pub(crate) struct Answerer {
    pub(crate) source: Source,
    pub(crate) bodies: Bodies,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
}

type Answer = Response<Full<Bytes>>;

impl Answerer {
    pub(crate) async fn answer<B>(&self, request: Request<B>, from: IpAddr) -> Answer {
        let is_head = request.method() == Method::HEAD;
        let mut answer = self.route(&request, from).await;
        self.metrics.answers.get_or_create(&Answered { code: answer.status().as_u16() }).inc();
        if is_head {
            *answer.body_mut() = Full::default();
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
            Route::Health => text(StatusCode::OK, "ok\n".to_owned()),
            Route::Ready if self.source.is_ready() => text(StatusCode::OK, "ok\n".to_owned()),
            Route::Ready => retry(SOON, "the cluster's objects have not been read yet"),
            Route::Metrics => text(StatusCode::OK, self.metrics.text()),
            Route::Nowhere => refuse(StatusCode::NOT_FOUND, "nothing is here"),
        }
    }

    async fn config(
        &self,
        pool: &str,
        headers: &HeaderMap,
        is_head: bool,
        from: IpAddr,
    ) -> Result<Answer, Box<Answer>> {
        if let Some(wait) = self.limits.wait(from, Instant::now()) {
            let answer = refuse(
                StatusCode::TOO_MANY_REQUESTS,
                "too many failed tries from this address; wait, then use a fresh pointer config",
            );
            return Err(Box::new(with(answer, RETRY_AFTER, &(wait.as_secs() + 1).to_string())));
        }
        let version = version(headers)?;
        // Who has no token learns nothing, not even which pools there are.
        let found = self.source.pool(pool);
        if !found.as_ref().is_ok_and(|pool| pool.open) {
            self.admit(headers, pool, is_head, from).await?;
        }
        let found = found.map_err(|missing| Box::new(absent(&missing)))?;
        let name = found.config.ok_or_else(|| {
            Box::new(retry(
                SOON,
                &format!("pool {pool} has no rendered config yet; `kubectl describe mcp {pool}` says why"),
            ))
        })?;
        let body = self.bodies.get(&name, version, self.source.stamp(), self.source.materials(&name)).await;
        let body = body.map_err(|error| {
            tracing::warn!(pool, config = name, error = &error as &dyn std::error::Error, "no config could be served");
            Box::new(failed(&error))
        })?;
        if !is_head {
            self.source.served(pool, &name, from);
        }
        Ok(deliver(&body, headers))
    }

    /// Lets a machine in. A use is counted for a config that is handed out; a HEAD only looks.
    async fn admit(&self, headers: &HeaderMap, pool: &str, is_head: bool, from: IpAddr) -> Result<(), Box<Answer>> {
        let secret = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = secret.and_then(|value| value.strip_prefix("Bearer "));
        self.source.admit(secret, pool, from, !is_head).await.map_err(|refusal| {
            self.limits.failed(from, Instant::now());
            tracing::warn!(pool, %from, %refusal, "a machine was refused");
            let text = "no valid token for this pool; make user data with `machinist pointer --pool <pool>`";
            Box::new(with(refuse(StatusCode::UNAUTHORIZED, text), WWW_AUTHENTICATE, "Bearer"))
        })
    }
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

fn deliver(body: &Body, headers: &HeaderMap) -> Answer {
    let asks = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim() == wanted)
    };
    let builder = Response::builder().header(ETAG, &body.etag).header(VARY, "Accept, Accept-Encoding, Authorization");
    let answer = if asks(IF_NONE_MATCH, &body.etag) {
        builder.status(StatusCode::NOT_MODIFIED).body(Full::default())
    } else if asks(ACCEPT_ENCODING, "gzip") {
        let builder = builder.header(CONTENT_ENCODING, "gzip").header(CONTENT_LENGTH, body.gzip.len());
        builder.header(CONTENT_TYPE, "application/json").body(Full::new(body.gzip.clone()))
    } else {
        let builder = builder.header(CONTENT_LENGTH, body.plain.len());
        builder.header(CONTENT_TYPE, "application/json").body(Full::new(body.plain.clone()))
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
    builder.body(Full::new(body.into())).expect("our own headers are valid")
}

fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = value.parse() {
        answer.headers_mut().insert(name, value);
    }
    answer
}
