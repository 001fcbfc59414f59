//! What a spec can make go wrong.

use std::sync::Arc;

use machine::provider::{Deletion, ErrorKind, Provider, State};
use memory::{Cloud, Memory};
use serde_json::json;

use crate::world::{Machines, create, look, request};

fn cloud() -> (Memory, Cloud, Machines) {
    let machines = Machines::default();
    let cloud = Cloud::new(Arc::new(machines.clone()));
    (Memory::new(cloud.clone()), cloud, machines)
}

#[tokio::test]
async fn creations_are_refused_with_the_kind_that_the_spec_names_as_often_as_it_says() {
    let (provider, cloud, _) = cloud();
    for kind in ["NotFound", "InvalidSpec", "NoCapacity", "Quota", "Throttled", "Credentials", "Unreachable", "Other"] {
        let request = request(&kind.to_lowercase(), json!({"faults": {"create": kind, "createTimes": 2}}));
        for _ in 0..2 {
            assert_eq!(create(&provider, &request).await.unwrap_err().kind.to_string(), kind);
        }
        assert!(look(&provider, &request).await.is_empty(), "{kind} made an instance");
        assert_eq!(create(&provider, &request).await.unwrap().state, State::Running);
    }
    assert_eq!(cloud.count(), 8);
    let never = request("never", json!({"faults": {"create": "NoCapacity"}}));
    for _ in 0..5 {
        assert_eq!(create(&provider, &never).await.unwrap_err().kind, ErrorKind::NoCapacity);
    }
}

#[tokio::test]
async fn an_instance_whose_answer_was_lost_is_there_and_the_next_call_finds_it() {
    let (provider, cloud, machines) = cloud();
    let request = request("lost", json!({"faults": {"loseAnswer": true}}));
    assert_eq!(create(&provider, &request).await.unwrap_err().kind, ErrorKind::Unreachable);
    let made = look(&provider, &request).await;
    assert_eq!(create(&provider, &request).await.unwrap().provider_id, made[0].provider_id);
    assert_eq!(cloud.count(), 1);
    machines.wait(&["lost"]).await;
}

#[tokio::test]
async fn a_machine_that_never_boots_runs_in_the_cloud_alone() {
    let (provider, cloud, machines) = cloud();
    let request = request("silent", json!({"faults": {"neverBoots": true}}));
    assert_eq!(create(&provider, &request).await.unwrap().state, State::Running);
    let other = crate::world::request("other", json!({}));
    create(&provider, &other).await.unwrap();
    machines.wait(&["other"]).await;
    assert_eq!(provider.delete(&request).await.unwrap(), Deletion::Gone);
    assert_eq!(cloud.count(), 1);
}

#[tokio::test]
async fn an_instance_that_vanishes_takes_its_machine_with_it_and_its_token_is_spent() {
    let (provider, cloud, machines) = cloud();
    let request = request("gone", json!({"faults": {"vanishAfter": "30ms"}}));
    create(&provider, &request).await.unwrap();
    machines.wait(&["gone"]).await;
    machines.wait(&[]).await;
    while cloud.count() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(create(&provider, &request).await.unwrap().state, State::Failed(_)));
    assert_eq!(cloud.count(), 0, "a spent token made an instance");
}

#[tokio::test]
async fn user_data_that_is_missing_is_not_found_and_nothing_is_made() {
    let (provider, cloud, _) = cloud();
    let mut request = request("bare", json!({}));
    request.secrets = Arc::default();
    let error = create(&provider, &request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("userDataSecret"), "{error}");
    assert_eq!(cloud.count(), 0);
}

#[tokio::test]
async fn an_instance_that_another_machine_made_is_neither_found_nor_deleted_by_its_provider_id() {
    let (provider, cloud, machines) = cloud();
    let mine = request("mine", json!({}));
    let id = create(&provider, &mine).await.unwrap().provider_id;
    machines.wait(&["mine"]).await;
    let mut thief = request("thief", json!({}));
    thief.provider_id = id;
    assert!(look(&provider, &thief).await.is_empty());
    assert_eq!(provider.delete(&thief).await.unwrap(), Deletion::Gone);
    assert_eq!((cloud.count(), machines.running()), (1, vec!["mine".to_owned()]));
}
