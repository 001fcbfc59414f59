//! Compute Engine as far as machines need it. Operations end one look after they began; failures show only there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::description::Description;

static DESCRIPTION: LazyLock<Description> = LazyLock::new(Description::load);

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) url: String,
    shared: Arc<Mutex<Cloud>>,
}

#[derive(Default)]
struct Cloud {
    instances: BTreeMap<String, Value>,
    disks: BTreeMap<String, Value>,
    pools: BTreeMap<String, Vec<String>>,
    removed_pools: Vec<String>,
    operations: BTreeMap<String, Value>,
    /// Operations by the request id that they were asked for with.
    tokens: HashMap<String, String>,
    /// Ids of methods in the order of their calls, with the bodies.
    calls: Vec<(String, Value)>,
    /// What the description says against requests.
    faults: Vec<String>,
    /// The code that the next creation fails with, later.
    exhausted: Option<String>,
    /// The code that the next creation fails with after its instance was shown once.
    vanishing: Option<String>,
    /// Instances that are seen no more after the next look.
    doomed: Vec<String>,
    planned: Vec<(String, u16, Value)>,
    /// The next answer to a method is lost, though it was carried out.
    lost: Option<String>,
    /// Who asked for a token, each time.
    issuers: Vec<String>,
    /// Tokens of earlier generations do not count.
    generation: usize,
    /// Members of a page, if lists have pages.
    page: usize,
}

/// Accounts that get tokens.
const ACCOUNTS: [&str; 2] = ["a@example.org", "b@example.org"];

type Answer = (StatusCode, String);

