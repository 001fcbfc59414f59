//! A token of keystone, and where the services are.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::clouds::Cloud;
use super::{Fault, Service, fault, http};

/// A token that ends sooner is not used any more: a request may be under way for a while.
const MARGIN: SignedDuration = SignedDuration::from_secs(120);

/// Its `Debug` form would show the token, so it has none.
pub(super) struct Session {
    pub(super) token: String,
    expires: Option<Timestamp>,
    pub(super) project: Option<String>,
    catalogue: Vec<Entry>,
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: Option<String>,
    #[serde(default)]
    catalog: Vec<Entry>,
    project: Option<Project>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    region: Option<String>,
    region_id: Option<String>,
    url: String,
}

impl Session {
    /// Logs in.
    pub(super) async fn begin(http: &reqwest::Client, cloud: &Cloud) -> Result<Self, Fault> {
        let request = http.post(format!("{}/auth/tokens", cloud.auth_url)).json(&cloud.login);
        let response = request.send().await.map_err(|error| Fault::Unreachable(http::words(error)))?;
        let status = response.status();
        let (request_id, retry_after) = heads(response.headers());
        let token = response.headers().get("x-subject-token").and_then(|token| token.to_str().ok()).map(str::to_owned);
        let text = http::read(response).await.map_err(Fault::Unreachable)?;
        if !status.is_success() {
            return Err(fault::read(status.as_u16(), &text, request_id, retry_after));
        }
        let answer: Result<Answer, _> = serde_json::from_str(&text);
        // The answer is not shown: it tells about the account.
        let answer = answer.map_err(|_| Fault::Unreadable("this is not keystone's answer".to_owned()))?;
        let token = token.ok_or_else(|| Fault::Unreadable("keystone gave no token".to_owned()))?;
        let Token { expires_at, catalog, project } = answer.token;
        let expires = expires_at.and_then(|time| time.parse().ok());
        Ok(Self { token, expires, project: project.map(|project| project.id), catalogue: catalog })
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.expires.is_none_or(|expires| expires.duration_since(Timestamp::now()) > MARGIN)
    }

    /// The address of a service, without a slash at its end.
    pub(super) fn endpoint(&self, service: Service, cloud: &Cloud) -> Result<String, Fault> {
        if let Some(url) = cloud.endpoints.get(service.kinds()[0]) {
            return Ok(service.versioned(url));
        }
        let entries = service.kinds().iter().flat_map(|kind| self.catalogue.iter().filter(move |it| it.kind == *kind));
        let endpoints = entries.flat_map(|entry| &entry.endpoints).filter(|it| it.interface == cloud.interface);
        let mut by_region: BTreeMap<&str, &str> = BTreeMap::new();
        for endpoint in endpoints {
            let region = endpoint.region_id.as_deref().or(endpoint.region.as_deref()).unwrap_or_default();
            by_region.entry(region).or_insert(&endpoint.url);
        }
        let lacking = |what: String| Err(Fault::Lacking(what));
        match (&cloud.region, by_region.len()) {
            (_, 0) => lacking(format!("the cloud has no {service} service with an {} address", cloud.interface)),
            (Some(region), _) => match by_region.get(region.as_str()) {
                Some(url) => Ok(service.versioned(url)),
                None => lacking(format!("the cloud has no {service} service in region {region:?}")),
            },
            (None, 1) => Ok(service.versioned(by_region.values().next().copied().unwrap_or_default())),
            (None, _) => {
                let names: Vec<_> = by_region.keys().collect();
                Err(Fault::Login(format!("the cloud has regions {names:?}; name one as region_name in clouds.yaml")))
            }
        }
    }
}

/// The id of a request, and how long the cloud asks us to wait.
pub(super) fn heads(headers: &reqwest::header::HeaderMap) -> (Option<String>, Option<Duration>) {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = text("x-openstack-request-id").or_else(|| text("x-compute-request-id"));
    let seconds = text("retry-after").and_then(|value| value.parse().ok());
    (id, seconds.map(Duration::from_secs))
}
