//! Stands between the provider and moto: honours client tokens as AWS does, counts requests, and fails on demand.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Arrived {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn access_key(&self) -> &str {
        let authorization = self.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let credential = authorization.split_once("Credential=").map(|(_, rest)| rest).unwrap_or_default();
        credential.split('/').next().unwrap_or_default()
    }
}

pub(crate) struct Edge {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    moto: String,
    http: reqwest::Client,
    state: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    arrived: Vec<Arrived>,
    /// Answers for the next requests of an action, whoever sends them.
    planned: Vec<(String, Answer)>,
    /// Access keys that AWS finds too eager.
    throttled: HashSet<String>,
    launches: HashMap<String, Launched>,
}

type Answer = (StatusCode, String);

/// What a client token stands for.
struct Launched {
    fields: Vec<(String, String)>,
    answer: String,
    instance: String,
    is_terminated: bool,
}

/// An error in EC2's form.
pub(crate) fn refusal(status: u16, code: &str, message: &str) -> (StatusCode, String) {
    let text = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>\
         <RequestID>11111111-2222-3333-4444-555555555555</RequestID></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), text)
}

impl Edge {
    pub(crate) async fn start(moto: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shared = Arc::new(Shared { moto: moto.to_owned(), http: reqwest::Client::new(), state: Mutex::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// Requests of an action that arrived so far.
    pub(crate) fn arrived(&self, action: &str) -> Vec<Arrived> {
        let state = self.shared.state.lock().unwrap();
        state.arrived.iter().filter(|arrived| arrived.action == action).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.state.lock().unwrap().arrived.len()
    }

    /// Answers the next request of an action with this, before anybody else sees it.
    pub(crate) fn plan(&self, action: &str, answer: (StatusCode, String)) {
        self.shared.state.lock().unwrap().planned.push((action.to_owned(), answer));
    }

    pub(crate) fn throttle(&self, access_key: &str) {
        self.shared.state.lock().unwrap().throttled.insert(access_key.to_owned());
    }

    pub(crate) fn relax(&self) {
        self.shared.state.lock().unwrap().throttled.clear();
    }
}

async fn serve(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Answer {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let action = fields.iter().find(|(key, _)| key == "Action").map(|(_, value)| value.clone()).unwrap_or_default();
    let arrived = Arrived { action, fields, headers, body };
    if let Some(answer) = shared.state.lock().unwrap().decide(&arrived) {
        return answer;
    }
    let answer = shared.forward(&arrived).await;
    shared.state.lock().unwrap().learn(&arrived, &answer);
    answer
}

impl Shared {
    async fn forward(&self, arrived: &Arrived) -> Answer {
        let mut request = self.http.post(format!("{}/", self.moto)).body(arrived.body.clone());
        // The service and the region stand in the signature.
        for name in ["authorization", "content-type", "x-amz-date"] {
            if let Some(value) = arrived.headers.get(name) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.unwrap();
        let status = StatusCode::from_u16(response.status().as_u16()).unwrap();
        (status, response.text().await.unwrap())
    }
}

impl Record {
    /// An answer that needs no moto.
    fn decide(&mut self, arrived: &Arrived) -> Option<Answer> {
        self.arrived.push(arrived.clone());
        if self.throttled.contains(arrived.access_key()) {
            return Some(refusal(503, "RequestLimitExceeded", "Request limit exceeded."));
        }
        if let Some(at) = self.planned.iter().position(|(action, _)| *action == arrived.action) {
            return Some(self.planned.remove(at).1);
        }
        if arrived.action != "RunInstances" {
            return None;
        }
        let launched = self.launches.get(arrived.field("ClientToken")?)?;
        if launched.fields != arrived.fields {
            let words =
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
            return Some(refusal(400, "IdempotentParameterMismatch", words));
        }
        if launched.is_terminated {
            let words = "The request to launch the instance is idempotent, but the instance has been terminated.";
            return Some(refusal(400, "IdempotentInstanceTerminated", words));
        }
        Some((StatusCode::OK, launched.answer.clone()))
    }

    fn learn(&mut self, arrived: &Arrived, (status, text): &Answer) {
        if !status.is_success() {
            return;
        }
        if arrived.action == "RunInstances"
            && let Some(token) = arrived.field("ClientToken")
        {
            let instance =
                text.split("<instanceId>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
            let launched = Launched {
                fields: arrived.fields.clone(),
                answer: text.clone(),
                instance: instance.to_owned(),
                is_terminated: false,
            };
            self.launches.insert(token.to_owned(), launched);
        }
        if arrived.action == "TerminateInstances" {
            let ended: Vec<_> = arrived.fields.iter().map(|(_, value)| value.as_str()).collect();
            for launched in self.launches.values_mut().filter(|launched| ended.contains(&launched.instance.as_str())) {
                launched.is_terminated = true;
            }
        }
    }
}
