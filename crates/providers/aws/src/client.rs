//! The wire to AWS: signed requests of the Query API of EC2 and of the load balancers, and their answers in XML.
//!
//! A client belongs to one region and one set of credentials. Everything that AWS limits per account is therefore shared by
//! the machines that use it. It knows how to ask, not what to ask for: the calls are in `ec2` and `elb`.

pub(crate) mod accounts;
mod credentials;
mod endpoint;
mod fault;
mod http;
mod params;
mod throttle;

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

pub(crate) use endpoint::Service;
pub(crate) use fault::{Fault, kind_of_reason};
pub(crate) use params::Params;

use credentials::Login;
use endpoint::Endpoints;
use throttle::Throttle;

/// Requests under way at once; AWS counts them per account, and a burst of them is what makes it refuse.
const CONCURRENT: usize = 8;
/// Attempts at a request whose answer got lost or that AWS could not serve. Every request here may be repeated: reads, and
/// writes that carry a token or set a state.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

pub(crate) struct Client {
    http: reqwest::Client,
    login: Login,
    region: String,
    endpoints: Endpoints,
    throttle: Throttle,
    places: Semaphore,
}

impl Client {
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Asks a service and reads the answer.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        service: Service,
        action: &str,
        params: Params,
    ) -> Result<T, Fault> {
        let body = params.encode(action, service.version());
        let text = self.exchange(service, &body).await?;
        quick_xml::de::from_str(&text).map_err(|error| Fault::Unreadable(format!("{action}: {error}")))
    }

    async fn exchange(&self, service: Service, body: &str) -> Result<String, Fault> {
        let _place = self.places.acquire().await.map_err(|_| Fault::Unreachable("the client is closed".to_owned()))?;
        let mut attempt = 1;
        loop {
            self.throttle.admit()?;
            let fault = match self.send(service, body).await {
                Ok(text) => {
                    self.throttle.calm();
                    return Ok(text);
                }
                Err(fault) => fault,
            };
            if fault.is_throttling() {
                return Err(Fault::Paused { left: self.throttle.strike(), words: fault.to_string() });
            }
            let is_stale = fault.is_expired() && self.login.forget().await;
            if attempt == ATTEMPTS || !(fault.is_passing() || is_stale) {
                return Err(fault);
            }
            tokio::time::sleep(throttle::jittered(PAUSE * 2_u32.pow(attempt - 1))).await;
            attempt += 1;
        }
    }

    async fn send(&self, service: Service, body: &str) -> Result<String, Fault> {
        let url = self.endpoints.url(service, &self.region);
        let mut request = self.http.post(&url).header("content-type", FORM);
        for (name, value) in self.signature(service, &url, body).await? {
            request = request.header(name, value);
        }
        let response = request.body(body.to_owned()).send().await;
        let response = response.map_err(|error| Fault::Unreachable(http::words(error)))?;
        let status = response.status();
        let text = http::read(response).await.map_err(Fault::Unreachable)?;
        if status.is_success() { Ok(text) } else { Err(fault::read(status.as_u16(), &text)) }
    }

    async fn signature(&self, service: Service, url: &str, body: &str) -> Result<Vec<(String, String)>, Fault> {
        let identity = self.login.credentials().await?.into();
        let unsigned = |error: &dyn std::error::Error| Fault::Login(format!("cannot sign the request: {error}"));
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service.signing_name())
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?
            .into();
        let headers = std::iter::once(("content-type", FORM));
        let request = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body.as_bytes()))
            .map_err(|error| unsigned(&error))?;
        let (instructions, _) = sign(request, &params).map_err(|error| unsigned(&error))?.into_parts();
        Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
