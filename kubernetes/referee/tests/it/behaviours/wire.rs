//! Plain HTTP to whichever server is being judged, with as little comfort as a test can do with.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use referee::ControlPlane;
use reqwest::{Client, Identity, Method};
use serde_json::{Value, json};

use crate::waiting::PATIENCE;
pub(crate) use crate::waiting::{Look, eventually};

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A server under judgement.
pub(crate) struct Server {
    control_plane: ControlPlane,
    base: String,
    /// Speaks with the administrator's token only where a request carries it.
    http: Client,
    counter: AtomicUsize,
}

impl Server {
    pub(crate) async fn new(control_plane: ControlPlane) -> Self {
        let base = control_plane.server().to_owned();
        Server { base, http: client(None), control_plane, counter: AtomicUsize::new(0) }
    }

    /// A client that presents the certificate of a kubeconfig.
    fn with_certificate(&self, kubeconfig: &std::path::Path) -> Result<Client> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let mut pem = field(&text, "client-certificate-data")?;
        pem.extend(field(&text, "client-key-data")?);
        Ok(client(Some(Identity::from_pem(&pem)?)))
    }
}

/// The bytes behind a name in a kubeconfig, be it YAML or JSON.
fn field(text: &str, name: &str) -> Result<Vec<u8>> {
    let (_, rest) = text.split_once(name).with_context(|| format!("no {name}"))?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let rest = rest.trim_start_matches(|c: char| !is_base64(c));
    let end = rest.find(|c: char| !is_base64(c)).unwrap_or(rest.len());
    decode_base64(&rest[..end])
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
}

pub(crate) fn encode_base64(data: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(data)
}

fn client(identity: Option<Identity>) -> Client {
    let mut builder = Client::builder().tls_danger_accept_invalid_certs(true).timeout(Duration::from_secs(60));
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().expect("a client can be built")
}

/// One behaviour's view of the server: its own namespace, and requests in somebody's name.
#[derive(Clone)]
pub(crate) struct Scope {
    server: Arc<Server>,
    http: Client,
    token: Option<String>,
    pub(crate) namespace: String,
}

/// What came back.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

impl Answer {
    /// The body of an answer with this code.
    pub(crate) fn expect(self, code: u16) -> Result<Value> {
        if self.code == code { Ok(self.body) } else { bail!("{code} expected: {self:?}") }
    }