fn refusal(status: u16, reason: &str, message: &str) -> (u16, Value) {
    (status, json!({"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}))
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::task::spawn_blocking(|| LazyLock::force(&DESCRIPTION)).await.unwrap();
        let shared = Arc::new(Mutex::new(Cloud::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    pub(crate) fn calls(&self, id: &str) -> Vec<Value> {
        let cloud = self.shared.lock().unwrap();
        cloud.calls.iter().filter(|(known, _)| known == id).map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.lock().unwrap().calls.len()
    }

    /// What the description says against the requests so far.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.shared.lock().unwrap().faults.clone()
    }

    /// The next creation is accepted, and fails in its operation.
    pub(crate) fn exhaust(&self, code: &str) {
        self.shared.lock().unwrap().exhausted = Some(code.to_owned());
    }

    /// The next creation is accepted and its instance appears, until Google finds no place for it.
    pub(crate) fn let_vanish(&self, code: &str) {
        self.shared.lock().unwrap().vanishing = Some(code.to_owned());
    }

    /// Pools are made when they are first asked for, unless they are told to be gone.
    pub(crate) fn remove_pool(&self, name: &str) {
        let mut cloud = self.shared.lock().unwrap();
        cloud.pools.remove(name);
        cloud.removed_pools.push(name.to_owned());
    }

    pub(crate) fn plan(&self, id: &str, status: u16, reason: &str) {
        let (status, answer) = refusal(status, reason, "words of Google");
        self.shared.lock().unwrap().planned.push((id.to_owned(), status, answer));
    }

    /// The next answer to a method is no object of Google's.
    pub(crate) fn plan_text(&self, id: &str, status: u16, text: &str) {
        self.shared.lock().unwrap().planned.push((id.to_owned(), status, json!(text)));
    }

    pub(crate) fn lose(&self, id: &str) {
        self.shared.lock().unwrap().lost = Some(id.to_owned());
    }

    pub(crate) fn left(&self) -> Vec<String> {
        let cloud = self.shared.lock().unwrap();
        cloud.instances.keys().chain(cloud.disks.keys()).cloned().collect()
    }

    pub(crate) fn pool(&self, name: &str) -> Vec<String> {
        self.shared.lock().unwrap().pools.entry(name.to_owned()).or_default().clone()
    }

    /// Who asked for tokens, in their order.
    pub(crate) fn issuers(&self) -> Vec<String> {
        self.shared.lock().unwrap().issuers.clone()
    }

    /// No token given so far counts any more.
    pub(crate) fn revoke(&self) {
        self.shared.lock().unwrap().generation += 1;
    }

    /// Lists have so many members a page.
    pub(crate) fn page(&self, members: usize) {
        self.shared.lock().unwrap().page = members;
    }

    /// Instances vanish, and leave their disks.
    pub(crate) fn strand(&self) {
        let mut cloud = self.shared.lock().unwrap();
        cloud.instances.clear();
        cloud.disks.values_mut().for_each(|disk| disk["users"] = json!([]));
    }

    pub(crate) fn instance(&self, name: &str) -> Value {
        let cloud = self.shared.lock().unwrap();
        cloud.instances.iter().find(|(path, _)| path.ends_with(&format!("/{name}"))).unwrap().1.clone()
    }
}

async fn serve(
    State(shared): State<Arc<Mutex<Cloud>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let mut cloud = shared.lock().unwrap();
    if uri.path() == "/token" {
        let form: HashMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
        let issuer = form.get("assertion").and_then(|jwt| issuer(jwt)).unwrap_or_default();
        let (status, answer) = if ACCOUNTS.contains(&issuer.as_str()) {
            cloud.issuers.push(issuer);
            (200, json!({"access_token": cloud.token(), "expires_in": 3600}))
        } else {
            (400, json!({"error": "invalid_grant"}))
        };
        return (StatusCode::from_u16(status).unwrap(), answer.to_string());
    }
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let query: Vec<(String, String)> =
        url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let path = uri.path().trim_start_matches("/compute/v1/").to_owned();
    let (status, answer) = if headers.get("authorization").is_none_or(|it| *it != format!("Bearer {}", cloud.token())) {
        refusal(401, "authError", "no token")
    } else {
        cloud.answer(method.as_str(), &path, &query, body)
    };
    (StatusCode::from_u16(status).unwrap(), answer.to_string())
}

/// Who signed a request for a token, if it looks like one.
fn issuer(jwt: &str) -> Option<String> {
    let [_, claims, _] = jwt.split('.').collect::<Vec<_>>()[..] else { return None };
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?["iss"].as_str().map(str::to_owned)
}

impl Cloud {
    fn token(&self) -> String {
        format!("a-token-that-nobody-may-print-{}", self.generation)
    }

    /// A list, or the page of it that is asked for.
    fn listed(&self, items: &[Value], query: &[(String, String)]) -> (u16, Value) {
        if self.page == 0 {
            return (200, json!({"items": items}));
        }
        let token = query.iter().find(|(name, _)| name == "pageToken").map_or("0", |(_, value)| value.as_str());
        let begin: usize = token.parse().unwrap();
        let end = (begin + self.page).min(items.len());
        let mut answer = json!({"items": items[begin..end]});
        if end < items.len() {
            answer["nextPageToken"] = json!(end.to_string());
        }
        (200, answer)
    }

    fn answer(&mut self, verb: &str, path: &str, query: &[(String, String)], body: Option<Value>) -> (u16, Value) {
        let id = match DESCRIPTION.check(verb, path, query, body.as_ref()) {
            Ok(id) => id,
            Err(fault) => {
                self.faults.push(fault.clone());
                return refusal(400, "invalid", &fault);
            }
        };
        let body = body.unwrap_or_default();
        self.calls.push((id.clone(), body.clone()));
        if let Some(at) = self.planned.iter().position(|(known, ..)| *known == id) {
            let (_, status, answer) = self.planned.remove(at);
            return (status, answer);
        }
        let answer = self.carry_out(&id, path, query, &body);
        if self.lost.take_if(|lost| *lost == id).is_some() {
            return (502, Value::Null);
        }
        answer
    }

    fn carry_out(&mut self, id: &str, path: &str, query: &[(String, String)], body: &Value) -> (u16, Value) {
        let missing = || refusal(404, "notFound", &format!("{path} was not found"));
        if self.removed_pools.iter().any(|pool| path.split('/').any(|part| part == pool)) {
            return missing();
        }
        match id {
            "compute.instances.list" => {
                let items = self.moved(path);
                self.listed(&items, query)
            }
            "compute.instances.get" => {
                let found = self.instances.get(path).map_or_else(missing, |it| (200, it.clone()));
                if found.1["status"] == "STOPPING" {
                    self.moved(path);
                }
                found
            }
            "compute.instances.insert" => self.insert(path, query, body),
            "compute.instances.delete" => match self.instances.get_mut(path) {
                Some(instance) => {
                    instance["status"] = json!("STOPPING");
                    (200, self.operation(path, None))
                }
                None => missing(),
            },
            "compute.instances.stop" | "compute.instances.start" => {
                let path = path.rsplit_once('/').unwrap().0;
                let status = if id.ends_with("stop") { "TERMINATED" } else { "RUNNING" };
                match self.instances.get_mut(path) {
                    Some(instance) => instance["status"] = json!(status),
                    None => return missing(),
                }
                (200, self.operation(path, None))
            }
            "compute.disks.list" => {
                let items: Vec<Value> = self.disks.values().cloned().collect();
                self.listed(&items, query)
            }
            "compute.disks.get" => self.disks.get(path).map_or_else(missing, |it| (200, it.clone())),
            "compute.disks.delete" => match self.disks.remove(path) {
                Some(_) => (200, self.operation(path, None)),
                None => missing(),
            },
            "compute.zoneOperations.get" => {
                let Some(operation) = self.operations.get_mut(path.rsplit('/').next().unwrap()) else {
                    return missing();
                };
                let shown = operation.clone();
                operation["status"] = json!("DONE");
                if let Some(code) = shown["fails"].as_str() {
                    operation["error"] = json!({"errors": [{"code": code, "message": "words of Google"}]});
                }
                (200, shown)
            }
            "compute.zoneOperations.list" => (200, json!({"items": self.operations.values().collect::<Vec<_>>()})),
            "compute.targetPools.get" => {
                let members = self.pools.entry(path.rsplit('/').next().unwrap().to_owned()).or_default();
                (200, json!({"instances": members}))
            }
            "compute.targetPools.addInstance" | "compute.targetPools.removeInstance" => {
                let pool = path.split('/').nth_back(1).unwrap().to_owned();
                let member =
                    format!("https://example.org/compute/v1/{}", body["instances"][0]["instance"].as_str().unwrap());
                let members = self.pools.entry(pool).or_default();
                members.retain(|known| *known != member);
                if id.ends_with("addInstance") {
                    members.push(member);
                }
                (200, self.operation(path, None))
            }
            "compute.machineTypes.get" => (200, json!({"guestCpus": 4, "memoryMb": 15360})),
            _ => refusal(501, "notImplemented", id),
        }
    }

    /// The instances of a zone. Each look moves them on: from provisioning to running, from stopping to gone.
    fn moved(&mut self, path: &str) -> Vec<Value> {
        let shown: Vec<Value> =
            self.instances.iter().filter(|(known, _)| known.starts_with(path)).map(|(_, it)| it.clone()).collect();
        let gone: Vec<String> =
            self.instances.iter().filter(|(_, it)| it["status"] == "STOPPING").map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.forget(path));
        for path in std::mem::take(&mut self.doomed) {
            self.forget(&path);
        }
        for instance in self.instances.values_mut().filter(|it| it["status"] == "PROVISIONING") {
            instance["status"] = json!("RUNNING");
        }
        shown
    }

    fn forget(&mut self, path: &str) {
        self.instances.remove(path);
        let name = path.rsplit('/').next().unwrap();
        self.disks.retain(|_, disk| disk["users"][0] != json!(name));
    }

    fn insert(&mut self, path: &str, query: &[(String, String)], body: &Value) -> (u16, Value) {
        let token =
            query.iter().find(|(name, _)| name == "requestId").map(|(_, value)| value.clone()).unwrap_or_default();
        if let Some(known) = self.tokens.get(&token) {
            return (200, self.operations[known].clone());
        }
        let name = body["name"].as_str().unwrap();
        let key = format!("{path}/{name}");
        if self.instances.contains_key(&key) {
            return refusal(409, "alreadyExists", &format!("{key} already exists"));
        }
        let (fails, vanishes) = (self.exhausted.take(), self.vanishing.take());
        let operation = self.operation(&key, fails.as_deref().or(vanishes.as_deref()));
        self.tokens.insert(token, operation["name"].as_str().unwrap().to_owned());
        if fails.is_some() {
            return (200, operation);
        }
        self.doomed.extend(vanishes.map(|_| key.clone()));
        let mut instance = body.clone();
        instance["status"] = json!("PROVISIONING");
        instance["creationTimestamp"] = json!("2026-01-01T00:00:00.000-08:00");
        instance["networkInterfaces"][0]["networkIP"] = json!("10.0.0.2");
        for disk in body["disks"].as_array().unwrap() {
            let params = &disk["initializeParams"];
            let zone = path.strip_suffix("/instances").unwrap();
            let disk_path = format!("{zone}/disks/{}", params["diskName"].as_str().unwrap());
            self.disks
                .insert(disk_path, json!({"name": params["diskName"], "labels": params["labels"], "users": [name]}));
        }
        self.instances.insert(key, instance);
        (200, operation)
    }

    fn operation(&mut self, target: &str, fails: Option<&str>) -> Value {
        let name = format!("operation-{}", self.operations.len());
        let mut operation = json!({"name": name, "status": "RUNNING", "targetLink": target});
        if let Some(code) = fails {
            operation["fails"] = json!(code);
        }
        self.operations.insert(name, operation.clone());
        operation
    }
}
