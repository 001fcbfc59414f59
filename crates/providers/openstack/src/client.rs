//! The wire to OpenStack: requests with a token of keystone, and answers in JSON.
//!
//! A client belongs to one entry of one `clouds.yaml`. Everything that a cloud limits per project is therefore shared by the
//! machines that use it. It knows how to ask, not what to ask for: the calls are in `services`.

pub(crate) mod accounts;
mod clouds;
mod fault;
mod http;
mod session;
mod throttle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

pub(crate) use fault::{Fault, kind_of_fault};

use clouds::Cloud;
use session::Session;
use throttle::Throttle;

/// Requests under way at once.
const CONCURRENT: usize = 8;
/// Attempts at a request whose answer got lost or that could not be served.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// Entries of a page; services that allow fewer give fewer.
const PAGE: usize = 1000;
/// Tags of servers can be written when they are made from 2.52 on (Pike, 2017).
const MICROVERSION: &str = "2.52";

/// A service of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Service {
    Compute,
    Network,
    Image,
    Volume,
}

impl Service {
    /// Its names in catalogues.
    fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Compute => &["compute"],
            Self::Network => &["network"],
            Self::Image => &["image"],
            Self::Volume => &["volumev3", "block-storage", "block-store"],
        }
    }

    /// Catalogues name some services without the version of their API.
    fn versioned(self, url: &str) -> String {
        let url = url.trim_end_matches('/');
        let version = match self {
            Self::Compute | Self::Volume => return url.to_owned(),
            Self::Network => "/v2.0",
            Self::Image => "/v2",
        };
        if url.ends_with(version) { url.to_owned() } else { format!("{url}{version}") }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kinds()[0])
    }
}

pub(crate) struct Client {
    http: reqwest::Client,
    cloud: Cloud,
    session: Mutex<Option<Arc<Session>>>,
    throttle: Throttle,
    places: Semaphore,
    /// Held while a server group is looked for and made, because names of groups are not unique.
    pub(crate) groups: Mutex<()>,
}

impl Client {
    fn new(http: reqwest::Client, cloud: Cloud) -> Self {
        Self {
            http,
            cloud,
            session: Mutex::default(),
            throttle: Throttle::default(),
            places: Semaphore::new(CONCURRENT),
            groups: Mutex::default(),
        }
    }

    pub(crate) fn region(&self) -> Option<&str> {
        self.cloud.region.as_deref()
    }

    /// The project that the credentials belong to.
    pub(crate) async fn project(&self) -> Result<Option<String>, Fault> {
        Ok(self.session().await?.project.clone())
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, Fault> {
        let text = self.exchange(service, &Method::GET, path, query, None).await?;
        parse(&text)
    }

    /// Every page of a list.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        key: &str,
        query: &[(&str, String)],
    ) -> Result<Vec<T>, Fault> {
        let mut all = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            query.push(("limit", PAGE.to_string()));
            query.extend(marker.take().map(|marker| ("marker", marker)));
            let mut page: Value = self.get(service, path, &query).await?;
            let has_more = has_more(&page, key);
            let Some(Value::Array(items)) = page.get_mut(key).map(Value::take) else {
                return Err(Fault::Unreadable(format!("there is no {key} in it")));
            };
            marker = items.last().and_then(|item| item["id"].as_str()).map(str::to_owned).filter(|_| has_more);
            for item in items {
                all.push(serde_json::from_value(item).map_err(|error| Fault::Unreadable(format!("{key}: {error}")))?);
            }
            if marker.is_none() {
                return Ok(all);
            }
        }
    }

    /// Asks once: an answer that got lost may have been a yes.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        service: Service,
        path: &str,
        body: &Value,
    ) -> Result<T, Fault> {
        let text = self.exchange(service, &Method::POST, path, &[], Some(body)).await?;
        parse(if text.is_empty() { "null" } else { &text })
    }

    pub(crate) async fn put(&self, service: Service, path: &str, body: Option<&Value>) -> Result<(), Fault> {
        self.exchange(service, &Method::PUT, path, &[], body).await.map(drop)
    }

    /// Also successful when there is nothing to delete.
    pub(crate) async fn delete(&self, service: Service, path: &str) -> Result<(), Fault> {
        match self.exchange(service, &Method::DELETE, path, &[], None).await {
            Err(fault) if fault.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn exchange(
        &self,
        service: Service,
        method: &Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<String, Fault> {
        let _place = self.places.acquire().await.map_err(|_| Fault::Unreachable("the client is closed".to_owned()))?;
        let mut attempt = 1;
        loop {
            self.throttle.admit()?;
            let fault = match self.send(service, method, path, query, body).await {
                Ok(text) => {
                    self.throttle.calm();
                    return Ok(text);
                }
                Err(fault) => fault,
            };
            if let Some(asked) = fault.is_throttling() {
                return Err(Fault::Paused { left: self.throttle.strike(asked), words: fault.to_string() });
            }
            // A token may be revoked before its time; a request that is refused for it has done nothing.
            let is_stale = fault.status() == Some(401) && self.session.lock().await.take().is_some() && attempt == 1;
            let may_repeat = fault.is_passing() && method != Method::POST;
            if attempt == ATTEMPTS || !(may_repeat || is_stale) {
                return Err(fault);
            }
            tokio::time::sleep(throttle::jittered(PAUSE * 2_u32.pow(attempt - 1))).await;
            attempt += 1;
        }
    }

    async fn send(
        &self,
        service: Service,
        method: &Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<String, Fault> {
        let session = self.session().await?;
        let url = format!("{}{path}", session.endpoint(service, &self.cloud)?);
        let mut request = self.http.request(method.clone(), &url).query(query).header("x-auth-token", &session.token);
        request = request.header("accept", "application/json");
        if service == Service::Compute {
            request = request.header("openstack-api-version", format!("compute {MICROVERSION}"));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| Fault::Unreachable(http::words(error)))?;
        let status = response.status();
        let (request_id, retry_after) = session::heads(response.headers());
        let text = http::read(response).await.map_err(Fault::Unreachable)?;
        match status.as_u16() {
            200..300 => Ok(text),
            406 if service == Service::Compute => {
                Err(Fault::Lacking(format!("nova is older than Pike: it has no microversion {MICROVERSION}")))
            }
            status => Err(fault::read(status, &text, request_id, retry_after)),
        }
    }

    async fn session(&self) -> Result<Arc<Session>, Fault> {
        let mut held = self.session.lock().await;
        if let Some(session) = held.as_ref().filter(|session| session.is_fresh()) {
            return Ok(session.clone());
        }
        let session = Arc::new(Session::begin(&self.http, &self.cloud).await?);
        *held = Some(session.clone());
        Ok(session)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Unreadable(error.to_string()))
}

/// Glance has `next`, the others `servers_links` and the like.
fn has_more(page: &Value, key: &str) -> bool {
    let links = page[format!("{key}_links")].as_array();
    page["next"].is_string() || links.is_some_and(|links| links.iter().any(|link| link["rel"] == "next"))
}
