//! Stands between the provider and vcsim: counts calls, and fails or loses answers on demand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};

/// A call as it arrived: the method of SOAP, or the path of REST.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) method: String,
    pub(crate) body: String,
}

pub(crate) struct Edge {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    vcsim: String,
    http: reqwest::Client,
    arrived: Mutex<Vec<Arrived>>,
    /// Answers for the next calls of a method.
    planned: Mutex<Vec<(String, StatusCode, String)>>,
    /// The number of the change whose answer is lost.
    broken: Mutex<Option<usize>>,
    changes: AtomicUsize,
}

/// Calls that change nothing that lasts.
const QUESTIONS: [&str; 9] = [
    "RetrieveServiceContent",
    "Login",
    "CreateContainerView",
    "DestroyView",
    "RetrievePropertiesEx",
    "ContinueRetrievePropertiesEx",
    "CancelTask",
    "/rest/com/vmware/cis/session",
    "Logout",
];

/// A fault in vCenter's form.
pub(crate) fn fault(name: &str, message: &str) -> String {
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body><soapenv:Fault>\
         <faultcode>ServerFaultCode</faultcode><faultstring>{message}</faultstring><detail>\
         <{name}Fault xmlns=\"urn:vim25\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"{name}\"/>\
         </detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>"
    )
}

impl Edge {
    pub(crate) async fn start(vcsim: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
        let shared = Arc::new(Shared {
            vcsim: format!("https://{vcsim}"),
            http,
            arrived: Mutex::default(),
            planned: Mutex::default(),
            broken: Mutex::default(),
            changes: AtomicUsize::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.shared.arrived.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.arrived().iter().filter(|arrived| arrived.method == method).count()
    }

    pub(crate) fn forget_calls(&self) {
        self.shared.arrived.lock().unwrap().clear();
    }

    /// Answers the next call of a method with this, before vcsim sees it.
    pub(crate) fn plan(&self, method: &str, status: u16, answer: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        self.shared.planned.lock().unwrap().push((method.to_owned(), status, answer.to_owned()));
    }

    /// Loses the answer to one of the changes that follow, which vcsim makes all the same.
    pub(crate) fn breaks(&self, broken: Option<usize>) {
        self.shared.changes.store(0, Ordering::SeqCst);
        *self.shared.broken.lock().unwrap() = broken;
    }

    /// Asks vcsim to hold clones, or to let them go.
    pub(crate) async fn hold_clones(&self, hold: bool) {
        let what = if hold { "hold" } else { "release" };
        let answer = self.shared.http.get(format!("{}/tests/{what}", self.shared.vcsim)).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// Waits until no clone is under way, so that nothing more can appear.
    pub(crate) async fn settle_clones(&self) {
        for _ in 0..500 {
            let url = format!("{}/tests/clones", self.shared.vcsim);
            if self.shared.http.get(url).send().await.unwrap().text().await.unwrap() == "0" {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("clones never ended");
    }

    /// Whether a file is in a datastore.
    pub(crate) async fn has_file(&self, datastore: &str, path: &str) -> bool {
        let url = format!("{}/folder/{path}?dcPath=DC0&dsName={datastore}", self.shared.vcsim);
        let user = (testkit::vcsim::USER, testkit::vcsim::PASSWORD);
        let answer = self.shared.http.get(url).basic_auth(user.0, Some(user.1)).send().await.unwrap();
        answer.status().is_success()
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, String) {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let name = if uri.path() == "/sdk" { soap_method(&text) } else { uri.path().to_owned() };
    shared.arrived.lock().unwrap().push(Arrived { method: name.clone(), body: text.clone() });
    if let Some((status, answer)) = shared.planned(&name) {
        return (status, HeaderMap::new(), answer);
    }
    let is_question = QUESTIONS.contains(&name.as_str());
    let number = if is_question { usize::MAX } else { shared.changes.fetch_add(1, Ordering::SeqCst) };
    let is_lost = *shared.broken.lock().unwrap() == Some(number);
    let answer = shared.forward(method, &uri, &headers, text).await;
    if is_lost { (StatusCode::BAD_GATEWAY, HeaderMap::new(), "lost".to_owned()) } else { answer }
}

fn soap_method(text: &str) -> String {
    let body = text.split_once("<soapenv:Body><").map(|(_, rest)| rest).unwrap_or_default();
    body.split([' ', '>']).next().unwrap_or_default().to_owned()
}

impl Shared {
    fn planned(&self, method: &str) -> Option<(StatusCode, String)> {
        let mut planned = self.planned.lock().unwrap();
        let at = planned.iter().position(|(name, ..)| name == method)?;
        let (_, status, answer) = planned.remove(at);
        Some((status, answer))
    }

    async fn forward(
        &self,
        method: Method,
        uri: &Uri,
        headers: &HeaderMap,
        text: String,
    ) -> (StatusCode, HeaderMap, String) {
        let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let mut request = self.http.request(method, format!("{}{path}", self.vcsim)).body(text);
        for name in ["authorization", "content-type", "cookie", "soapaction", "vmware-api-session-id"] {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.unwrap();
        let status = StatusCode::from_u16(response.status().as_u16()).unwrap();
        let mut kept = HeaderMap::new();
        if let Some(cookie) = response.headers().get("set-cookie") {
            kept.insert("set-cookie", cookie.clone());
        }
        (status, kept, response.text().await.unwrap())
    }
}