    /// The message of a refusal with this code and reason.
    pub(crate) fn refused(self, code: u16, reason: &str) -> Result<String> {
        let seen = self.body["reason"].as_str().unwrap_or_default();
        if self.code != code || self.body["kind"] != "Status" || self.body["status"] != "Failure" || seen != reason {
            bail!("{code} {reason} expected: {self:?}");
        }
        if self.body["code"] != code {
            bail!("the Status has another code: {self:?}");
        }
        Ok(self.body["message"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Scope {
    /// Requests of the administrator, in a namespace that is there.
    pub(crate) fn of(server: Arc<Server>, namespace: String) -> Self {
        let token = Some(server.control_plane.token().to_owned());
        Scope { http: server.http.clone(), token, server, namespace }
    }

    pub(crate) async fn create(server: Arc<Server>, namespace: String) -> Result<Self> {
        let scope = Scope::of(server, namespace);
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scope.namespace}});
        scope.post("/api/v1/namespaces", &body).await?.expect(201).context("its namespace")?;
        Ok(scope)
    }

    /// Requests without any credential.
    pub(crate) fn anonymous(&self) -> Self {
        Scope { token: None, ..self.clone() }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Scope { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Requests with a client certificate of this user.
    pub(crate) fn as_user(&self, user: &str, group: Option<&str>) -> Result<Self> {
        let kubeconfig = self.server.control_plane.user_kubeconfig(user, group);
        Ok(Scope { http: self.server.with_certificate(&kubeconfig)?, token: None, ..self.clone() })
    }

    /// A name that nobody else on this server uses.
    pub(crate) fn unique(&self, word: &str) -> String {
        let number = self.server.counter.fetch_add(1, Ordering::Relaxed);
        format!("{word}-{}-{number}", self.namespace)
    }

    /// `/api/v1/namespaces/<own>/<rest>`.
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// `/apis/<group version>/namespaces/<own>/<rest>`.
    pub(crate) fn path(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.namespace)
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer> {
        let mut request = self.http.request(method, format!("{}{path}", self.server.base)).body(body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.with_context(|| path.to_owned())?;
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.with_context(|| path.to_owned())?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { code, headers, text, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Result<Answer> {
        self.send(Method::GET, path, &[("Accept", accept)], Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(Method::POST, path, &[("Content-Type", JSON)], body.to_string().into_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(Method::PUT, path, &[("Content-Type", JSON)], body.to_string().into_bytes()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, &[("Content-Type", kind)], body.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, &[], Vec::new()).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Result<Answer> {
        self.send(Method::DELETE, path, &[("Content-Type", JSON)], options.to_string().into_bytes()).await
    }

    /// How the server compresses this answer for a client that understands gzip.
    pub(crate) async fn compressed(&self, path: &str) -> Result<String> {
        let answer = self.http.get(format!("{}{path}", self.server.base)).header("Accept-Encoding", "gzip");
        let answer = answer.bearer_auth(self.token.clone().unwrap_or_default()).send().await?;
        let encoding = answer.headers().get("content-encoding").and_then(|value| value.to_str().ok());
        Ok(encoding.unwrap_or_default().to_owned())
    }

    /// A ConfigMap of this name with one entry, created in the own namespace.
    pub(crate) async fn config_map(&self, name: &str) -> Result<Value> {
        self.post(&self.core("configmaps"), &config_map(name)).await?.expect(201)
    }

    /// Asks again until the answer satisfies `is`; the behaviour fails with what was last seen.
    pub(crate) async fn until(&self, path: &str, what: &str, is: impl Fn(&Answer) -> bool) -> Result<Answer> {
        let what = format!("{path}: {what}");
        eventually(&what, || async {
            let answer = self.get(path).await?;
            Ok(if is(&answer) { Look::There(answer) } else { Look::NotYet(format!("{answer:?}")) })
        })
        .await
    }

    /// Opens a watch; its events are read one at a time.
    pub(crate) async fn watch(&self, path: &str) -> Result<Watch> {
        self.watch_as(path, JSON).await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch> {
        let mut request = self.http.get(format!("{}{path}", self.server.base)).header("Accept", accept);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        eventually(path, || async {
            let again = request.try_clone().with_context(|| path.to_owned())?;
            let response = again.send().await.with_context(|| path.to_owned())?;
            match response.status().as_u16() {
                200 => Ok(Look::There(Watch { stream: Box::pin(response.bytes_stream()), buffer: Vec::new() })),
                // The storage of a new kind is still being opened: come back, as every client does.
                429 => Ok(Look::NotYet(response.text().await?)),
                code => bail!("{path}: {code} {}", response.text().await?),
            }
        })
        .await
    }
}

/// A watch that is open.
pub(crate) struct Watch {
    stream: std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event, or `None` once the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match tokio::time::timeout(PATIENCE, self.stream.next()).await {
                Err(_) => bail!("no event within {PATIENCE:?}"),
                Ok(None) => return Ok(None),
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk?),
            }
        }
    }

    /// The next event's type and object.
    pub(crate) async fn event(&mut self) -> Result<(String, Value)> {
        let mut event = self.next().await?.context("the watch ended")?;
        Ok((event["type"].as_str().unwrap_or_default().to_owned(), event["object"].take()))
    }

    /// The next event must be of this type; returns its object.
    pub(crate) async fn expect(&mut self, kind: &str) -> Result<Value> {
        let (seen, object) = self.event().await?;
        if seen == kind { Ok(object) } else { bail!("{kind} expected, seen {seen}: {object}") }
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

pub(crate) fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
