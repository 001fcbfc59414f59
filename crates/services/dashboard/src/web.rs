//! Pages and the stream of changes, for browsers that were let in.
//!
//! Everything is rendered here and works without script; the script only keeps it live. Whatever comes from the cluster is
//! text: it is escaped where it is written, and the content policy lets no script run but our own.

mod assets;
mod compare;
mod config;
mod doctor;
mod filter;
mod fleet;
mod frame;
mod login;
mod machines;
mod node;
mod plan;
mod rollout;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use futures::stream::{self, Stream};
use kube::Client;
use tokio::sync::broadcast::error::RecvError;

use crate::Entry;
use crate::access::{Keys, RIGHTS, Visitor};
use crate::configs::Configs;
use crate::live::Live;
use crate::rights::Rights;
use crate::scene::Scene;
use filter::Filter;
use login::Visit;

/// Everything that a page is made from.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) live: Live,
    pub(crate) keys: Keys,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    pub(crate) entry: Entry,
    pub(crate) configs: Configs,
    /// Plans that are made at once: each reads the whole cluster.
    planning: Arc<tokio::sync::Semaphore>,
    /// Places of those that are made or waited for.
    queue: Arc<tokio::sync::Semaphore>,
    events: Arc<node::Recent>,
}

/// Who asks, and what they may see.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) rights: Rights,
    /// The name that the API knows a person by; nothing for whoever has the link.
    pub(crate) name: Option<String>,
}

impl State {
    pub(crate) fn new(live: Live, keys: Keys, client: Client, address: SocketAddr, entry: Entry) -> Self {
        let planning = Arc::new(tokio::sync::Semaphore::new(PLANS));
        let queue = Arc::new(tokio::sync::Semaphore::new(QUEUE));
        let (configs, events) = (Configs::default(), Arc::default());
        Self { live, keys, client, address, entry, configs, planning, queue, events }
    }
}

/// How soon a page asks again when its stream has ended.
const RETRY: std::time::Duration = std::time::Duration::from_millis(500);

/// Plans that are made at once: each holds every config and pod of the cluster.
const PLANS: usize = 1;

/// Plans that are made or waited for; more are refused, because each waits with its manifests in memory.
const QUEUE: usize = 8;

/// The largest text that a plan is made for, in bytes.
const MANIFEST: usize = 2 * 1024 * 1024;

/// The name of the session's cookie. Cookies know no ports, so it has ours in it.
fn cookie(address: SocketAddr) -> String {
    format!("machinist-dashboard-{}", address.port())
}

/// Only what we serve ourselves, and nobody may put us into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn router(state: State) -> Router {
    Router::new()
        .route("/", get(fleet_page))
        .route("/fleet.json", get(fleet_cells))
        .route("/node/{name}", get(node_page))
        .route("/node/{name}/sentence", get(node_sentence))
        .route("/rollout/{pool}", get(rollout_page))
        .route("/machines", get(machines_page))
        .route("/doctor", get(doctor_page))
        .route("/configs", get(configs_page))
        .route("/config/{name}", get(config_page))
        .route("/compare", get(compare_page))
        .route("/plan", get(plan_page).post(plan_answer))
        .route("/login", get(login_page).post(login))
        .route("/logout", post(logout))
        .route("/events", get(events))
        .route("/assets/{name}", get(asset))
        .fallback(async || problem(StatusCode::NOT_FOUND, "There is no such page. Begin at the fleet."))
        .layer(middleware::from_fn_with_state(state.clone(), admit))
        .with_state(state)
}

