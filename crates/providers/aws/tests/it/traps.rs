//! The traps that users of AWS report: creations whose answer was lost, repeated later or differently.

use machine::provider::{ErrorKind, Intent, Provider, Request, State};
use serde_json::json;

use crate::edge::refusal;
use crate::world::World;

#[tokio::test]
async fn a_creation_whose_answer_was_lost_makes_no_second_instance() {
    let Some(world) = World::start("lost").await else { return };
    let request = world.machine("one", &world.spec());
    let first = world.create(&request).await.unwrap();
    // The process died before it wrote anything down; another one repeats the call.
    let again = world.restarted().create(&request, request.intent.as_ref().unwrap()).await.unwrap();
    assert_eq!(again.provider_id, first.provider_id);
    assert_eq!(world.look(&request).await.len(), 1);
}

#[tokio::test]
async fn a_creation_that_changed_meanwhile_returns_the_first_instance() {
    let Some(world) = World::start("changed").await else { return };
    let request = world.machine("one", &world.spec());
    let first = world.create(&request).await.unwrap();
    let changed = Request { spec: world.spec_with("instanceType", json!("m5.xlarge")).into(), ..request };
    let again = world.create(&changed).await.unwrap();
    assert_eq!(again.provider_id, first.provider_id, "IdempotentParameterMismatch");
    assert_eq!(again.instance_type.as_deref(), Some("m5.large"));
    assert_eq!(world.look(&changed).await.len(), 1);
}

#[tokio::test]
async fn a_changed_creation_without_an_instance_is_tried_again_until_it_must_be_visible() {
    let Some(world) = World::start("invisible").await else { return };
    let mismatch = || refusal(400, "IdempotentParameterMismatch", "Arguments are inconsistent.");
    let request = world.machine("one", &world.spec());
    world.edge.plan("RunInstances", mismatch());
    let error = world.create(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Other, "the instance may not be visible yet");
    let old = Intent { recorded: jiff::Timestamp::UNIX_EPOCH, ..request.intent.clone().unwrap() };
    world.edge.plan("RunInstances", mismatch());
    let gone = world.provider.create(&request, &old).await.unwrap();
    assert!(matches!(gone.state, State::Failed(_)), "another attempt gets another token: {gone:?}");
}

#[tokio::test]
async fn a_token_whose_instance_was_terminated_is_used_up_and_the_next_attempt_succeeds() {
    let Some(world) = World::start("usedup").await else { return };
    let request = world.machine("one", &world.spec());
    let first = world.create(&request).await.unwrap();
    world.provider.delete(&request).await.unwrap();
    let again = world.create(&request).await.unwrap();
    let State::Failed(error) = &again.state else { panic!("IdempotentInstanceTerminated: {again:?}") };
    assert!(error.message.contains("IdempotentInstanceTerminated"), "{error}");
    assert_eq!(error.request_id.as_deref(), Some("11111111-2222-3333-4444-555555555555"));
    assert!(!error.is_final());
    let next = Intent { token: "token-usedup-2".to_owned(), attempt: 2, ..request.intent.clone().unwrap() };
    let second = world.provider.create(&request, &next).await.unwrap();
    assert_ne!(second.provider_id, first.provider_id);
    let seen = world.look(&Request { intent: Some(next), ..request }).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].provider_id, second.provider_id);
}
