//! What goes wrong between us and AWS, and what a machine's owner reads about it.

use std::time::Duration;

use axum::http::StatusCode;
use machine::provider::{Error, ErrorKind, Provider, Request, Secrets};
use serde_json::{Value, json};

use crate::edge::refusal;
use crate::world::{World, provider, secrets};

#[tokio::test]
async fn one_refusal_for_too_many_requests_rests_the_account_and_no_other() {
    let Some(world) = World::start("throttled").await else { return };
    let request = world.machine("one", &world.spec());
    world.edge.throttle(world.account());
    let error = lookup(&world, &request).await.unwrap_err();
    let ErrorKind::Throttled { retry_after: Some(rest) } = error.kind else { panic!("{error:?}") };
    assert!(rest.is_positive());
    let before = world.edge.count();
    let others = world.machine("two", &world.spec());
    assert!(matches!(lookup(&world, &others).await.unwrap_err().kind, ErrorKind::Throttled { .. }));
    assert_eq!(world.edge.count(), before, "no machine of the account asks while it rests");
    let other_account = Request { secrets: secrets("AKIAOTHER").into(), ..request.clone() };
    assert_eq!(lookup(&world, &other_account).await.unwrap(), 0);
    world.edge.relax();
    let rested = async {
        while lookup(&world, &request).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rested).await.expect("the rest ends");
}

/// How many instances are seen.
async fn lookup(world: &World, request: &Request) -> Result<usize, Error> {
    let answer = world.provider.instances(std::slice::from_ref(request)).await.pop().unwrap();
    answer.map(|instances| instances.len())
}

#[tokio::test]
async fn passing_failures_are_tried_again_at_once() {
    let Some(world) = World::start("passing").await else { return };
    world.edge.plan("DescribeInstances", refusal(500, "InternalError", "An internal error has occurred"));
    world.edge.plan("DescribeInstances", (StatusCode::BAD_GATEWAY, "<html>".to_owned()));
    assert_eq!(lookup(&world, &world.machine("one", &world.spec())).await.unwrap(), 0);
    assert_eq!(world.edge.arrived("DescribeInstances").len(), 3);
}

#[tokio::test]
async fn refusals_become_kinds_with_aws_s_words_and_the_id_of_the_request() {
    let Some(world) = World::start("refused").await else { return };
    let cases = [
        (500, "InsufficientInstanceCapacity", ErrorKind::NoCapacity),
        (400, "VcpuLimitExceeded", ErrorKind::Quota),
        (403, "UnauthorizedOperation", ErrorKind::Credentials),
        (400, "InsufficientFreeAddressesInSubnet", ErrorKind::NoCapacity),
        (400, "InvalidAMIID.NotFound", ErrorKind::NotFound),
        (400, "Unsupported", ErrorKind::InvalidSpec),
    ];
    for (status, code, kind) in cases {
        world.edge.plan("RunInstances", refusal(status, code, "Words of AWS."));
        let error = world.create(&world.machine("one", &world.spec())).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
        assert_eq!(error.message, format!("cannot launch an instance: {code}: Words of AWS."));
        assert!(error.request_id.is_some());
    }
}

#[tokio::test]
async fn what_the_spec_names_and_aws_does_not_know_is_named() {
    let Some(world) = World::start("unknown").await else { return };
    let filters = |value: &str| json!({"filters": [{"name": "tag:Name", "values": [value]}]});
    let cases = [
        (world.spec_with("subnet", filters("none")), "providerSpec.subnet"),
        (world.spec_with("securityGroups", json!([filters("none")])), "providerSpec.securityGroups"),
        (world.spec_with("ami", filters("none")), "providerSpec.ami.filters"),
        (world.spec_with("ami", json!({"id": "ami-00000000000000000"})), "InvalidAMIID.NotFound"),
    ];
    for (spec, words) in cases {
        let error = world.create(&world.machine("one", &spec)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_spec_that_cannot_be_read_or_launched_is_refused_before_anybody_is_asked() {
    let Some(world) = World::start("unreadable").await else { return };
    let mut nowhere = world.spec();
    nowhere["placement"] = json!({"availabilityZone": "us-east-1a"});
    let bad: [Value; 5] = [
        json!("text"),
        world.spec_with("instanceType", json!(["m5.large"])),
        world.spec_with("instanceType", json!("")),
        world.spec_with("marketType", json!("Cheap")),
        nowhere,
    ];
    let before = world.edge.count();
    for spec in bad {
        let error = world.create(&world.machine("one", &spec)).await.unwrap_err();
        assert!(error.is_final() && error.message.contains("providerSpec"), "{error}");
    }
    assert_eq!(world.edge.count(), before);
}

#[tokio::test]
async fn secrets_that_are_missing_or_wrong_are_named_by_field() {
    let Some(world) = World::start("secretless").await else { return };
    let good = world.machine("one", &world.spec());
    let cases = [
        (Secrets { credentials: None, ..world.secrets() }, ErrorKind::Credentials, "providerSpec.credentialsSecret"),
        (Secrets { user_data: None, ..world.secrets() }, ErrorKind::NotFound, "providerSpec.userDataSecret"),
        (
            Secrets { credentials: world.secrets().user_data, ..world.secrets() },
            ErrorKind::Credentials,
            "aws_secret_access_key",
        ),
    ];
    for (secrets, kind, words) in cases {
        let error = world.create(&Request { secrets: secrets.into(), ..good.clone() }).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn user_data_that_aws_would_not_take_is_refused() {
    let Some(world) = World::start("toolarge").await else { return };
    let mut secrets = world.secrets();
    secrets.user_data.as_mut().unwrap().0.insert("userData".to_owned(), vec![b'x'; 16 * 1024 + 1]);
    let request = Request { secrets: secrets.into(), ..world.machine("one", &world.spec()) };
    let error = world.create(&request).await.unwrap_err();
    assert!(error.is_final() && error.message.contains("16384"), "{error}");
}

#[tokio::test]
async fn an_endpoint_where_nobody_answers_is_unreachable_and_garbage_is_not_an_empty_list() {
    let Some(world) = World::start("nobody").await else { return };
    let request = world.machine("one", &world.spec());
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = provider(&format!("http://{}", closed.local_addr().unwrap()));
    drop(closed);
    let answer = tokio::time::timeout(Duration::from_secs(30), nobody.instances(std::slice::from_ref(&request)));
    let error = answer.await.unwrap().pop().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    world.edge.plan("DescribeInstances", (StatusCode::OK, "<html>a login page".to_owned()));
    let error = lookup(&world, &request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Other, "{error}");
}