/// Lets known browsers in, exchanges a link for a session, and sends everybody else away with a sentence.
async fn admit(Shared(state): Shared<State>, mut request: Request, next: Next) -> Response {
    // A name that somebody else's DNS points at loopback would make their page ours.
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let path = request.uri().path();
    let mut answer = if !is_ours(&host, state.address) {
        problem(StatusCode::MISDIRECTED_REQUEST, "This dashboard is not called by that name. Use the printed address.")
    } else if request.method() == Method::POST && !is_from_here(request.headers(), &host) {
        problem(StatusCode::FORBIDDEN, "This was sent from a page that is not the dashboard's.")
    } else if path.starts_with("/assets/") || (path == "/login" && state.entry == Entry::Token) {
        next.run(request).await
    } else if let Some(link) = token(request.uri().query()).filter(|_| state.entry == Entry::Link) {
        match state.keys.exchange(&link) {
            Some(session) => {
                state.live.want(&Rights::all());
                welcome(&cookie(state.address), &session, "/")
            }
            None if visitor(&state, request.headers()).is_some() => Redirect::to("/").into_response(),
            None => {
                problem(StatusCode::FORBIDDEN, "That link was used already. Run machinist dashboard for a new one.")
            }
        }
    } else if let Some(visitor) = visitor(&state, request.headers()) {
        let rights = visitor.rights(&state.client, &state.live).await;
        state.live.want(&rights);
        let name = match &visitor {
            Visitor::Owner => None,
            Visitor::Person(known) => Some(known.person.name.clone()),
        };
        request.extensions_mut().insert(Guest { rights, name });
        next.run(request).await
    } else {
        let wanted = request.uri().path_and_query().map_or("/", |it| it.as_str());
        stranger(state.entry, request.method(), wanted)
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Whether a browser asked for the address we listen on, or for this machine by its usual name.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    // Browsers leave the usual port out.
    let host = if address.port() == 80 && !host.contains(':') { format!("{host}:80") } else { host.to_owned() };
    host == address.to_string() || host == format!("localhost:{}", address.port()) || !address.ip().is_loopback()
}

fn token(query: Option<&str>) -> Option<String> {
    let pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs.into_iter().find(|(key, _)| key == "token").map(|(_, value)| value.into_owned())
}

/// Tells an open page whose session has ended where a new one begins: by a link, or at the form for tokens.
const ENTRY: HeaderName = HeaderName::from_static("machinist-entry");

/// What somebody without a session is told.
fn stranger(entry: Entry, method: &Method, wanted: &str) -> Response {
    let word = match entry {
        Entry::Link => "link",
        Entry::Token => "token",
    };
    ([(ENTRY, word)], told(entry, method, wanted)).into_response()
}

fn told(entry: Entry, method: &Method, wanted: &str) -> Response {
    match entry {
        Entry::Link => {
            problem(StatusCode::FORBIDDEN, "Open the link that machinist dashboard printed; it lets this browser in.")
        }
        // The script looks by HEAD whether its session is still good.
        Entry::Token if method == Method::GET => {
            let page = frame::bare("Sign in", login::form(&Visit::to(wanted), None), None);
            (StatusCode::FORBIDDEN, Html(page.into_string())).into_response()
        }
        Entry::Token => problem(StatusCode::FORBIDDEN, "Sign in first."),
    }
}

/// Browsers say which page a form was sent from.
fn is_from_here(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(&HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    text(&header::ORIGIN).is_none_or(|origin| origin.split_once("://").is_some_and(|(_, from)| from == host))
}

fn session(state: &State, headers: &HeaderMap) -> Option<String> {
    let name = cookie(state.address);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

fn visitor(state: &State, headers: &HeaderMap) -> Option<Visitor> {
    state.keys.visitor(&session(state, headers)?)
}

/// A field of a form.
fn field(body: &[u8], name: &str) -> String {
    let mut pairs = url::form_urlencoded::parse(body);
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The link's secret leaves the address line, and the session stays where no script reads it.
fn welcome(name: &str, session: &str, next: &str) -> Response {
    let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict");
    // A redirect would be followed as part of the visit from another site, without the strict cookie.
    let page = frame::bare("Welcome", maud::html! { p { a href=(next) { "Go on" } } }, Some(next));
    ([(header::SET_COOKIE, cookie)], Html(page.into_string())).into_response()
}

fn problem(status: StatusCode, sentence: &str) -> Response {
    let page = frame::bare("Machinist", maud::html! { p { (sentence) } p { a href="/" { "Fleet" } } }, None);
    (status, Html(page.into_string())).into_response()
}

type Who = Extension<Guest>;

async fn fleet_page(Shared(state): Shared<State>, Extension(guest): Who, Query(filter): Query<Filter>) -> Response {
    let rollouts = |pool: &str| state.live.rollouts(&guest.rights, pool).unwrap_or_default();
    shown(&state, &guest, |scene| Some(fleet::page(scene, &filter, rollouts))).await
}

async fn fleet_cells(Shared(state): Shared<State>, Extension(guest): Who, Query(filter): Query<Filter>) -> Response {
    match state.live.scene(&guest.rights).await {
        Some(scene) => axum::Json(fleet::cells(&scene, &filter)).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn node_page(Shared(state): Shared<State>, Extension(guest): Who, Path(name): Path<String>) -> Response {
    let scene = state.live.scene(&guest.rights).await;
    if scene.is_some_and(|scene| !scene.snapshot.nodes.contains_key(&name)) {
        return problem(StatusCode::NOT_FOUND, "It is not there any more, or never was, or you may not list nodes.");
    }
    let about = node::about(&state, &guest, &name).await;
    let drift = node::drift(&state, &guest, &name).await;
    shown(&state, &guest, |scene| {
        let rollouts = state.live.rollouts(&guest.rights, scene.pool_of(&name));
        node::page(scene, &name, &rollouts, &about, &drift)
    })
    .await
}

/// One sentence about a node, for whoever points at its cell.
async fn node_sentence(Shared(state): Shared<State>, Extension(guest): Who, Path(name): Path<String>) -> Response {
    let scene = state.live.scene(&guest.rights).await;
    let node = scene.as_ref().and_then(|scene| scene.fleet.nodes.iter().find(|node| node.name == name));
    match node {
        Some(node) => format!("{}: {} {}", node.name, node.state, node.summary).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn rollout_page(Shared(state): Shared<State>, Extension(guest): Who, Path(pool): Path<String>) -> Response {
    let rollouts = state.live.rollouts(&guest.rights, &pool);
    let cause = match rollouts.as_ref().ok().and_then(|all| all.first()) {
        Some(newest) => rollout::cause(&state, &guest, newest).await,
        None => None,
    };
    shown(&state, &guest, |scene| rollout::page(scene, &pool, &rollouts, &cause)).await
}

async fn machines_page(Shared(state): Shared<State>, Extension(guest): Who) -> Response {
    shown(&state, &guest, |scene| Some(machines::page(scene))).await
}

async fn doctor_page(Shared(state): Shared<State>, Extension(guest): Who) -> Response {
    shown(&state, &guest, |scene| Some(doctor::page(scene))).await
}

async fn configs_page(Shared(state): Shared<State>, Extension(guest): Who) -> Response {
    shown(&state, &guest, |scene| Some(config::list(scene))).await
}

async fn config_page(
    Shared(state): Shared<State>,
    Extension(guest): Who,
    Path(name): Path<String>,
    Query(search): Query<config::Search>,
) -> Response {
    match config::read(&state, &guest, &name).await {
        Ok(read) => shown(&state, &guest, |scene| Some(config::page(scene, &name, &read, &search))).await,
        Err(refused) => refused,
    }
}

async fn compare_page(
    Shared(state): Shared<State>,
    Extension(guest): Who,
    Query(pair): Query<compare::Pair>,
) -> Response {
    let compared = compare::read(&state, &guest, &pair).await;
    shown(&state, &guest, |scene| Some(compare::page(scene, &pair, &compared))).await
}

async fn plan_page(Shared(state): Shared<State>, Extension(guest): Who) -> Response {
    shown(&state, &guest, |scene| Some(plan::page(scene, "", None))).await
}

/// What a manifest would do. Nothing is applied from here.
async fn plan_answer(Shared(state): Shared<State>, Extension(guest): Who, request: Request) -> Response {
    // Whoever waits holds a text, so the place in the queue comes before the text is read.
    let Ok(_place) = state.queue.try_acquire() else {
        return (
            [(header::RETRY_AFTER, "10")],
            problem(StatusCode::SERVICE_UNAVAILABLE, "Others are asking for plans. Go back and try again in a moment."),
        )
            .into_response();
    };
    let body = match axum::body::to_bytes(request.into_body(), MANIFEST).await {
        Ok(body) => body,
        Err(_) => {
            return problem(StatusCode::PAYLOAD_TOO_LARGE, "The manifests are larger than 2 MB. Plan fewer at once.");
        }
    };
    let text = field(&body, "manifest");
    drop(body);
    let answer = {
        let _turn = state.planning.acquire().await;
        crate::planning::plan(&state.client, &guest.rights, &text).await
    };
    shown(&state, &guest, |scene| Some(plan::page(scene, &text, Some(&answer)))).await
}

async fn login_page(Query(visit): Query<Visit>) -> Response {
    Html(frame::bare("Sign in", login::form(&visit, None), None).into_string()).into_response()
}

/// Takes a token once for a session. Only whose it is stays.
async fn login(Shared(state): Shared<State>, body: Bytes) -> Response {
    let visit = Visit::to(&field(&body, "next"));
    let refused = |status: StatusCode, why: &str| {
        let page = frame::bare("Sign in", login::form(&visit, Some(why)), None);
        (status, Html(page.into_string())).into_response()
    };
    let token = field(&body, "token");
    if token.trim().is_empty() {
        return refused(StatusCode::BAD_REQUEST, "There is no token in the form.");
    }
    match crate::access::review(&state.client, token.trim()).await {
        Ok(Some(person)) => welcome(&cookie(state.address), &state.keys.welcome(person), visit.next()),
        Ok(None) => refused(StatusCode::FORBIDDEN, "The cluster does not know this token, or it has expired."),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a token cannot be reviewed");
            refused(StatusCode::BAD_GATEWAY, "The cluster cannot be asked about the token now. Try again.")
        }
    }
}

async fn logout(Shared(state): Shared<State>, headers: HeaderMap) -> Response {
    if let Some(session) = session(&state, &headers) {
        state.keys.leave(&session);
    }
    let gone = format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie(state.address));
    ([(header::SET_COOKIE, gone)], Redirect::to("/")).into_response()
}

/// A page of the newest scene, or why there is none.
async fn shown(state: &State, guest: &Guest, page: impl FnOnce(&Scene) -> Option<maud::Markup>) -> Response {
    let Some(scene) = state.live.scene(&guest.rights).await else {
        let page = frame::bare("Machinist", maud::html! { p { "Reading the cluster…" } }, Some(""));
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], Html(page.into_string()))
            .into_response();
    };
    match page(&scene) {
        Some(page) => Html(frame::signed(page.into_string(), guest.name.as_deref())).into_response(),
        None => problem(StatusCode::NOT_FOUND, "It is not there any more, or never was."),
    }
}

/// Every change as it happens. A page that was too slow is told to fetch everything anew.
async fn events(
    Shared(state): Shared<State>,
    Extension(guest): Who,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // First the stream, then the version: a change in between is told twice rather than not at all. A view that was dropped in
    // between ends the stream, and the page asks again.
    let news = state.live.news(&guest.rights).unwrap_or_else(|| tokio::sync::broadcast::channel(1).1);
    let version = state.live.scene(&guest.rights).await.map_or(0, |scene| scene.version);
    let hello = Event::default().event("hello").retry(RETRY).data(version.to_string());
    let told = stream::unfold((news, Some(hello)), async |(mut news, hello)| {
        if let Some(hello) = hello {
            return Some((hello, (news, None)));
        }
        let event = match news.recv().await {
            Ok(text) => Event::default().event("scene").data(&*text),
            Err(RecvError::Lagged(_)) => Event::default().event("scene").data(r#"{"moved":true,"said":true}"#),
            Err(RecvError::Closed) => return None,
        };
        Some((event, (news, None)))
    });
    // A person's rights are asked about again whenever the stream is, so no stream is older than the answer.
    let end = async move {
        match guest.name {
            Some(_) => tokio::time::sleep(RIGHTS).await,
            None => std::future::pending().await,
        }
    };
    let told = futures::StreamExt::take_until(told, Box::pin(end));
    Sse::new(futures::StreamExt::map(told, Ok)).keep_alive(KeepAlive::default())
}

async fn asset(Path(name): Path<String>) -> Response {
    match assets::find(&name) {
        Some(asset) => {
            let forever = "public, max-age=31536000, immutable";
            ([(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, forever)], asset.text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
