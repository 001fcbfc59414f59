//! The `Provider`: puts the port's calls to the socket.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Marked, PowerWish, Provider, Request, Search, Secrets,
    SpecRules,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::client::Settings;
use crate::convert;
use crate::rules::Described;
use crate::wire;

/// How long a description counts: a provider that was replaced is asked again.
const FRESH: Duration = Duration::from_secs(60);

/// A provider behind a socket.
pub struct External {
    settings: Settings,
    described: Described,
    /// When the description was given.
    since: Mutex<Option<Instant>>,
}

impl External {
    /// A provider that is asked when it is needed: it need not be there yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, described: Described(std::sync::Arc::default()), since: Mutex::default() }
    }

    /// Asks the provider who it is, unless it has said so lately.
    pub async fn describe(&self) -> Result<(), Error> {
        if self.since.lock().is_some_and(|since| since.elapsed() < FRESH) {
            return Ok(());
        }
        let description: wire::Description = self.settings.call("describe", &wire::Nothing {}).await?;
        if description.version != wire::VERSION {
            let what = format!("it speaks version {}, and this is version {}", description.version, wire::VERSION);
            return Err(self.settings.fault(ErrorKind::Other, "describe", &what));
        }
        let before = self.described.0.write().replace(std::sync::Arc::new(description.clone()));
        if before.is_none_or(|before| *before != description) {
            tracing::info!(provider = description.name, socket = %self.settings.socket.display(), "described itself");
        }
        *self.since.lock() = Some(Instant::now());
        Ok(())
    }

    /// One call. What the provider says in an error is shown without the secrets that it was given.
    async fn ask<A: DeserializeOwned>(
        &self,
        call: &str,
        question: &impl Serialize,
        secrets: &Secrets,
    ) -> Result<A, Error> {
        self.describe().await.map_err(|error| without(error, &Secrets::default()))?;
        self.settings.call(call, question).await.map_err(|error| without(error, secrets))
    }

    fn believed<T>(&self, call: &str, answer: Result<T, String>) -> Result<T, Error> {
        answer.map_err(|what| self.settings.fault(ErrorKind::Other, call, &format!("its answer cannot be: {what}")))
    }

    async fn found(&self, requests: &[Request]) -> Result<Vec<Result<Vec<Instance>, Error>>, Error> {
        self.describe().await?;
        let question = wire::Instances { requests: requests.iter().map(convert::request).collect() };
        let wire::Found { answers } = self.settings.call("instances", &question).await?;
        if answers.len() != requests.len() {
            let what = format!("{} requests got {} answers", requests.len(), answers.len());
            return self.believed("instances", Err(what));
        }
        let sighting = |answer: Value| {
            if let Ok(wire::Failed { error }) = wire::Failed::deserialize(&answer) {
                return Err(convert::error(error));
            }
            let known = serde_json::from_value(answer).map_err(|error| error.to_string());
            let instances = known.and_then(|wire::Known { instances }| {
                instances.into_iter().map(convert::instance).collect::<Result<Vec<_>, _>>()
            });
            self.believed("instances", instances)
        };
        Ok(answers
            .into_iter()
            .zip(requests)
            .map(|(answer, request)| sighting(answer).map_err(|error| without(error, &request.secrets)))
            .collect())
    }

    async fn one(&self, call: &str, question: &impl Serialize, secrets: &Secrets) -> Result<Instance, Error> {
        let wire::One { instance } = self.ask(call, question, secrets).await?;
        let instance = self.believed(call, convert::instance(instance))?;
        Ok(instance)
    }
}

impl Provider for External {
    fn name(&self) -> &'static str {
        "external"
    }

    fn rules(&self) -> &dyn SpecRules {
        &self.described
    }

    fn settling_time(&self) -> SignedDuration {
        let seconds = self.described.get().map_or(0, |described| described.settling_seconds);
        SignedDuration::from_secs(seconds.into())
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        Box::pin(async move {
            let found = self.found(requests).await;
            found.unwrap_or_else(|error| requests.iter().map(|_| Err(error.clone())).collect())
        })
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        let question = wire::Create {
            request: convert::request(request),
            intent: convert::intent(intent),
            user_data: convert::user_data(request),
        };
        Box::pin(async move { self.one("create", &question, &request.secrets).await })
    }

    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        let question = wire::Update { request: convert::request(request), instance: convert::wire_instance(instance) };
        Box::pin(async move { self.one("update", &question, &request.secrets).await })
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        let question = wire::Ask { request: convert::request(request) };
        Box::pin(async move { self.ask("delete", &question, &request.secrets).await.map(convert::deletion) })
    }

    fn switch_power<'a>(&'a self, request: &'a Request, wish: PowerWish) -> BoxFuture<'a, Result<(), Error>> {
        let question = wire::Switch { request: convert::request(request), wish: convert::wish(wish) };
        Box::pin(async move { self.ask::<wire::Nothing>("power", &question, &request.secrets).await.map(drop) })
    }

    fn can_switch_power(&self) -> bool {
        self.described.get().is_some_and(|described| described.can_switch_power)
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        let question = wire::Seek { search: convert::search(search) };
        Box::pin(async move {
            let wire::Listed { marked } = self.ask("marked", &question, &search.secrets).await?;
            self.believed("marked", marked.into_iter().map(convert::marked).collect())
        })
    }

    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        let question = wire::Remove { search: convert::search(search), marked: convert::wire_marked(orphan) };
        Box::pin(async move { self.ask("remove", &question, &search.secrets).await.map(convert::deletion) })
    }

    fn capacity<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Option<Capacity>, Error>> {
        let question = wire::Ask { request: convert::request(request) };
        Box::pin(async move {
            let wire::Offer { capacity } = self.ask("capacity", &question, &request.secrets).await?;
            Ok(capacity.map(convert::capacity))
        })
    }
}

/// Takes secrets out of an error, as they are and as they crossed the wire: a careless provider may quote what it was given.
/// Short values occur in harmless sentences.
fn without(mut error: Error, secrets: &Secrets) -> Error {
    let known = [&secrets.credentials, &secrets.user_data].into_iter().flatten();
    let values = known.clone().flat_map(|data| data.0.values()).filter_map(|value| std::str::from_utf8(value).ok());
    for value in values.map(str::trim).filter(|value| value.len() >= 8) {
        error.message = error.message.replace(value, "[secret]");
    }
    for value in known.flat_map(|data| data.0.values()).filter(|value| value.len() >= 8) {
        error.message = error.message.replace(&STANDARD.encode(value), "[secret]");
    }
    error.message = convert::plain(&error.message);
    error
}
