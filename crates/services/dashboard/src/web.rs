//! Pages and the stream of changes, for browsers that were let in.
//!
//! Everything is rendered here and works without script; the script only keeps it live. Whatever comes from the cluster is
//! text: it is escaped where it is written, and the content policy lets no script run but our own.

mod assets;
mod doctor;
mod filter;
mod fleet;
mod frame;
mod machines;
mod node;
mod rollout;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use futures::stream::{self, Stream};
use kube::Client;
use tokio::sync::broadcast::error::RecvError;

use crate::access::Keys;
use crate::live::Live;
use crate::scene::Scene;
use filter::Filter;

/// Everything that a page is made from.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) live: Live,
    pub(crate) keys: Keys,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    events: Arc<node::Recent>,
}

impl State {
    pub(crate) fn new(live: Live, keys: Keys, client: Client, address: SocketAddr) -> Self {
        Self { live, keys, client, address, events: Arc::default() }
    }
}

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
        .route("/events", get(events))
        .route("/assets/{name}", get(asset))
        .fallback(async || problem(StatusCode::NOT_FOUND, "There is no such page. Begin at the fleet."))
        .layer(middleware::from_fn_with_state(state.clone(), admit))
        .with_state(state)
}

/// Lets known browsers in, exchanges a link for a session, and sends everybody else away with a sentence.
async fn admit(Shared(state): Shared<State>, request: Request, next: Next) -> Response {
    // A name that somebody else's DNS points at loopback would make their page ours.
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut answer = if !is_ours(host, state.address) {
        problem(StatusCode::MISDIRECTED_REQUEST, "This dashboard is not called by that name. Use the printed address.")
    } else if let Some(link) = token(request.uri().query()) {
        match state.keys.exchange(&link) {
            Some(session) => {
                state.live.want();
                welcome(&cookie(state.address), &session)
            }
            None if is_known(&state, request.headers()) => Redirect::to("/").into_response(),
            None => {
                problem(StatusCode::FORBIDDEN, "That link was used already. Run machinist dashboard for a new one.")
            }
        }
    } else if is_known(&state, request.headers()) {
        state.live.want();
        next.run(request).await
    } else if request.uri().path().starts_with("/assets/") {
        next.run(request).await
    } else {
        problem(StatusCode::FORBIDDEN, "Open the link that machinist dashboard printed; it lets this browser in.")
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
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

fn is_known(state: &State, headers: &HeaderMap) -> bool {
    let name = cookie(state.address);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().any(|(key, value)| key == name && state.keys.knows(value))
}

/// The link's secret leaves the address line, and the session stays where no script reads it.
fn welcome(name: &str, session: &str) -> Response {
    let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict");
    // A redirect would be followed as part of the visit from another site, without the strict cookie.
    let page = frame::bare("Welcome", maud::html! { p { a href="/" { "Go to the fleet" } } }, Some("/"));
    ([(header::SET_COOKIE, cookie)], Html(page.into_string())).into_response()
}

fn problem(status: StatusCode, sentence: &str) -> Response {
    let page = frame::bare("Machinist", maud::html! { p { (sentence) } p { a href="/" { "Fleet" } } }, None);
    (status, Html(page.into_string())).into_response()
}

async fn fleet_page(Shared(state): Shared<State>, Query(filter): Query<Filter>) -> Response {
    shown(&state, |scene| Some(fleet::page(scene, &filter, &state.live)))
}

async fn fleet_cells(Shared(state): Shared<State>, Query(filter): Query<Filter>) -> Response {
    match state.live.scene() {
        Some(scene) => axum::Json(fleet::cells(&scene, &filter)).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn node_page(Shared(state): Shared<State>, Path(name): Path<String>) -> Response {
    let is_there = state.live.scene().is_some_and(|scene| scene.snapshot.nodes.contains_key(&name));
    let events = if is_there { node::events(&state, &name).await } else { Ok(Vec::new()) };
    shown(&state, |scene| node::page(scene, &name, &state.live, &events))
}

/// One sentence about a node, for whoever points at its cell.
async fn node_sentence(Shared(state): Shared<State>, Path(name): Path<String>) -> Response {
    let scene = state.live.scene();
    let node = scene.as_ref().and_then(|scene| scene.fleet.nodes.iter().find(|node| node.name == name));
    match node {
        Some(node) => format!("{}: {} {}", node.name, node.state, node.summary).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn rollout_page(Shared(state): Shared<State>, Path(pool): Path<String>) -> Response {
    shown(&state, |scene| rollout::page(scene, &pool, &state.live.rollouts(&pool)))
}

async fn machines_page(Shared(state): Shared<State>) -> Response {
    shown(&state, |scene| Some(machines::page(scene)))
}

async fn doctor_page(Shared(state): Shared<State>) -> Response {
    shown(&state, |scene| Some(doctor::page(scene)))
}

/// A page of the newest scene, or why there is none.
fn shown(state: &State, page: impl FnOnce(&Scene) -> Option<maud::Markup>) -> Response {
    let Some(scene) = state.live.scene() else {
        let page = frame::bare("Machinist", maud::html! { p { "Reading the cluster…" } }, Some(""));
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], Html(page.into_string()))
            .into_response();
    };
    match page(&scene) {
        Some(page) => Html(page.into_string()).into_response(),
        None => problem(StatusCode::NOT_FOUND, "It is not there any more, or never was."),
    }
}

/// Every change as it happens. A page that was too slow is told to fetch everything anew.
async fn events(Shared(state): Shared<State>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // First the stream, then the version: a change in between is told twice rather than not at all.
    let news = state.live.news();
    let version = state.live.scene().map_or(0, |scene| scene.version);
    let hello = Event::default().event("hello").data(version.to_string());
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
