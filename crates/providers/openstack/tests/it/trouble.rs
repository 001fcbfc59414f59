//! What goes wrong between us and a cloud, and what a machine's owner reads about it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use machine::provider::{ErrorKind, Request, Secrets};
use serde_json::json;

use crate::fake::{APPLICATION_SECRET, Answer, Fake, PASSWORD, neutron, refusal};
use crate::world::{World, password, secrets, spec};

fn plain(status: u16, body: &str) -> Answer {
    Answer { status, body: body.to_owned(), headers: Vec::new() }
}

#[tokio::test]
async fn one_refusal_for_too_many_requests_rests_the_account_and_no_other() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    world.looked(&request).await.unwrap();
    let mut answer = plain(429, "");
    answer.headers.push(("retry-after", "2".to_owned()));
    world.fake.plan(Method::GET, "/servers/detail", answer);
    let error = world.looked(&request).await.unwrap_err();
    let ErrorKind::Throttled { retry_after: Some(rest) } = error.kind else { panic!("{error:?}") };
    assert!(rest.as_secs() >= 1, "{rest:?}");
    let before = world.fake.count();
    let others = world.machine("m-2", &spec(json!({})));
    assert!(matches!(world.looked(&others).await.unwrap_err().kind, ErrorKind::Throttled { .. }));
    assert_eq!(world.fake.count(), before, "no machine of the account asks while it rests");
    let rested = async {
        while world.looked(&request).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rested).await.expect("the rest ends");
}

#[tokio::test]
async fn passing_failures_of_reads_are_tried_again_at_once() {
    let world = World::start().await;
    world.fake.plan(Method::GET, "/servers/detail", refusal(500, "computeFault", "Unexpected API Error."));
    world.fake.plan(Method::GET, "/servers/detail", plain(502, "<html>"));
    assert!(world.looked(&world.machine("m-1", &spec(json!({})))).await.unwrap().is_empty());
    assert_eq!(world.fake.calls(&Method::GET, "/servers/detail").len(), 3);
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    world.run(&request).await;
    world.fake.project.lock().tokens += 1;
    assert_eq!(world.look(&request).await.len(), 1);
    world.fake.project.lock().tokens += 1;
    world.delete(&request).await;
}

#[tokio::test]
async fn refusals_of_neutron_become_kinds_with_its_words_and_the_id_of_the_request() {
    let world = World::start().await;
    let cases = [
        (
            neutron(409, "IpAddressGenerationFailure", "No more IP addresses available on network n."),
            ErrorKind::NoCapacity,
        ),
        (neutron(409, "OverQuota", "Quota exceeded for resources: ['port']."), ErrorKind::Quota),
        (
            neutron(403, "PolicyNotAuthorized", "(rule:create_port:binding:profile) is disallowed by policy"),
            ErrorKind::Credentials,
        ),
        (neutron(400, "InvalidInput", "Invalid input for operation."), ErrorKind::InvalidSpec),
    ];
    for (answer, kind) in cases {
        world.fake.plan(Method::POST, "/ports", answer);
        let error = world.create(&world.machine("m-1", &spec(json!({})))).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.starts_with("cannot create port m-1-0: ") && error.request_id.is_some(), "{error:?}");
        world.assert_empty("after the refusal");
    }
}

#[tokio::test]
async fn what_the_spec_names_and_the_cloud_does_not_know_is_named_before_anything_is_made() {
    let world = World::start().await;
    let cases = [
        (json!({"flavor": "none"}), "providerSpec.flavor: there is no flavor \"none\""),
        (json!({"image": "none"}), "providerSpec.image: there is no active image \"none\""),
        (json!({"networks": [{"filter": {"name": "none"}}]}), "providerSpec.networks[0].filter: no network matches"),
        (
            json!({"networks": [{"subnets": [{"filter": {"tags": "of=nodes,v6"}}]}]}),
            "providerSpec.networks[0].subnets[0]: no subnet matches",
        ),
        (json!({"securityGroups": [{"name": "none"}]}), "providerSpec.securityGroups[0]: no security group matches"),
    ];
    for (more, words) in cases {
        let error = world.create(&world.machine("m-1", &spec(more))).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::NotFound, words));
    }
    let twin = json!({"id": "00000000-0000-4000-8000-000000000099", "name": "nodes", "tags": []});
    world.fake.project.lock().networks.push(twin);
    let several =
        world.create(&world.machine("m-1", &spec(json!({"networks": [{"filter": {"name": "nodes"}}]})))).await;
    assert!(several.unwrap_err().message.contains("several match"));
    for more in [json!({"rootVolume": {"diskSize": 1, "volumeType": "none"}}), json!({"availabilityZone": "nowhere"})] {
        let error = world.create(&world.machine("m-1", &spec(more))).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
    world.assert_empty("after the refusals");
}

