//! The wire to Compute Engine: JSON over HTTPS, with a token that is renewed before it ends.
//!
//! A client belongs to one set of credentials. What Google limits per account is therefore shared by the machines that use
//! it: after a refusal for too many calls, all of them wait.

pub(crate) mod accounts;
mod fault;
mod throttle;
mod token;

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::sync::Semaphore;

pub(crate) use fault::{Fault, kind_of_code};

use throttle::Throttle;
use token::Login;

/// Requests under way at once.
const CONCURRENT: usize = 8;
/// Attempts at a request whose answer got lost or that Google could not serve. Every request here may be repeated: reads,
/// and writes that carry a request id or set a state.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// A page of a few hundred instances has about 2 MB.
const LARGEST_ANSWER: usize = 64 << 20;

pub(crate) struct Client {
    http: reqwest::Client,
    login: Login,
    /// `https://compute.googleapis.com/compute/v1/`.
    base: String,
    /// The project of the credentials.
    pub(crate) project: String,
    throttle: Throttle,
    places: Semaphore,
}

impl Client {
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Fault> {
        self.call(Method::GET, path, query, None).await
    }

    pub(crate) async fn post(&self, path: &str, query: &[(&str, &str)], body: Option<&Value>) -> Result<Value, Fault> {
        self.call(Method::POST, path, query, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Fault> {
        self.call(Method::DELETE, path, &[], None).await
    }

    /// Something that may not be there.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Fault> {
        match self.get(path, &[]).await {
            Err(fault) if fault.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// The members of a list, page by page.
    pub(crate) async fn list(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<Value>, Fault> {
        let mut items = Vec::new();
        let mut token = String::new();
        loop {
            let mut query = query.to_vec();
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let page = self.get(path, &query).await?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
            match page["nextPageToken"].as_str().filter(|next| !next.is_empty() && *next != token) {
                Some(next) => token = next.to_owned(),
                None => return Ok(items),
            }
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, Fault> {
        let _place = self.places.acquire().await.map_err(|_| Fault::Unreachable("the client is closed".to_owned()))?;
        let mut attempt = 1;
        loop {
            self.throttle.admit()?;
            let fault = match self.send(&method, path, query, body).await {
                Ok(answer) => {
                    self.throttle.calm();
                    return Ok(answer);
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

    async fn send(
        &self,
        method: &Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, Fault> {
        let token = self.login.token(&self.http).await?;
        let mut request =
            self.http.request(method.clone(), format!("{}{path}", self.base)).query(query).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| Fault::Unreachable(words(error)))?;
        let status = response.status().as_u16();
        let text = read(response).await.map_err(Fault::Unreachable)?;
        fault::read(status, &text)
    }
}

/// The text of an answer of bearable size.
async fn read(mut response: reqwest::Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(words)? {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(format!("the answer is larger than {LARGEST_ANSWER} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| "the answer is not text".to_owned())
}

/// An error with its causes, in one line and without the address.
fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
