//! What goes wrong between us and Google, and what a machine's owner reads about it.

use std::sync::Arc;
use std::time::Duration;

use gcp::{Gcp, Settings};
use machine::provider::{Error, ErrorKind, Provider, Request, Secrets};
use serde_json::json;
use tokio::net::TcpListener;

use crate::world::{World, service_account};

/// How many instances are seen.
async fn lookup(provider: &Gcp, request: &Request) -> Result<usize, Error> {
    let answer = provider.instances(std::slice::from_ref(request)).await.pop().unwrap();
    answer.map(|instances| instances.len())
}

fn provider_at(endpoint: &str) -> Gcp {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Gcp::new(Settings { endpoint: endpoint.to_owned(), patience: Duration::ZERO, ..Settings::default() }).unwrap()
}

#[tokio::test]
async fn passing_failures_are_tried_again_at_once_and_lasting_ones_are_told() {
    let Some(world) = World::start("passing").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.plan("compute.instances.list", 500, "internalError");
    world.fake.plan_text("compute.instances.list", 502, "<html>Bad Gateway");
    assert_eq!(lookup(&world.provider, &request).await, Ok(0));
    assert_eq!(world.fake.calls("compute.instances.list").len(), 3);
    for _ in 0..3 {
        world.fake.plan("compute.instances.list", 503, "backendError");
    }
    let error = lookup(&world.provider, &request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("words of Google"), "{error}");
}

#[tokio::test]
async fn garbage_is_not_an_empty_list() {
    let Some(world) = World::start("garbage").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.plan_text("compute.instances.list", 200, "<html>a login page");
    let error = lookup(&world.provider, &request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Other, "{error}");
    // Nor is it an instance that is gone: nobody lets a machine go for it.
    world.fake.plan_text("compute.instances.get", 404, "<html>Not Found");
    assert!(world.provider.delete(&request).await.is_err());
}

#[tokio::test]
async fn an_address_where_nobody_answers_is_unreachable() {
    let Some(world) = World::start("nobody").await else { return };
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let error = lookup(&provider_at(&endpoint), &world.machine("m", &world.spec())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

/// The clock stands still and jumps to the next timer, so that nobody waits for the client's patience.
#[tokio::test(start_paused = true)]
async fn somebody_who_listens_and_never_answers_is_unreachable() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let Some(secrets) = service_account("a@example.org", &url) else { return };
    let request = Request { secrets: Arc::new(secrets), ..World::request("slow-m", &World::plain_spec()) };
    let error = lookup(&provider_at(&url), &request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_named() {
    let Some(world) = World::start("unsigned").await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The client turns away; there is nothing to say.
            let _ = acceptor.accept(stream).await;
        }
    });
    let error = lookup(&provider_at(&endpoint), &world.machine("m", &world.spec())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.to_lowercase().contains("certificate"), "{error}");
}

#[tokio::test]
async fn one_refusal_for_too_many_requests_rests_the_account_and_no_other() {
    let Some(world) = World::start("throttled").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.plan("compute.instances.list", 403, "rateLimitExceeded");
    let error = lookup(&world.provider, &request).await.unwrap_err();
    let ErrorKind::Throttled { retry_after: Some(rest) } = error.kind else { panic!("{error:?}") };
    assert!(rest.is_positive() && rest.as_secs() < 20, "{rest:?}");
    let before = world.fake.count();
    assert!(lookup(&world.provider, &world.machine("other", &world.spec())).await.is_err());
    assert_eq!(world.fake.count(), before, "no machine of the account asks while it rests");
    let other = service_account("b@example.org", &world.fake.url).unwrap();
    let other_account = Request { secrets: Arc::new(other), ..request.clone() };
    assert_eq!(lookup(&world.provider, &other_account).await, Ok(0));
    let rested = async {
        while lookup(&world.provider, &request).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rested).await.expect("the rest ends");
}

#[tokio::test]
async fn credentials_that_are_missing_or_wrong_are_named_and_not_told() {
    let Some(world) = World::start("secretless").await else { return };
    let good = world.machine("m", &world.spec());
    let stranger = service_account("nobody@example.org", &world.fake.url).unwrap();
    let cases = [
        (Secrets { credentials: None, ..world.secrets() }, "providerSpec.credentialsSecret"),
        (Secrets { credentials: world.secrets().user_data, ..world.secrets() }, "service_account.json"),
        (stranger, "invalid_grant"),
    ];
    for (secrets, words) in cases {
        let error = world.create(&Request { secrets: Arc::new(secrets), ..good.clone() }).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credentials, "{error}");
        assert!(error.message.contains(words) && !error.message.contains("PRIVATE KEY"), "{error}");
    }
    assert_eq!(world.fake.count(), 0);
    let missing = Request { secrets: Arc::new(Secrets { user_data: None, ..world.secrets() }), ..good };
    assert_eq!(world.create(&missing).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn credentials_are_rotated_without_a_restart() {
    let Some(world) = World::start("rotated").await else { return };
    let request = world.machine("m", &world.spec());
    assert_eq!(lookup(&world.provider, &request).await, Ok(0));
    assert_eq!(world.fake.issuers(), ["a@example.org"]);
    let rotated = service_account("b@example.org", &world.fake.url).unwrap();
    let rotated = Request { secrets: Arc::new(rotated), ..request };
    assert_eq!(lookup(&world.provider, &rotated).await, Ok(0));
    assert_eq!(lookup(&world.provider, &rotated).await, Ok(0));
    assert_eq!(world.fake.issuers(), ["a@example.org", "b@example.org"], "the new key logs in, and once");
    world.fake.revoke();
    assert_eq!(lookup(&world.provider, &rotated).await, Ok(0), "a token that counts no more is replaced");
    assert_eq!(world.fake.issuers().len(), 3);
}

#[tokio::test]
async fn one_machine_s_credentials_are_not_another_s_trouble() {
    let Some(world) = World::start("apart").await else { return };
    let good = world.machine("good", &world.spec());
    world.create(&good).await.unwrap();
    let wrong = service_account("nobody@example.org", &world.fake.url).unwrap();
    let bad = Request { secrets: Arc::new(wrong), ..world.machine("bad", &world.spec()) };
    let nowhere = world.machine("nowhere", &world.spec_with("zone", json!("../../elsewhere")));
    let answers = world.provider.instances(&[bad, good, nowhere]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind, ErrorKind::Credentials);
    assert_eq!(answers[1].as_ref().unwrap().len(), 1);
    assert_eq!(answers[2].as_ref().unwrap_err().kind, ErrorKind::InvalidSpec);
}
