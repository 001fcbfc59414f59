//! An imitation of OpenStack that is stricter than the services: unknown paths, queries and fields are refused, as are fields
//! that the microversion does not have. It keeps one project in memory, counts requests and fails on demand.

mod compute;
mod identity;
mod network;
mod storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) use identity::{APPLICATION_SECRET, PASSWORD};

pub(crate) const PROJECT: &str = "0123456789abcdef0123456789abcdef";
const REQUEST_ID: &str = "req-11111111-2222-3333-4444-555555555555";

/// A request as it arrived, without its prefix.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Value,
    headers: HeaderMap,
}

/// A status, a body, and how long to wait, if the cloud says so.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

pub(crate) type Result<T = Answer> = std::result::Result<T, Answer>;

pub(crate) fn answer(status: u16, body: &Value) -> Answer {
    Answer { status, body: body.to_string(), headers: Vec::new() }
}

/// An error as nova and cinder word it.
pub(crate) fn refusal(status: u16, title: &str, message: &str) -> Answer {
    answer(status, &json!({title: {"code": status, "message": message}}))
}

/// An error as neutron words it.
pub(crate) fn neutron(status: u16, kind: &str, message: &str) -> Answer {
    answer(status, &json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}))
}

/// The project.
#[derive(Default)]
pub(crate) struct Project {
    pub(crate) servers: Vec<Value>,
    pub(crate) groups: Vec<Value>,
    pub(crate) flavors: Vec<Value>,
    pub(crate) images: Vec<Value>,
    pub(crate) networks: Vec<Value>,
    pub(crate) subnets: Vec<Value>,
    pub(crate) security_groups: Vec<Value>,
    pub(crate) ports: Vec<Value>,
    pub(crate) trunks: Vec<Value>,
    pub(crate) floating: Vec<Value>,
    pub(crate) volumes: Vec<Value>,
    /// Most of a kind: `instances`, `ports`, `volumes`.
    pub(crate) quotas: BTreeMap<&'static str, usize>,
    pub(crate) has_trunks: bool,
    pub(crate) has_cinder: bool,
    /// The message of a fault that builds end with.
    pub(crate) fault: Option<String>,
    /// The newest microversion of nova.
    pub(crate) microversion: u32,
    /// Entries of a page.
    pub(crate) page: usize,
    /// How many tokens were given; only the last one is good.
    pub(crate) tokens: usize,
    pub(crate) arrived: Vec<Call>,
    planned: Vec<(Method, String, Answer)>,
    addresses: u32,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) project: Arc<Mutex<Project>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self::new(format!("http://{}", listener.local_addr().unwrap()));
        let router = fake.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub(crate) fn new(url: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut project =
            Project { has_trunks: true, has_cinder: true, microversion: 90, page: 1000, ..Project::default() };
        project.furnish();
        Self { url, project: Arc::new(Mutex::new(project)) }
    }

    pub(crate) fn router(&self) -> Router {
        Router::new().fallback(serve).with_state(self.clone())
    }

    /// Answers the next such request with this; it does nothing else.
    pub(crate) fn plan(&self, method: Method, path: &str, answer: Answer) {
        self.project.lock().planned.push((method, path.to_owned(), answer));
    }

    /// Requests so far, logins not among them.
    pub(crate) fn count(&self) -> usize {
        self.project.lock().arrived.iter().filter(|call| !call.path.starts_with("/identity")).count()
    }

    pub(crate) fn calls(&self, method: &Method, path: &str) -> Vec<Call> {
        let project = self.project.lock();
        project.arrived.iter().filter(|call| call.method == *method && call.path.contains(path)).cloned().collect()
    }

    /// Everything that was made for machines and is still there.
    pub(crate) fn left(&self) -> String {
        let project = self.project.lock();
        let kinds = [
            ("server", &project.servers),
            ("port", &project.ports),
            ("trunk", &project.trunks),
            ("volume", &project.volumes),
        ];
        let names = kinds.into_iter().flat_map(|(kind, items)| {
            items.iter().map(move |item| format!("{kind} {}", item["name"].as_str().unwrap_or_default()))
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

impl Project {
    /// What every test finds: a flavor, an image, a network with a subnet, and a security group.
    fn furnish(&mut self) {
        let id = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        self.flavors = vec![
            json!({"id": "1", "name": "m1.small", "vcpus": 1, "ram": 2048, "disk": 20}),
            json!({"id": "2", "name": "m1.large", "vcpus": 4, "ram": 8192, "disk": 80}),
        ];
        self.images = vec![json!({"id": id(1), "name": "base", "status": "active"})];
        self.networks = vec![json!({"id": id(2), "name": "nodes", "tags": ["of=nodes"], "project_id": PROJECT})];
        self.subnets = vec![json!({"id": id(3), "name": "nodes-v4", "tags": ["of=nodes", "v4"], "network_id": id(2),
            "project_id": PROJECT, "cidr": "10.0.0.0/24", "ip_version": 4})];
        self.security_groups = vec![
            json!({"id": id(4), "name": "default", "tags": [], "project_id": PROJECT}),
            json!({"id": id(5), "name": "worker", "tags": ["of=nodes"], "project_id": PROJECT}),
        ];
        self.floating = vec![json!({"id": id(6), "floating_ip_address": "203.0.113.7", "port_id": null})];
    }

    fn address(&mut self) -> String {
        self.addresses += 1;
        format!("10.0.0.{}", self.addresses + 9)
    }
}

async fn serve(
    State(fake): State<Fake>,
    method: Method,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let query = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap_or(json!("not JSON")) };
    let call = Call { method, path: uri.path().to_owned(), query, body, headers };
    let answer = respond(&fake, &call).unwrap_or_else(|refusal| refusal);
    let mut response = (StatusCode::from_u16(answer.status).unwrap(), answer.body).into_response();
    let headers = answer.headers.into_iter().chain([("x-openstack-request-id", REQUEST_ID.to_owned())]);
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

fn respond(fake: &Fake, call: &Call) -> Result {
    let mut project = fake.project.lock();
    project.arrived.push(call.clone());
    let at = project
        .planned
        .iter()
        .position(|(method, path, _)| *method == call.method && call.path.contains(path.as_str()));
    if let Some(at) = at {
        return Ok(project.planned.remove(at).2);
    }
    if call.body == json!("not JSON") {
        return Err(refusal(400, "badRequest", "Malformed request body"));
    }
    if let Some(path) = call.path.strip_prefix("/identity/v3") {
        return identity::respond(&mut project, &fake.url, call, path);
    }
    identity::check(&project, call)?;
    let volumes = format!("/volume/v3/{PROJECT}");
    if let Some(path) = call.path.strip_prefix("/compute/v2.1") {
        compute::respond(&mut project, call, path)
    } else if let Some(path) = call.path.strip_prefix("/network/v2.0") {
        network::respond(&mut project, call, path)
    } else if let Some(path) = call.path.strip_prefix("/image/v2") {
        storage::images(&project, call, path)
    } else if let Some(path) = call.path.strip_prefix(volumes.as_str()) {
        storage::volumes(&mut project, call, path)
    } else {
        Err(answer(404, &json!("404 Not Found")))
    }
}

/// The parts of a path.
pub(crate) fn parts(path: &str) -> Vec<&str> {
    path.trim_start_matches('/').split('/').collect()
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The fields of a body, which must be known and, as far as they are required, there.
pub(crate) fn fields<'a>(
    body: &'a Value,
    key: &str,
    required: &[&str],
    allowed: &[&str],
) -> Result<&'a serde_json::Map<String, Value>> {
    let bad = |words: String| refusal(400, "badRequest", &words);
    let fields = body[key].as_object().ok_or_else(|| bad(format!("Invalid input: '{key}' is a required property")))?;
    if let Some(field) =
        fields.keys().find(|field| !allowed.contains(&field.as_str()) && !required.contains(&field.as_str()))
    {
        return Err(bad(format!("Additional properties are not allowed ('{field}' was unexpected)")));
    }
    match required.iter().find(|field| fields.get(**field).is_none_or(Value::is_null)) {
        Some(field) => Err(bad(format!("'{field}' is a required property"))),
        None => Ok(fields),
    }
}

/// One page of a list: what the query asks for, by fields that may be asked for.
pub(crate) fn page(project: &Project, call: &Call, key: &str, items: &[Value], allowed: &[&str]) -> Result {
    let mut found: Vec<Value> = items.to_vec();
    for (name, _) in &call.query {
        if !allowed.contains(&name.as_str()) && !["limit", "marker", "fields"].contains(&name.as_str()) {
            return Err(refusal(400, "badRequest", &format!("Invalid query parameter: {name}")));
        }
    }
    let values = |name: &str| {
        call.query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    for name in allowed {
        let wanted = values(name);
        if !wanted.is_empty() {
            found.retain(|item| matches(item, name, &wanted));
        }
    }
    if let Some(marker) = values("marker").pop() {
        let Some(at) = found.iter().position(|item| item["id"] == marker.as_str()) else {
            return Err(refusal(400, "badRequest", &format!("marker [{marker}] not found")));
        };
        found.drain(..=at);
    }
    let asked = values("limit").pop().and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let size = project.page.min(asked);
    let has_more = found.len() > size;
    found.truncate(size);
    let mut body = json!({key: found});
    if has_more && key == "images" {
        body["next"] = json!("/v2/images?marker=x");
    } else if has_more {
        body[format!("{key}_links")] = json!([{"rel": "next", "href": "http://next"}]);
    }
    Ok(answer(200, &body))
}

fn matches(item: &Value, name: &str, wanted: &[String]) -> bool {
    let tags = |item: &Value| item["tags"].as_array().cloned().unwrap_or_default();
    let has = |tag: &str| tags(item).iter().any(|it| it == tag);
    let split = || wanted.iter().flat_map(|text| text.split(',')).collect::<Vec<_>>();
    match name {
        "tags" => split().iter().all(|tag| has(tag)),
        "tags-any" => split().iter().any(|tag| has(tag)),
        "not-tags" => !split().iter().all(|tag| has(tag)),
        "not-tags-any" => !split().iter().any(|tag| has(tag)),
        _ => {
            let value = item[name].as_str().map_or_else(|| item[name].to_string(), str::to_owned);
            wanted.iter().any(|text| text.strip_prefix("in:").unwrap_or(text) == value)
        }
    }
}

/// Refuses when a kind is at its quota.
pub(crate) fn is_full(project: &Project, kind: &'static str, used: usize) -> bool {
    project.quotas.get(kind).is_some_and(|most| used >= *most)
}
