//! The wire to vCenter: its SOAP interface, as far as machines need it, and the REST interface of tags.
//!
//! A client belongs to one vCenter and one set of credentials, and all machines that use it share its session. A session
//! that vCenter has ended is begun anew.

pub(crate) mod accounts;
mod fault;
mod http;
pub(crate) mod inventory;
pub(crate) mod property;
pub(crate) mod tags;
pub(crate) mod task;
mod tls;

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore};
use uuid::Uuid;

pub(crate) use fault::Fault;

use crate::xml::{Element, leaf, node};

/// Requests under way at once. vCenter answers them one after another anyway.
const CONCURRENT: usize = 8;

/// A managed object of vCenter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) value: String,
}

impl Reference {
    pub(crate) fn new(kind: &str, value: &str) -> Self {
        Self { kind: kind.to_owned(), value: value.to_owned() }
    }

    /// The object that an element names.
    pub(crate) fn of(element: &Element) -> Option<Self> {
        Some(Self::new(element.attribute("type")?, element.text())).filter(|it| !it.value.is_empty())
    }

    pub(crate) fn element(&self, name: &str) -> Element {
        leaf(name, &self.value).with("type", &self.kind)
    }
}

pub(crate) struct Client {
    http: reqwest::Client,
    /// `https://server`, without a path.
    url: String,
    user: String,
    password: String,
    session: Mutex<Option<Arc<Session>>>,
    rest: Mutex<Option<String>>,
    places: Semaphore,
}

/// What a login gives.
struct Session {
    cookie: String,
    content: Element,
}

impl Session {
    fn object(&self, name: &str) -> Result<Reference, Fault> {
        let found = self.content.at(&[name]).and_then(Reference::of);
        found.ok_or_else(|| Fault::Unreadable(format!("vCenter has no {name}; is it a vCenter?")))
    }
}

impl Client {
    /// Calls a method of an object.
    pub(crate) async fn call(&self, this: &Reference, method: &str, arguments: Vec<Element>) -> Result<Element, Fault> {
        self.call_in(method, |_| Ok((this.clone(), arguments.clone()))).await
    }

    /// Calls a method of one of vCenter's own objects, such as `propertyCollector`.
    pub(crate) async fn call_own(&self, own: &str, method: &str, arguments: Vec<Element>) -> Result<Element, Fault> {
        self.call_in(method, |session| Ok((session.object(own)?, arguments.clone()))).await
    }

    /// One of vCenter's own objects.
    pub(crate) async fn own(&self, own: &str) -> Result<Reference, Fault> {
        self.session().await?.object(own)
    }

    async fn call_in(
        &self,
        method: &str,
        call: impl Fn(&Session) -> Result<(Reference, Vec<Element>), Fault>,
    ) -> Result<Element, Fault> {
        let _place = self.places.acquire().await.map_err(|_| Fault::Unreachable("the client is closed".to_owned()))?;
        let session = self.session().await?;
        let (this, arguments) = call(&session)?;
        match self.exchange(&this, method, &arguments, Some(&session.cookie)).await {
            Err(fault) if fault.is_session_over() => {}
            answer => return answer.map(|(answer, _)| answer),
        }
        self.forget(&session).await;
        let session = self.session().await?;
        let (this, arguments) = call(&session)?;
        self.exchange(&this, method, &arguments, Some(&session.cookie)).await.map(|(answer, _)| answer)
    }

    async fn session(&self) -> Result<Arc<Session>, Fault> {
        let mut kept = self.session.lock().await;
        if let Some(session) = kept.as_ref() {
            return Ok(session.clone());
        }
        let instance = Reference::new("ServiceInstance", "ServiceInstance");
        let (answer, _) = self.exchange(&instance, "RetrieveServiceContent", &[], None).await?;
        let content = answer.at(&["returnval"]).cloned().unwrap_or_default();
        let manager = Session { cookie: String::new(), content: content.clone() }.object("sessionManager")?;
        let login = [leaf("userName", &self.user), leaf("password", &self.password)];
        let (_, cookie) = self.exchange(&manager, "Login", &login, None).await?;
        let cookie = cookie.ok_or_else(|| Fault::Unreadable("a login without a session".to_owned()))?;
        let session = Arc::new(Session { cookie, content });
        *kept = Some(session.clone());
        Ok(session)
    }

    /// Lets a session go, unless another task has begun a new one.
    async fn forget(&self, session: &Arc<Session>) {
        let mut kept = self.session.lock().await;
        if kept.as_ref().is_some_and(|other| Arc::ptr_eq(other, session)) {
            *kept = None;
        }
    }

    /// One request and its answer, with the session's cookie if vCenter gave one.
    async fn exchange(
        &self,
        this: &Reference,
        method: &str,
        arguments: &[Element],
        cookie: Option<&str>,
    ) -> Result<(Element, Option<String>), Fault> {
        // vCenter writes it into its logs, beside everything that the request caused.
        let operation = format!("machinist-{}", &Uuid::new_v4().simple().to_string()[..12]);
        let body = envelope(this, method, arguments, &operation);
        let mut request = self.http.post(format!("{}/sdk", self.url)).body(body);
        request = request.header("content-type", "text/xml; charset=utf-8").header("soapaction", "urn:vim25/6.5");
        if let Some(cookie) = cookie {
            request = request.header("cookie", cookie);
        }
        let response = request.send().await.map_err(|error| Fault::Unreachable(http::words(error)))?;
        let status = response.status().as_u16();
        let set = response.headers().get("set-cookie").and_then(|value| value.to_str().ok());
        let set = set.and_then(|text| text.split(';').next()).map(str::to_owned);
        let text = http::read(response).await.map_err(Fault::Unreachable)?;
        let answer = fault::read(status, &text, method, &operation)?;
        Ok((answer, set))
    }
}

fn envelope(this: &Reference, method: &str, arguments: &[Element], operation: &str) -> String {
    let call = std::iter::once(this.element("_this")).chain(arguments.iter().cloned());
    let call = node(method, call).with("xmlns", "urn:vim25");
    let header = node("soapenv:Header", [leaf("operationID", operation).with("xmlns", "urn:vim25")]);
    let envelope = node("soapenv:Envelope", [header, node("soapenv:Body", [call])])
        .with("xmlns:soapenv", "http://schemas.xmlsoap.org/soap/envelope/")
        .with("xmlns:xsd", "http://www.w3.org/2001/XMLSchema")
        .with("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance");
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{}", envelope.render())
}
