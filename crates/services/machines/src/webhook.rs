//! Admission of Machines, MachineSets and MachineHealthChecks over HTTPS: what is filled in, refused or warned of.
//!
//! Every process serves, whether it leads or not: a request must not depend on an election. What an answer is made of is
//! decided in [`review`]; here requests are read, and Machines are watched to know who holds an instance. Nothing is
//! written.

mod review;
mod surroundings;
mod tls;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::machine::Machine;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path as UrlPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use cluster::rights::{Role, WATCH, right};
use cluster::{Store, Watch};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use machine::provider::{Provider, Surroundings};
use review::{Around, Holder};
use serde_json::Value;
use surroundings::Outlook;
pub use tls::Tls;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What admission reads besides what the controllers do.
pub const ROLE: Role = Role {
    name: "webhook",
    everywhere: &[
        right(api::machine::GROUP, "machines", WATCH),
        // The cluster's name in its cloud, and its region; which gates are on, and whether its DNS is public.
        right("config.openshift.io", "infrastructures", &["get"]),
        right("config.openshift.io", "featuregates", &["get"]),
        right("config.openshift.io", "dnses", &["get"]),
        // The architecture of the control plane.
        right("", "nodes", &["list"]),
        // Whether those that a spec names exist.
        right("", "secrets", &["get"]),
    ],
    at_home: &[],
};

/// The rights of a process that also admits.
pub fn with_roles() -> Vec<Role> {
    let mut roles = crate::ROLES.to_vec();
    roles.push(ROLE);
    roles
}

/// A review holds an object before and after, and an object may have a megabyte and a half.
const BODY_LIMIT: usize = 4 << 20;
/// Requests that are read and answered at once. Any pod may connect, so this bounds the memory that strangers can take.
const REQUESTS: usize = 32;
/// API servers wait no longer than this for an answer, so nobody needs longer to ask.
const REQUEST: Duration = Duration::from_secs(10);
/// How long one connection may stay, so that silent ones give their places back. API servers connect anew.
const VISIT: Duration = Duration::from_secs(120);
/// The API server keeps a few connections open; more than this is somebody else.
const CONNECTIONS: usize = 256;
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves for ever.
pub async fn serve(listener: TcpListener, tls: &Tls, client: Client, provider: Arc<dyn Provider>) {
    let mut tasks = JoinSet::new();
    let watch = Watch::default();
    let court = Arc::new(Court { provider, machines: watch.store(), outlook: Outlook::new(client.clone()) });
    let config = watcher::Config::default().any_semantic().page_size(500);
    tasks.spawn(watch.run(Api::<Machine>::all(client), config, |machine| machine.spec.provider_id));
    let router = bounded(Router::new().route("/{path}", post(answer)).with_state(court));
    let acceptor = TlsAcceptor::from(Arc::new(tls::config(tls)));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        tasks.spawn(async move {
            let _place = place;
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
            let builder = Builder::new(TokioExecutor::new());
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            if tokio::time::timeout(VISIT, connection.as_mut()).await.is_err() {
                // What was asked already is still answered.
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(REQUEST, connection).await;
            }
        });
        while tasks.try_join_next().is_some() {}
    }
}

/// Bounds what requests may hold: their number, their size and their time.
fn bounded(router: Router) -> Router {
    let places = Arc::new(Semaphore::new(REQUESTS));
    let in_time = async |State(places): State<Arc<Semaphore>>, request: Request, next: Next| {
        let answered = tokio::time::timeout(REQUEST, async {
            let _place = places.acquire().await;
            next.run(request).await
        });
        answered.await.unwrap_or_else(|_| {
            (StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time, or too many came at once").into_response()
        })
    };
    router.layer(DefaultBodyLimit::max(BODY_LIMIT)).layer(middleware::from_fn_with_state(places, in_time))
}

/// What answers are made from.
struct Court {
    provider: Arc<dyn Provider>,
    /// The instance that each Machine holds.
    machines: Store<Option<String>>,
    outlook: Outlook,
}

async fn answer(State(court): State<Arc<Court>>, UrlPath(path): UrlPath<String>, body: Bytes) -> Response {
    let review: Value = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("not an AdmissionReview: {error}")).into_response(),
    };
    let (secrets, known) = tokio::join!(court.secrets(&path, &review["request"]), court.outlook.now());
    let surroundings = Surroundings { secrets, ..known };
    let around =
        Around { rules: court.provider.rules(), surroundings: &surroundings, holder: &|id, own| court.holder(id, own) };
    match review::answer(&path, &review["request"], &around) {
        Some(answer) => Json(answer.response(&review["request"]["uid"])).into_response(),
        None => (StatusCode::NOT_FOUND, format!("nothing is reviewed at /{path}")).into_response(),
    }
}

impl Court {
    /// The Machine, other than `own`, that holds an instance.
    fn holder(&self, id: &str, own: &str) -> Holder {
        if let Err(unread) = self.machines.contact().fresh("machines", Timestamp::now()) {
            return Holder::Unknown(unread.to_string());
        }
        let named = self.machines.keys().into_iter().filter(|key| format!("{}/{}", key.namespace, key.name) != own);
        let mut holders = named.filter(|key| self.machines.get(key).is_some_and(|held| held.as_deref() == Some(id)));
        holders.next().map_or(Holder::Nobody, |key| Holder::Machine(format!("{}/{}", key.namespace, key.name)))
    }

    /// Which of the Secrets that a spec names exist, where that is judged.
    async fn secrets(&self, path: &str, request: &Value) -> Option<BTreeSet<String>> {
        let spec = review::judged_spec(path, request)?;
        let needs = self.provider.rules().secrets(spec);
        self.outlook.secrets(request["namespace"].as_str()?, &needs).await
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reviews_that_never_arrive_end_and_the_next_one_is_answered() {
        let router = bounded(Router::new().route("/x", post(async |body: Bytes| body.len().to_string())));
        let ask = |body: Body| {
            let request = Request::post("/x").body(body).expect("it is a request");
            router.clone().oneshot(request)
        };
        let silent = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let strangers = futures::future::join_all((0..REQUESTS).map(|_| ask(silent())));
        let (strangers, late) = tokio::join!(strangers, async {
            tokio::time::sleep(REQUEST / 2).await;
            ask(Body::from("review")).await
        });
        for answer in strangers {
            assert_eq!(answer.expect("it never fails").status(), StatusCode::REQUEST_TIMEOUT);
        }
        assert_eq!(late.expect("it never fails").status(), StatusCode::OK, "it waits until places are free");
    }
}
