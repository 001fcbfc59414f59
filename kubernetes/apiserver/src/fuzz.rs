//! No request may make the server panic, answer nonsense, or change what it refused to change.
//!
//! Odd requests, the same ones on every run, go through the whole path that a connection uses. Runs with every
//! `cargo test`; `FUZZ_ROUNDS=200000 cargo test -p apiserver fuzz` looks longer.

#![allow(clippy::unwrap_used)]

mod bodies;
mod requests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::{
    auth::{Peer, User},
    housekeeping::Keeper,
    http::{Body, serve},
    object::Object,
    server::Api,
};

/// A small generator of numbers (SplitMix64), the same everywhere.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed << 20)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) >> 16).unwrap_or(0) % limit.max(1)
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// How many requests are tried.
fn rounds() -> u64 {
    std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6_000)
}

/// Messages of the real server that have no reason, and by their code look like its own fault.
const UNTYPED: [&str; 4] = [
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "failed to create typed patch object",
    "does not contain declared merge key",
];

#[tokio::test]
async fn odd_requests_are_answered_and_refusals_change_nothing() {
    let (_running, stopping) = tokio::sync::watch::channel(false);
    let (api, keeper) = crate::server::bare(stopping).await.unwrap();
    let mut scene = Scene { api, keeper, version: 0 };
    scene.settle("the start").await;
    for (path, body) in requests::first() {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let (code, text) = scene.ask(&admin(), request).await;
        assert_eq!(code, 201, "{path}: {text}");
        scene.settle(path).await;
    }
    let (mut good, mut asked) = (0, 0);
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let Some(odd) = requests::make(&mut random) else { continue };
        asked += 1;
        good += u64::from(scene.check(seed, odd).await);
        if seed % 500 == 0 {
            scene.is_well().await;
        }
    }
    scene.is_well().await;
    assert!(asked > rounds() / 2, "only {asked} requests could be sent at all");
    assert!(good > asked / 8, "only {good} of {asked} were granted: they are too wild to test much");
}

struct Scene {
    api: Arc<Api>,
    keeper: Keeper,
    /// The newest version that was seen.
    version: u64,
}

fn admin() -> Peer {
    Peer { certificate: Some(User::new("admin", &["system:masters"])) }
}

impl Scene {
    /// Sends one request and holds the answer against what every answer keeps to; says whether it was granted.
    async fn check(&mut self, seed: u64, odd: requests::Odd) -> bool {
        let what = format!("seed {seed}: {}", odd.shown());
        // The last words before what cannot be caught.
        let is_loud = std::env::var_os("FUZZ_LOUD").is_some();
        if is_loud {
            eprintln!("{what}");
        }
        let before = self.api.store.version();
        let harmless = matches!(odd.method, Method::GET | Method::HEAD) || odd.is_trial();
        let is_head = odd.method == Method::HEAD;
        let peer = odd.peer();
        let Some(request) = odd.request() else { return false };
        let start = Instant::now();
        let (code, text) = self.ask(&peer, request).await;
        let took = start.elapsed();
        if is_loud {
            eprintln!("answered in {took:?}: {code} {text:?}");
        }
        assert!(took < Duration::from_secs(10), "{what} took {took:?}");
        let after = self.api.store.version();
        if harmless || code >= 400 {
            assert_eq!(before, after, "{what}: {code} changed something: {text}");
        }
        assert!((200..600).contains(&code), "{what}: {code}");
        if code >= 400 && !is_head {
            check_refusal(&what, code, &text);
        }
        self.settle(&what).await;
        code < 400
    }

    async fn ask(&self, peer: &Peer, request: Request<Full<Bytes>>) -> (u16, String) {
        let peer = Arc::new(Peer { certificate: peer.certificate.clone() });
        let response = serve(Arc::clone(&self.api), peer, request).await;
        (response.status().as_u16(), read(response).await)
    }

    /// Lets the server do what follows from the last request; every object it keeps is whole.
    async fn settle(&mut self, what: &str) {
        let mut last = self.version;
        self.keeper
            .settle(&self.api, |change| {
                if let Some(object) = &change.current {
                    assert!(object.version > last, "{what}: {} after {last}", object.version);
                    last = object.version;
                    check_object(what, object);
                }
            })
            .await;
        self.version = last;
        assert!(self.api.store.version() >= last, "{what}");
    }

    /// Whoever asks a plain question gets its answer, whatever came before.
    async fn is_well(&self) {
        for path in
            ["/readyz", "/version", "/api/v1/namespaces/default", "/apis", "/openapi/v3", "/api/v1/pods?limit=3"]
        {
            let request = Request::get(path).body(Full::default()).unwrap();
            let (code, text) = self.ask(&admin(), request).await;
            assert_eq!(code, 200, "{path}: {text}");
        }
    }
}

/// A refusal is a Status that says why, except where nothing is served at all.
fn check_refusal(what: &str, code: u16, text: &str) {
    if matches!((code, text), (404, "404 page not found\n") | (503, "service unavailable\n")) {
        return;
    }
    let status: Value = serde_json::from_str(text).or_else(|_| serde_saphyr::from_str(text)).unwrap_or_default();
    assert_eq!((&status["kind"], &status["status"]), (&"Status".into(), &"Failure".into()), "{what}: {code} {text}");
    assert_eq!(status["code"], code, "{what}: {text}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{what}: {text}");
    let is_untyped = UNTYPED.iter().any(|known| message.contains(known));
    assert!(is_untyped || status["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{what}: {text}");
    assert!(is_untyped || code != 500, "{what}: {text}");
}

/// What is stored can be found by what it says of itself.
fn check_object(what: &str, object: &Object) {
    let value = object.value();
    let metadata = &value["metadata"];
    assert_eq!(metadata["name"], object.name(), "{what}: {value}");
    assert_eq!(metadata["namespace"].as_str().unwrap_or_default(), object.namespace(), "{what}: {value}");
    assert_eq!(metadata["resourceVersion"], object.version.to_string(), "{what}: {value}");
    assert!(metadata["uid"].as_str().is_some_and(|uid| !uid.is_empty()), "{what}: {value}");
    assert!(value["kind"].is_string() && value["apiVersion"].is_string(), "{what}: {value}");
}

/// The whole answer, or as much of one without an end as is there.
async fn read(response: Response<Body>) -> String {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
        if let Ok(data) = frame.into_data() {
            text.extend_from_slice(&data);
        }
        if text.len() > 1 << 22 {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