#[tokio::test]
async fn credentials_that_are_missing_or_wrong_are_named_and_not_told() {
    let world = World::start().await;
    let good = world.machine("m-1", &spec(json!({})));
    let url = &world.fake.url;
    let cases = [
        (Secrets { credentials: None, ..world.secrets() }, "it does not exist"),
        (Secrets { credentials: world.secrets().user_data, ..world.secrets() }, "it has no text under clouds.yaml"),
        (secrets("clouds: {other: {}}", None), "it has no cloud \"openstack\""),
        (secrets(&password(url).replace(PASSWORD, "wrong"), None), "requires authentication"),
        (secrets(&password(url), Some("no certificate")), "cacert"),
        (secrets(&password(url).replace("region_name: one", "interface: public"), None), "regions"),
    ];
    for (secrets, words) in cases {
        let error = world.create(&Request { secrets: secrets.into(), ..good.clone() }).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credentials, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(!error.message.contains(PASSWORD) && !error.message.contains(APPLICATION_SECRET), "{error}");
    }
    let elsewhere = secrets(&password(url).replace("region_name: one", "region_name: three"), None);
    let error = world.create(&Request { secrets: elsewhere.into(), ..good }).await.unwrap_err();
    assert!(error.message.contains("in region \"three\""), "{error}");
}

#[tokio::test]
async fn user_data_that_cannot_work_is_refused_before_anybody_is_asked() {
    let world = World::start().await;
    let good = world.machine("m-1", &spec(json!({})));
    let with = |entries: &[(&str, &[u8])]| {
        let mut secrets = world.secrets();
        secrets
            .user_data
            .as_mut()
            .unwrap()
            .0
            .extend(entries.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())));
        Request { secrets: Arc::new(secrets), ..good.clone() }
    };
    let large = vec![b'x'; 50_000];
    type Entries<'a> = &'a [(&'a str, &'a [u8])];
    let cases: [(Entries, &str); 3] = [
        (&[("userData", &large)], "50000 bytes"),
        (&[("postprocessor", b"ct")], "postprocessor"),
        (&[("userData", b"{{ .Machine.Name }}")], "disableTemplating"),
    ];
    for (entries, words) in cases {
        let error = world.create(&with(entries)).await.unwrap_err();
        assert!(error.is_final() && error.message.contains(words), "{error}");
    }
    let missing = Request { secrets: Arc::new(Secrets { user_data: None, ..world.secrets() }), ..good.clone() };
    assert_eq!(world.create(&missing).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(world.fake.count(), 0);
    let literal = with(&[("userData", b"{{ kept }}"), ("disableTemplating", b"true")]);
    assert!(world.create(&literal).await.is_ok());
}

#[tokio::test]
async fn nobody_who_answers_is_unreachable() {
    let world = World::start().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let request = Request { secrets: secrets(&password(&url), None).into(), ..world.machine("m-1", &spec(json!({}))) };
    let error = world.looked(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_certificate_is_believed_if_the_secret_has_its_authority() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fake = Fake::new(format!("https://localhost:{}", listener.local_addr().unwrap().port()));
    let authority = serve_tls(listener, fake.router());
    let world = World { fake, provider: openstack::OpenStack::new(openstack::Settings::default()) };
    let request = world.machine("m-1", &spec(json!({})));
    let with = |clouds: &str, authority| Request { secrets: secrets(clouds, authority).into(), ..request.clone() };
    let clouds = password(&world.fake.url);
    let error = world.looked(&with(&clouds, None)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.to_lowercase().contains("certificate"), "{error}");
    assert!(world.looked(&with(&clouds, Some(&authority))).await.unwrap().is_empty());
    let careless = clouds.replace("region_name: one", "region_name: one, verify: false");
    assert!(world.looked(&with(&careless, None)).await.unwrap().is_empty());
}

/// Serves over TLS; the answer is the authority that signed the certificate.
fn serve_tls(listener: tokio::net::TcpListener, router: axum::Router) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let leaf =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into());
    let config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(axum::serve(Tls { listener, acceptor }, router).into_future());
    authority.pem()
}

struct Tls {
    listener: tokio::net::TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
